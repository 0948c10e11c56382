"""What was asked for, a model, its settings and those of the run, checked before the first row; and that model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NoReturn

from streamgp.auto import features
from streamgp.auto.auto import Auto
from streamgp.auto.candidates import CANDIDATES, DEFAULT, candidate, seconds
from streamgp.auto.forest import without_trees
from streamgp.auto.tuned import Tuned
from streamgp.contract.model import Shape, StreamModel
from streamgp.job.named import kind_by_name, model_by_name, value_of
from streamgp.settings import Configured, Setting, nearest, one_of, optional, probability, switch, whole
from streamgp.tables.columns import Schema
from streamgp.tables.declared import declared_columns
from streamgp.tables.numbers import MARKS
from streamgp.tables.source import RowsError
from streamgp.wrappers.ahead import Ahead
from streamgp.wrappers.alarms import Alarms, rate_of
from streamgp.wrappers.lagged import Lagged

AUTO = "auto"
MOST_PENDING = 100_000  # rows that wait for their targets
MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DEFAULT_LAGS = 10  # ahead of time, or where the target's own past is all there is to predict from
FOR_AUTO = {  # settings of a run that other models do not have
    "budget": "which chooses its models by it; {} takes the time that its settings need, such as its capacity",
    "trees": "which has them among its experts; {} is a model of its own",
}


def _checked_rate(name: str, value: Any) -> Any:
    rate_of(name, value)
    return value


class RunSettings(Configured):
    """The settings of a run beside those of its model."""

    def __init__(
        self,
        *,
        level: Annotated[
            float, Setting("share of the targets that the intervals are to cover", check=probability)
        ] = 0.9,
        warmup: Annotated[
            int, Setting("rows after which models are chosen and tuned for good", "rows", partial(whole, at_least=10))
        ] = 1000,
        tune: Annotated[bool, Setting("whether to tune hyperparameters on the first rows", check=switch)] = True,
        drift: Annotated[bool, Setting("whether to look for changes of the stream", check=switch)] = True,
        screen: Annotated[
            bool, Setting("whether targets that look like fill values count as missing", check=switch)
        ] = True,
        budget: Annotated[
            Any,
            Setting(
                'processor time that a row of auto may take once models are chosen, "200us", "1ms"...; None: any',
                "seconds",
                optional(lambda _, value: seconds(value)),
            ),
        ] = DEFAULT,
        trees: Annotated[
            bool | None,
            Setting(
                "whether trees are among the experts of auto, trained by LightGBM; None: if it is installed",
                check=optional(switch),
            ),
        ] = None,
        pending: Annotated[
            int,
            Setting(
                "rows that can wait for late targets; one more, and the oldest expires",
                "rows",
                partial(whole, at_most=MOST_PENDING),
            ),
        ] = 1000,
        decimal: Annotated[
            str | None,
            Setting(
                'decimal mark of numbers in text, "." or ","; None: the first rows tell',
                check=optional(one_of(*MARKS)),
            ),
        ] = None,
        schema: Annotated[
            Any,
            Setting(
                "what columns are, by name: number, category, time or ignore, with unit, levels and values that stand "
                "for missing ones; None: the first rows tell",
                check=optional(declared_columns),
            ),
        ] = None,
        alarms: Annotated[
            Any,
            Setting(
                'false alarms for each row, 1e-3, or for a length of time, "1/week"; None: rows are not judged',
                check=optional(_checked_rate),
            ),
        ] = None,
    ) -> None:
        self.level, self.warmup, self.tune, self.drift = level, warmup, tune, drift
        self.screen, self.budget, self.pending, self.decimal = screen, budget, pending, decimal
        self.alarms, self.schema, self.trees = alarms, schema, trees


class Request:
    """What was asked for.

    Args:
        model: the name of a model, or "auto".
        settings: of the model and of the run (RunSettings) by name, as text or values.
        horizon: rows ahead.
        late: targets may come in later rows than their own.
    """

    def __init__(
        self, model: str = AUTO, settings: Mapping[str, Any] | None = None, horizon: int = 0, late: bool = False
    ) -> None:
        self.model, self.settings, self.horizon, self.late = model, dict(settings or {}), horizon, late
        if model != AUTO:
            kind_by_name(model)  # before anything is compiled
        given = {key: value_of(value) for key, value in self.settings.items() if key in run_settings(model)}
        self.run = RunSettings(**given)  # those that are not the model's
        if "pending" in given and not late:
            raise ValueError("pending counts rows whose targets come late; it needs `ticket`")
        known = setting_names(model)
        for name, why in FOR_AUTO.items():
            if name in self.settings and name not in known:
                raise ValueError(f"`{name}` is for auto, {why.format(self.model)}")
        if self.run.trees and (why := without_trees()):
            raise ValueError(f"`trees`: {why}")
        if self.by_time and "half_life" not in known:
            raise ValueError(
                f"{self.model} cannot forget by the time between rows; use `half_life` with KRLST, RLSESN or auto, "
                "whose KRLST members then forget by it"
            )
        if "prior" in self.settings and "prior" not in known:
            raise ValueError(f"{self.model} takes no `prior`; KRLST and auto do")
        for name in self.settings:
            if name.partition("__")[0] not in known:
                who = "no candidate of auto has a" if self.model == AUTO else f"{self.model} has no"
                raise ValueError(f"{who} setting {name!r}.{nearest(name, known)} Settings: {', '.join(sorted(known))}")
        waits = f"{self.horizon} rows" if self.horizon > 1 else "any rows" if self.late else ""
        if self.model != AUTO and waits and _remembers(self.build(1)):
            raise ValueError(
                f"{self.model} keeps a memory of its inputs and cannot wait {waits} for a target; "
                "use `lags` for the past, with a model such as KRLST, SOGP or ISSGPR (depth=1)"
            )

    @property
    def by_time(self) -> bool:
        """Whether a half-life was asked for."""
        return value_of(self.settings.get("half_life")) is not None

    def chosen_after(self) -> int:
        """After how many rows models are chosen for good."""
        return self.run.warmup + self.horizon

    @property
    def own(self) -> dict[str, Any]:
        """The settings that are the model's."""
        return {key: value_of(value) for key, value in self.settings.items() if key not in run_settings(self.model)}

    def build(self, d: int) -> StreamModel:
        """A model as was asked for, which has learned nothing, for d inputs in standard units; of auto a candidate."""
        return candidate("KRLST", d, self.own) if self.model == AUTO else model_by_name(self.model, d, self.own)


