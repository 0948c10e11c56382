"""What an online Gaussian process holds: its plan, its counters and its arrays, each listed once."""

from __future__ import annotations

from typing import Any

from streamgp.arrays import MOST, Layout, fields
from streamgp.process import memory

Process = Any  # an OnlineGP, where a part of it is handed the whole

# What the last row did.
NOTHING, ABSORBED, ADMITTED, REPLACED = range(4)

# Phases of adaptation: the basis settles, gradients are gathered while it is frozen, it may change, no more.
SETTLING, GATHERING, RESTING, STOPPED = range(4)

# Fixed when the first row arrives.
PLAN = fields(
    "outputs covariances "  # 1 covariance, or one for each output
    "shared "  # whether there is one, and the outputs of a row are missing together
    "weights "  # of features of fixed number; room for those of a growing basis
    "temporal "  # coordinates beside the features: of the kernel over time, then the mean's; 0: none
    "mean_weights "  # of a LinearMean: the last of those coordinates
    "features likelihood "  # which kinds
    "feedback "  # whether the memory is fed with targets
    "factored "  # information form
    "least_squares "  # no noise: S stands for S / noise
    "batch capacity absorb evict removal injects "
    "check_every "  # rows after which injected uncertainty is compared with the prior; 0: never
    "power "  # whether the power of the signal is estimated
    "theta "  # hyperparameters that adapt; 0: none
    "interval rest patience rebuild "
    # Where functions are that loops call by their address (compiled.apart); 0: the model never does.
    "kernel_values as_gaussian before_learning arrive pass_time report_components",
    "retention jitter novelty "
    "weight_scale "  # of linear features: standard deviation of a weight
    "covariance_scale covariance_fresh mean_scale "  # forgetting by rows: S <- covariance_scale S + covariance_fresh I
    "half_life "  # forgetting by the time between rows instead; 0: by rows
    "dof "  # degrees of freedom of Student-t noise
    "rate decay longest tolerance damping",
)

# What changes row by row.
COUNTERS = fields(
    "rows_seen "
    "points "  # basis points in use
    "change "
    "evictions "  # points that left at the last row
    "refreshed "  # the point whose scores were computed anew last
    "rows_since_check capped_directions negative_residuals skipped_rows unresolved_rows indistinct_points "
    "reduced_steps phase phase_rows moves calm rows_adapted path_points path_stride"
)

STATE = memory.ARRAYS | {
    "noise": "covariances",  # a squared scale where it is not Gaussian
    "parameters": "parameters",  # hyperparameters of the kernel; the variance of Fourier features
    "frequencies": "frequencies width",
    "basis": "points width",
    "prior": "points",  # K_ii
    "factor": "points points",  # R with K = R'R, upper triangle
    "inverse_diagonal": "points",  # Q_ii, Q = K^-1
    "weight_variance": "scored points",  # (R^-1 S R^-T)_ii, of the weights of kernel functions
    "mu": "coordinates outputs",  # z in the information form
    "covariance": "matrices coordinates coordinates",  # S, lower triangle; R, upper triangle, in the information form
    "targets": "kept outputs",  # of the basis points
    "power": "2 covariances",  # discounted sums of e^2 / s and of 1, whose ratio scales the variances
    # Time of the last learned row, NaN: none; half-lives since injection was capped; with a kernel over time also the
    # time of the last row seen, and the latest.
    "clock": "clock covariances",
    "spacing": "spacing",  # with a kernel over time: how far apart rows usually are (contract/spacing.py)
    "evicted": "points",  # which points left at the last row, in order
    "gradient": "theta",  # sum over the interval, by log hyperparameters (loadings as they are), the noise last
    "fisher": "theta theta",
    "average": "theta",  # of the path
    "residual": "2 covariances",  # sum of 1 / (gamma2 + noise) over learned rows, and how many
    "density": "1",  # running log density
    "path": "path path_columns",  # row, running log density, hyperparameters
}

WORK = {
    "operations": "steps 5 integers",  # of the kernel's program
    "seen": "width",
    "predicted": "width",  # what was seen when a row was last predicted
    "last_prediction": "4",  # whether that still holds; its kappa, gamma2 and time
    "y": "outputs",
    "mean_now": "outputs",
    "variance_now": "covariances",
    "noise_now": "covariances",  # of the row
    "scale": "covariances",  # what is forgotten at the row: S <- scale S + fresh I, mu <- mean_scale mu
    "fresh": "covariances",
    "mean_scale": "covariances",
    "clock_before": "clock covariances",  # of the first two rows: before the row was met
    "k": "weights",  # k(B, x)
    "phi": "coordinates",
    "h": "covariances coordinates",  # S phi
    "a": "coordinates",  # R^-1 phi
    "d": "coordinates",  # R^-1 h
    "alpha": "weights outputs",  # R^-1 mu
    "score": "weights",
    "column": "weights",  # of a factor, in new coordinates
    "cosine": "coordinates",
    "sine": "coordinates",
    "carried": "coordinates",
    "kernel_value": "1",  # k(x, z) of one pair
    "kernel_scratch": "kernel_scratch",
    # Of gradients (adapt/gradient.py), where hyperparameters adapt.
    "prepared": "1",  # whether the derivatives are those of the present basis and hyperparameters
    "derivatives": "derivatives points points",  # of K on the frozen basis
    "growth": "derivatives",  # of the mean prior variance
    "slopes": "2 adapted_outputs theta",
    "by_mean": "adapted_outputs",
    "d_k": "derivatives adapted",
    "d_kappa": "derivatives 1",
    "values": "adapted",  # k(B, x), of which nothing is used
    "old_mu": "adapted_coordinates adapted_outputs",
    "old_alpha": "adapted adapted_outputs",
    "old_h": "adapted_coordinates",
    "g": "adapted",  # R^-1 (h - phi)
    "u": "adapted",  # dK g
    # Of the kernel over time (process/time.py): its blocks, their features, and their steps for the time elapsed.
    # The weights of a mean are blocks that stay; their features are those of the row.
    "table": "blocks 5",
    "feature": "temporal",
    "A": "blocks 3 3",
    "Q": "blocks 3 3",
    "back": "temporal",  # A' feature: what the function of a later time is made of now
    "new": "temporal",  # Q feature
    # Time of the row, since the last learned one, and of which A and Q are; variance that is new since, and prior's.
    "now": "now",
}

INDICES: dict[str, tuple[int, int | str]] = {
    "points": (0, "capacity"),
    "evictions": (0, "points"),
    "path_points": (0, "path"),
    "path_stride": (1, MOST),
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK, INDICES, triangles=("factor", "covariance"))


def outputs_of(j: int, covariances: int) -> slice:
    """The outputs that have covariance j: one, or all where they share it."""
    return slice(j, j + 1) if covariances > 1 else slice(None)
