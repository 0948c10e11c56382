"""``streamgp run`` from Python: a table in, calibrated predictions out, an observer for what happens on the way."""

from streamgp.job import Job, Observer
from streamgp.job.demonstration import write_demo


class Printer(Observer):
    def note(self, sentence):
        print(sentence)


write_demo("plant.csv", rows=1200)
summary = Job("plant.csv", "power", model="KRLST", lags=3, out="predictions.csv", observers=[Printer()]).run()
scores = summary.pipeline.score_summary()
print(f"{summary.rows} rows, RMSE {scores['rmse']:.1f}, coverage of 90% intervals {scores['coverage']:.3f}")
