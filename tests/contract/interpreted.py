"""What every model predicts on a short stream; as a program, written to the file that is named."""

from __future__ import annotations

import sys

import numpy as np

from tests.contract.models import EXAMPLES, D


def predictions(rows=45):
    """By model and output: means, variances and noises of rows that are tracked, the last ones without targets."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, D))
    Y = np.sin(X[:, :2]) + 0.1 * rng.normal(size=(rows, 2))
    found = {}
    for name, build in EXAMPLES.items():
        if "auto" in name.lower():  # made of the others; building it takes minutes without compiling
            continue
        for kind, targets in {"scalar": Y[:, 0], "vector": Y}.items():
            model = build()
            said = [model.track(X[:-5], targets[:-5]), model.track(X[-5:]), model.predict_many(X[:3])]
            for part in ("mean", "variance", "noise"):
                found[f"{name}, {kind}, {part}"] = np.concatenate([getattr(p, part) for p in said])
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **predictions())
