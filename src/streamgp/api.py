"""The public names, imported: what ``import streamgp as sg`` shows under ``sg``."""

from streamgp import batch, data, filters
from streamgp.adapters.from_gpytorch import from_gpytorch
from streamgp.adapters.from_sklearn import from_sklearn
from streamgp.auto.auto import Auto
from streamgp.auto.tuned import Tuned
from streamgp.batch.evidence import Evidence
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.snapshot import SnapshotError
from streamgp.encoded.encoder import TrainedEncoder
from streamgp.encoded.model import Encoded
from streamgp.fleet.fleet import Fleet
from streamgp.job.run import Run, run
from streamgp.kernels import (
    Constant,
    LinearKernel,
    Matern,
    Periodic,
    RationalQuadratic,
    RecursiveSquaredExponential,
    SquaredExponential,
    Trend,
)
from streamgp.loading import from_bytes, load
from streamgp.local import LWPR, LocalGP
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Fourier, Linear
from streamgp.process.forgetting import BackToPrior, Injection
from streamgp.process.likelihood import Gaussian, Poisson, Probit, StudentT
from streamgp.process.mean import LinearMean
from streamgp.process.memory import Reservoir, Window
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.predictive import ClassPrediction, CountPrediction, StudentTPrediction, TimePrediction
from streamgp.process.prior import Prior
from streamgp.recipes.gijsberts2013 import IRFRR, ISSGPR
from streamgp.recipes.huber2013 import RecursiveGP, grid, kmeans
from streamgp.recipes.naive import InputValue, RunningMean, SeasonalValue
from streamgp.recipes.soh2014 import OESGP, OIESGP, RLSESN, SOGP
from streamgp.recipes.time import TimeGP
from streamgp.recipes.vanvaerenbergh2016 import FBKRLS, KRLS, KRLST, SWKRLS
from streamgp.tuning.forecaster import Forecaster, SeriesForecast
from streamgp.tuning.tune import tune
from streamgp.wrappers.ahead import Ahead
from streamgp.wrappers.alarms import Alarms
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.columns import Columns, Differenced
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.delayed import Delayed
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.horizons import CalibratedForecasts
from streamgp.wrappers.lagged import Lagged
from streamgp.wrappers.standardize import Standardize

__all__ = [
    "FBKRLS",
    "IRFRR",
    "ISSGPR",
    "KRLS",
    "KRLST",
    "LWPR",
    "OESGP",
    "OIESGP",
    "RLSESN",
    "SNGD",
    "SOGP",
    "SWKRLS",
    "Ahead",
    "Alarms",
    "Auto",
    "BackToPrior",
    "Basis",
    "Budget",
    "Calibrated",
    "CalibratedForecasts",
    "CalibratedPrediction",
    "ClassPrediction",
    "Columns",
    "Committee",
    "Constant",
    "CountPrediction",
    "Delayed",
    "Differenced",
    "DriftAware",
    "Encoded",
    "Evidence",
    "Fleet",
    "Forecaster",
    "Fourier",
    "Gaussian",
    "Injection",
    "InputValue",
    "JointPrediction",
    "Lagged",
    "Linear",
    "LinearKernel",
    "LinearMean",
    "LocalGP",
    "Matern",
    "OnlineGP",
    "Periodic",
    "Poisson",
    "Prediction",
    "Prior",
    "Probit",
    "RationalQuadratic",
    "RecursiveGP",
    "RecursiveSquaredExponential",
    "Reservoir",
    "Run",
    "RunningMean",
    "SeasonalValue",
    "SeriesForecast",
    "SnapshotError",
    "SquaredExponential",
    "Standardize",
    "StreamModel",
    "StudentT",
    "StudentTPrediction",
    "TimeGP",
    "TimePrediction",
    "TrainedEncoder",
    "Trend",
    "Tuned",
    "Window",
    "batch",
    "data",
    "filters",
    "from_bytes",
    "from_gpytorch",
    "from_sklearn",
    "grid",
    "kmeans",
    "load",
    "run",
    "tune",
]
