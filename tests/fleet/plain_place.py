"""What stands for a GPU that runs kernels: columns in ordinary memory, each brought to the cores for its rows."""

import numpy as np

from streamgp.fleet.gpu import GpuEngine


def columns(device, precision, model, size, threads, waits):  # noqa: ARG001
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

    def run(self, loop, numbers, array, given):
        models, starts, ops, X, Y, conditions, kept, out = given
        status = np.zeros(len(models), dtype=np.int64)
        for k, model in enumerate(models):
            records, column = numbers.records.copy(), array[:, model]
            counted = numbers.counted
            for name, bits in zip(counted, column[: len(counted)].copy().view(np.int64), strict=True):
                records["counters"][name] = bits
            buffers, own = column[len(counted) :].copy()[None], np.array([starts[k], starts[k + 1]])
            status[k], _, _ = loop(
                *(records, buffers, np.zeros(1, np.int64), own, ops, X, Y, conditions, kept, out, 0, int(own[0]))
            )
            column[: len(counted)] = np.array([records["counters"][name][0] for name in counted]).view(np.float64)
            column[len(counted) :] = buffers[0]
        return status
