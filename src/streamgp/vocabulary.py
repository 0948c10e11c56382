"""The settings that several classes share, each described once: its type, meaning, unit and check."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np

from streamgp.settings import FloatArray, Setting, duration, number, one_of, optional, real_matrix, whole

TARGET2 = "squared unit of the target"
INPUTS = "unit of the inputs"
PER_INPUT = "1 / unit of the inputs"

# Models refuse a smaller variance of the noise: what is divided by it would overflow.
LEAST_NOISE = 1e-100

positive = partial(number, above=0)
not_negative = partial(number, at_least=0)


def loadings(name: str, value: Any) -> int | FloatArray:
    """A whole number of at least 1, or a matrix of finite numbers."""
    if np.ndim(value) == 0:
        return whole(name, value)
    return real_matrix(name, value, "(d, k), a row for each input, or be a number k of factors")


part_of_one = partial(number, above=0, at_most=1)

# The prior.
Lengthscale = Annotated[
    float | str | list[float] | FloatArray | None,
    Setting('one, or one for each input (ARD); over time also "3h" or a timedelta; None: sqrt(d)', INPUTS),
]
Factors = Annotated[
    int | list[list[float]] | FloatArray | None,
    Setting(
        "loadings Lambda (d, k), the same at every lag, of a distance (x - z)' (Lambda Lambda' + diag(lengthscale)^-2) "
        "(x - z), or their number k: small random ones to start from; None: none",
        PER_INPUT,
        optional(loadings),
    ),
]
Variance = Annotated[float, Setting("prior variance of the function", TARGET2, positive)]
ShortLengthscale = Annotated[Lengthscale, Setting("of the default kernel, in place of kernel=; None: sqrt(d)")]
StateLengthscale = Annotated[
    Lengthscale,
    Setting(
        "lengthscale of the default kernel, in place of a kernel of your own: one, or one for each unit and input; "
        "None: sqrt(units + d)",
        "unit of states and inputs",
    ),
]
ShortVariance = Annotated[
    float | None,
    Setting("prior variance of the default kernel, in place of kernel=; None: 1", TARGET2),
]
TemporalLengthscale = Annotated[
    float, Setting("sigma_rho; the nearer to 1 from above, the longer the memory", check=positive)
]
Jitter = Annotated[
    float,
    Setting(
        "independent variance of every function value, relative to its prior variance and part of the prior",
        check=not_negative,
    ),
]
Noise = Annotated[
    float | list[float] | FloatArray,
    Setting('variance of the observation noise; one for each output with outputs="separate"', TARGET2),
]
OneNoise = Annotated[
    float, Setting("variance of the observation noise", TARGET2, partial(number, above=0, at_least=LEAST_NOISE))
]

# The basis.
ABSORB = ("fitc", "dtc")
EVICT = ("paper", "kl", "error", "oldest", "never")
REMOVAL = ("marginal", "kl", "discard")
Capacity = Annotated[int, Setting("most basis points", "points", whole)]
Novelty = Annotated[
    float,
    Setting(
        "a row is admitted when gamma2 >= novelty * k(x, x); 0 admits every row while there is room",
        check=not_negative,
    ),
]
Absorb = Annotated[
    str,
    Setting(
        'how a row that is not admitted is learned: "fitc" counts its residual gamma2 as noise, "dtc" drops it',
        check=one_of(*ABSORB),
    ),
]
Evict = Annotated[
    str,
    Setting(
        'who leaves: the lowest "paper" score |alpha| / (Q + C), "kl" alpha^2 / (Q + C) or "error" |alpha| / Q (2-norm '
        'over outputs), the "oldest", or "never" anyone: then a full basis absorbs every row',
        check=one_of(*EVICT),
    ),
]
Removal = Annotated[
    str,
    Setting(
        '"marginal" (the others\' joint distribution stays), "kl" (the other direction of the divergence), or '
        '"discard" (its observation leaves, too: the exact GP on the rows that are kept)',
        check=one_of(*REMOVAL),
    ),
]

# Fourier features.
Frequencies = Annotated[int, Setting("D, the number of frequencies; there are 2 D weights", "frequencies")]
GivenFrequencies = Annotated[
    Any,
    Setting("a (D, d) matrix of frequencies, already divided by the lengthscales, in place of random ones", PER_INPUT),
]
SpectralOrder = Annotated[
    float | None, Setting("None for the squared exponential; 0.5, 1.5 or 2.5 for the Matern kernel of that order")
]
Orthogonal = Annotated[
    bool, Setting("draw the frequencies in orthogonal blocks: a better approximation of the kernel for the same D")
]

# Memory.
Depth = Annotated[int, Setting("inputs in the window, the present one included; 1 is no memory", "rows", whole)]
Units = Annotated[int, Setting("number of units", "units", whole)]
SpectralRadius = Annotated[
    float,
    Setting("largest modulus of the eigenvalues of the recurrent weights; below 1 the past fades", check=not_negative),
]
Retention = Annotated[float, Setting("the part of the old state that is kept, in [0, 1)", check=not_negative)]
Connectivity = Annotated[
    float, Setting("the part of the recurrent weights that is not zero, in (0, 1]", check=part_of_one)
]
InputScale = Annotated[float, Setting("input weights are uniform in [-input_scale, input_scale]", PER_INPUT, positive)]
Feedback = Annotated[
    Any,
    Setting(
        "None, a scale of random weights, or a (units, p) matrix fed with the last target", "1 / unit of the target"
    ),
]

# The rest.
Seed = Annotated[int, Setting("of the random weights", check=partial(whole, at_least=0))]
FrequencySeed = Annotated[Seed, Setting("of the frequencies")]
Outputs = Annotated[
    str,
    Setting(
        '"shared" (one covariance for all outputs) or "separate" (one for each; any target may be missing)',
        check=one_of("shared", "separate"),
    ),
]
FORMS = ("covariance", "cholesky")
Form = Annotated[
    str,
    Setting(
        '"covariance", or "cholesky" (the information form: a triangular factor, updated by rotations; for features '
        "with a fixed number of weights)",
        check=one_of(*FORMS),
    ),
]
Forgetting = Annotated[
    float,
    Setting("factor in (0, 1]; the memory is about 1 / (1 - factor) rows long, 1 forgets nothing", check=part_of_one),
]
HalfLife = Annotated[
    float | str | None,
    Setting(
        "time after which half of what was learned is forgotten, in place of forgetting by rows: a number in the unit "
        'of ``time=``, or "2h" or a timedelta; every learned row then needs its time',
        "unit of the time",
        optional(duration),
    ),
]
Step = Annotated[
    float,
    Setting(
        "the coefficient over the error: a row makes good the part step * k(x, x) of its own error; keep that below 1",
        "1 / unit of the kernel",
        positive,
    ),
]
Terms = Annotated[Capacity, Setting("most terms", "terms")]
