"""A plugin of InfluxDB 3's processing engine: predicts each written row before it learns it, writes bands and alarms.

Install streamgp where the database runs, put this file into its plugin folder, and create a trigger:

    influxdb3 install package streamgp
    influxdb3 create trigger --database plant --plugin-filename streamgp_alarms.py --trigger-spec "table:boiler" \\
        --trigger-arguments target=power,inputs=temperature,folder=/var/lib/influxdb3/streamgp boiler_alarms

Arguments of the trigger: target (required), inputs (with dots between them; none: the past of the target alone), rate
(false alarms for each row, 0.001), lags (5), folder (where models are kept; none: they begin anew with the database).
It writes TABLE_prediction (mean, lower, upper) and TABLE_alarm (kind, surprise), with the tags of the rows. Each set of
tags has a model of its own.
"""

import hashlib
import os
import threading

import streamgp as sg

_models = {}  # by file name
_lock = threading.Lock()


def process_writes(influxdb3_local, table_batches, args=None):
    """Called by InfluxDB after rows were written, grouped by table."""
    args = args or {}
    target = args.get("target")
    if not target:
        influxdb3_local.error("streamgp: the trigger needs an argument target, the field to predict")
        return
    inputs = [name for name in args.get("inputs", "").split(".") if name]
    with _lock:
        for batch in table_batches:
            table = batch["table_name"]
            if table.endswith(("_prediction", "_alarm")):  # what was written below; a trigger for all tables brings it
                continue
            changed = set()
            skipped = 0
            for row in sorted(batch["rows"], key=lambda row: row["time"]):
                values = [_number(row.get(name)) for name in [*inputs, target]]
                if None in values:
                    skipped += 1
                    continue
                tags = {name: value for name, value in row.items() if isinstance(value, str) and value}
                name = _file_name(table, target, inputs, tags)
                model = _model(name, args)
                changed.add(name)
                _judge(influxdb3_local, table, tags, row["time"], model, values[:-1], values[-1])
            if skipped:
                influxdb3_local.warn(f"streamgp: {skipped} rows of {table} lack {target} or an input")
            for name in changed if args.get("folder") else ():
                _models[name].save(os.path.join(args["folder"], name))


def _judge(influxdb3_local, table, tags, time, model, x, y):
    """Predict, learn and write one row."""
    predicted = model.predict_one(x)
    lower, upper = predicted.interval()
    fields = {"mean": predicted.mean, "lower": lower, "upper": upper}
    _write(influxdb3_local, f"{table}_prediction", tags, time, fields)
    model.learn_one(x, y)
    judged = model.last
    if judged is not None and judged.alarm:
        _write(influxdb3_local, f"{table}_alarm", {**tags, "kind": judged.alarm}, time, {"surprise": judged.surprise})


def _write(influxdb3_local, table, tags, time, fields):
    told = {name: float(value) for name, value in fields.items() if abs(float(value)) < float("inf")}
    if told:
        line = LineBuilder(table)  # noqa: F821 - InfluxDB puts it among the builtins
        for name, value in tags.items():
            line.tag(name, value)
        for name, value in told.items():
            line.float64_field(name, value)
        line.time_ns(int(time))
        influxdb3_local.write(line)


def _number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(float(value)) < float("inf") else None


def _file_name(table, target, inputs, tags):
    """The file of a model; a series is known by its table and its tags."""
    text = repr((table, target, inputs, sorted(tags.items())))
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.sgp"


def _model(name, args):
    if name not in _models:
        path = os.path.join(args["folder"], name) if args.get("folder") else ""
        if path and os.path.exists(path):
            _models[name] = sg.load(path)
        else:
            inner = sg.Lagged(sg.Calibrated(sg.Standardize(sg.KRLST())), lags=int(args.get("lags", 5)))
            _models[name] = sg.Alarms(inner, rate=float(args.get("rate", 0.001)))
    return _models[name]
