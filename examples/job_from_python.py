"""``streamgp run`` from Python: a table in, calibrated predictions out, and what happens on the way."""

import streamgp as sg
from streamgp.job.demonstration import write_demo

write_demo("plant.csv", rows=1200)
run = sg.run("plant.csv", "power", model="KRLST", lags=3, out="predictions.csv", verbose=True)
print(run)
print(f"RMSE {run.scores['rmse']:.1f}, of the previous value {run.scores['rmse_previous_value']:.1f}")
