"""The code of docs/coming-from-river.md, which explains it."""

from river import datasets, evaluate, metrics
from streamgp.adapters.river import StreamRegressor

model = StreamRegressor()
print(evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE()))

x, y = next(iter(datasets.TrumpApproval()))
interval = model.predict_one(x, with_interval=True)  # a river.conf.Interval: the calibrated bounds
gaussian = model.predict_one(x, with_dist=True)  # a river.proba.Gaussian of the observation
print(interval.lower, interval.upper, y in interval, gaussian.mu, gaussian.sigma, gaussian.cdf(45.0))

from river import compose

polls = compose.Discard("ordinal_date") | StreamRegressor()
print(evaluate.progressive_val_score(datasets.TrumpApproval(), polls, metrics.MAE(), moment="ordinal_date", delay=7))

from datetime import date

import matplotlib.pyplot as plt

model, days, low, high, polled = StreamRegressor(), [], [], [], []
for x, y in datasets.TrumpApproval():
    interval = model.predict_one(x, with_interval=True)
    model.learn_one(x, y)
    days.append(date.fromordinal(x["ordinal_date"]))
    low.append(interval.lower)
    high.append(interval.upper)
    polled.append(y)
figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
axis.fill_between(days, low, high, color="tab:blue", alpha=0.3, lw=0, label="90% interval, before the poll")
axis.plot(days, polled, ".", ms=3, color="0.3", label="approval")
axis.set(ylabel="approval (%)", ylim=(34, 48))
axis.legend(frameon=False, ncols=2)
figure.savefig("from-river.png", dpi=110)

import random
from river import preprocessing

random.seed(0)
shops = {"north": 100.0, "east": 140.0, "south": 80.0}
sales = [{"shop": random.choice(list(shops)), "price": random.random()} for _ in range(300)]
dataset = [(x, shops[x["shop"]] - 9 * x["price"]) for x in sales]
encode = compose.Select("price") + (compose.Select("shop") | preprocessing.OneHotEncoder())
model = encode | StreamRegressor()
print(evaluate.progressive_val_score(iter(dataset), model, metrics.RMSE()), model["StreamRegressor"].columns)
