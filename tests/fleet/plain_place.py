"""What stands for a GPU that runs kernels: columns in ordinary memory, each brought to the cores for its rows."""

import numpy as np

from streamgp.compiled import address_of
from streamgp.contract.checks import check
from streamgp.contract.lanes import PREDICT
from streamgp.cuda.record import UnfitError
from streamgp.fleet.gpu import GpuEngine
from streamgp.wrappers import conformal, single


def columns(device, precision, model, size, threads):  # noqa: ARG001
    """The engine of a GPU that runs the kernels of any recipe, on the cores."""
    return GpuEngine(model, size, threads or 2, PlainPlace())


class PlainPlace:
    """See streamgp.cuda.columns.Place."""

    def zeros(self, rows, columns):
        return np.zeros((rows, columns))

    def move(self, source, which, target):
        target[:, : len(which)] = source[:, which]

    def read(self, array, rows):
        return array[rows].copy()

    def write(self, array, rows, values):
        array[rows] = values

    def read_column(self, array, i):
        return array[:, i].copy()

    def write_columns(self, array, which, first, values):
        array[first : first + values.size, which] = values.reshape(-1, 1)

    def sent(self, values):
        return values.copy()

    back = sent

    def block(self, shape):
        return np.full(shape, np.nan)

    def run(self, loop, numbers, array, given, around=(), largest=None):
        models, starts, ops, X, Y, conditions, kept, out = given
        if largest is not None and check(X, Y, bool(numbers.plan["shared"][0]), largest)[0]:
            raise UnfitError
        if not (ops[:, 1] & PREDICT).all():
            out[...] = 0.0
        status, kept_there = np.zeros(len(models), dtype=np.int64), kept.copy()
        for k, model in enumerate(models.tolist()):
            own, of = (np.zeros(1, np.int64), starts[k : k + 2].copy()), (X, Y.copy(), conditions, kept_there)
            records, buffers, back = alone(numbers.records, array, model, len(numbers.counted))
            if not around:
                status[k], _, _ = loop(records, buffers, *own, ops, *of, out, 0, int(starts[k]))
            else:
                *units, calibrated, calibrations, wider = around
                units = [array[model : model + 1].copy() if len(array) else array for array in units]
                if len(calibrated):
                    calibrated, calibrations, calibrations_back = alone(calibrated, calibrations, model, 1)
                rooms = np.zeros(X.shape), np.zeros(Y.shape)  # the loop looks at all of them
                status[k], _, _ = single.take(
                    *(address_of(loop), address_of(conformal.calibrate), records, buffers, *own, ops, *of, np.inf),
                    *(*units, calibrated, calibrations, wider, 0, out, *rooms, 0, 0),
                )
                if len(around[0]):
                    around[0][model] = units[0][0]
                if len(calibrated):
                    calibrations_back()
            back()
        kept[...] = kept_there
        return status


def alone(records, array, model, counted):
    """The record and the buffer of one model, and what writes them back."""
    records, buffers = records.copy(), array[counted:, model].copy()[None]
    names = records["counters"].dtype.names
    for name, bits in zip(names, array[:counted, model].copy().view(np.int64), strict=True):
        records["counters"][name] = bits

    def back():
        array[:counted, model] = np.array([records["counters"][name][0] for name in names]).view(np.float64)
        array[counted:, model] = buffers[0]

    return records, buffers, back