def told_of_columns(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What settings say of the columns, as ``recognize`` takes it: the decimal mark, and a schema."""
    given = settings or {}
    schema = given.get("schema")
    return {
        "decimal": value_of(given.get("decimal")),
        "declared": None if schema is None else declared_columns("schema", schema),
    }


def setting_names(model: str) -> set[str]:
    """The settings that a run with a model, or with auto, can be given."""
    if model == AUTO:
        own = {"prior"}.union(*CANDIDATES.values())
    else:
        own = set(Configured.registry[model].setting_names()) if model in Configured.registry else set()
    return own.union(run_settings(model))


def run_settings(model: str) -> set[str]:
    """Those that are not the model's: OnlineGP has a budget of its own, of points."""
    return set(RunSettings.setting_names()).difference(() if model == AUTO else FOR_AUTO)


def _remembers(model: StreamModel) -> bool:
    settings = model.get_params()
    return settings.get("depth", 1) > 1 or any(name in settings for name in ("units", "reservoir", "encoder"))


def default_lags(schema: Schema, model: str, horizon: int) -> int:
    """Without other inputs, or ahead of time, a few; auto lets models with and without them compete."""
    own = len(schema.input_names)
    if model == AUTO:
        return features.default_lags(own, schema.seasons, horizon)
    return 0 if own and not horizon else DEFAULT_LAGS


def checked_lags(schema: Schema, request: Request, lags: int | None) -> int:
    """How many past targets are inputs: those that were asked for, or the default."""
    own = len(schema.input_names)
    lags = default_lags(schema, request.model, request.horizon) if lags is None else whole("lags", lags, at_least=0)
    if own + lags > MOST_INPUTS:
        raise ValueError(
            f"a row would have {own + lags} inputs ({own} of the columns, {lags} lags); the limit is {MOST_INPUTS}. "
            "Select columns with `inputs`, or lower `lags`"
        )
    if own + lags == 0:
        raise RowsError("nothing to predict from: the target is the only column in use; give `lags=10`, or `inputs`")
    return lags


def stream_model(schema: Schema, request: Request, lags: int) -> StreamModel:
    """Return a model that predicts calibrated intervals, of the row or of one ``horizon`` rows ahead.

    Whenever the target of a row comes, it is learned at the row that its prediction was made from.

    Args:
        schema: what the columns are.
        request: which model, how, and how far ahead.
        lags: past targets that are inputs.
    """
    own, run = len(schema.input_names), request.run
    common: dict[str, Any] = {name: getattr(run, name) for name in ("level", "warmup", "tune", "drift", "screen")}
    model: StreamModel
    if request.model == AUTO:
        candidates = request.own
        prior = candidates.pop("prior", None)
        common |= {"budget": run.budget, "trees": run.trees, "candidates": candidates or None}
        model = Auto(lags=lags, prior=prior, seasons=list(schema.seasons), **common)
    else:
        model = Tuned(request.build(own + lags), **common)
        model = Lagged(model, lags=lags) if lags else model
    if request.horizon:
        model = Ahead(model, horizon=request.horizon)
    if run.alarms is not None:
        model = Alarms(model, rate=run.alarms)
    model._prepare(Shape(own, 1, certain=True))
    if model._needs_time and not schema.time:
        _refuse_no_time(request, model)
    return model


def _refuse_no_time(request: Request, model: StreamModel) -> NoReturn:
    """Say what needs a column of times where there is none."""
    which, instead = "a rate of alarms by time", "give `alarms` for each row, such as 1e-3"
    if request.by_time:
        which, instead = "half_life", "drop `half_life` to forget by rows"
    elif model._moment is not None:
        which, instead = "a kernel over time", "add the column, or drop `time`"
    raise RowsError(
        f"{which} needs a column that says when each row was observed, with dates or numbers, and there is none; "
        f"{instead}"
    )
