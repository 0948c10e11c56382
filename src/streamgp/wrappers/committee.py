"""Committee: several stream models side by side, and at every row one prediction made of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamgp.compiled import compile_now
from streamgp.contract import passing
from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import without_noise
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.joint import JointMixture, JointPrediction, certain
from streamgp.contract.lanes import ONE, PREDICT, listed, predicted_too
from streamgp.contract.model import Ability, Health, StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, number, option, whole
from streamgp.wrappers import aggregation
from streamgp.wrappers.aggregation import (
    COUNT,
    ISSUED,
    LIMITED,
    PRIOR,
    RANGE,
    RULES,
    SPOKEN,
    STACKED,
    STEP,
    VOICES,
)
from streamgp.wrappers.wrapper import Composite

NONE_WAIT = np.empty((0, ISSUED))
# A new member has this many rows on which its squared errors were this many times those of the best.
NEWCOMER, BEHIND = 10.0, 2.0


class Committee(Composite):
    """One prediction of several stream models, weighted by how they have done.

    All members predict and learn every row. A member whose mean is NaN sleeps: it has no say in that row, and the row
    does not count for it. Where targets come late, members are judged by what they predicted when the row was issued;
    of more than 48 members the later ones are not judged by such rows.

    Variance and noise are those of the mixture; a member without a variance has its recent mean squared error instead,
    so where no member has one they are NaN before the first target, and 0 while none has erred. A row's own noise is
    for the members that can weigh rows by it. What can be read of the model (``basis``, ``hyperparameters``,
    ``relevance()``...) is the leader's, the one with the most weight.

    Members can be added, replaced and retired while the committee learns.

    Args:
        models: the stream models, which have learned nothing.
        memory: rows over which errors count as recent.
        rule: how members are weighed (docs/models/committee.md): by "recent" errors, the likelihood of the last ones
            under a Gaussian of their mean square [Raftery et al. 2010]; by "ml-poly", regret, which comes close to the
            best fixed weights whatever the stream does [Gaillard et al. 2014]; or "stacked", regressions on top of
            both, weighed by regret once more.
        reach: where predictions may lie: within the range of all targets so far, widened by a tenth of it, or within so
            many of the largest steps between two targets from the last one. A member beyond that has no say, is judged
            by the limit, and the committee stays within; None: anywhere.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.linspace(0.0, 20.0, 400)
        >>> model = sg.Committee([sg.KRLST(sg.SquaredExponential(1.0)), sg.OnlineGP(sg.Linear())])
        >>> p = model.track(x, np.where(x < 10, 3.0 * x, 30.0 + 5.0 * np.sin(3 * x)))
        >>> model.leader, model.weights.shape
        (0, (2,))
    """

    _setting = "models"
    # Of each output, as aggregation.combine() takes them.
    _regrets: FloatArray  # (p, 3, 3, members or voices)
    _errors: FloatArray  # (p, 6, members)
    _covariances: FloatArray  # (p, 3, members, members)
    _slopes: FloatArray  # (p, 3, members)
    _scale: FloatArray  # (p, 6)
    _numbers: np.ndarray  # (members,) by which a member is known among rows that wait; none is given twice
    _given: np.ndarray  # (1,) how many numbers were given
    _range: FloatArray  # (p, RANGE) of the targets; see aggregation.limits()

    def __init__(
        self, models: Sequence[StreamModel], *, memory: int = 100, rule: str = "recent", reach: float | None = None
    ) -> None:
        given = models if isinstance(models, list | tuple) else [models]
        self._hold(given, "a list of stream models such as [KRLST(), ISSGPR()]")
        self._refuse_classes_and_counts("averages numbers")
        # Weighed by regret, a member without a variance has its mean squared error, as soon as there is one.
        self.has_variance = rule != "recent" or any(model.has_variance for model in self._models)
        self._discount = np.array([1.0 - 1.0 / whole("memory", memory, at_least=2)])
        self._rule = option("rule", rule, RULES)
        self._reach = 0.0 if reach is None else number("reach", reach, above=0)
        compile_now(aggregation.combine)

    # Members come and go.

    def add(self, model: StreamModel) -> None:
        """Add a member, which may have learned rows before; it earns its weight from now on."""
        newcomer = self._welcome(model)
        self._set_members([*self._settings["models"], newcomer.clone()], [*self._models, newcomer.copy()])
        if self._d is None:
            return
        self._resize([*range(len(self._models) - 1)], len(self._models))
        # One lucky row is no evidence: the newcomer has some on which it erred more than the best.
        for errors in self._errors:
            for squares, rows in (errors[:2], errors[2:4]):
                with np.errstate(invalid="ignore", divide="ignore"):
                    known = (squares / rows)[:-1]
                if np.isfinite(known).any():
                    squares[-1], rows[-1] = BEHIND * NEWCOMER * np.nanmin(known), NEWCOMER

    def replace(self, index: int, model: StreamModel) -> None:
        """Put a model in a member's place, with the weight that this one has earned."""
        at = self._at(index)
        newcomer, given, models = self._welcome(model), list(self._settings["models"]), list(self._models)
        given[at], models[at] = newcomer.clone(), newcomer.copy()
        self._set_members(given, models)

    def retire(self, index: int) -> None:
        """Let a member go; the others keep what they have earned."""
        at = self._at(index)
        if len(self._models) == 1:
            raise ValueError("a committee needs at least one member; replace it instead")
        others = [k for k in range(len(self._models)) if k != at]
        self._set_members([self._settings["models"][k] for k in others], [self._models[k] for k in others])
        if self._d is not None:
            self._resize(others, len(others))

    def _set_members(self, given: list[StreamModel], models: list[StreamModel]) -> None:
        """New lists, so that the old ones can be put back if a call is undone."""
        self._settings, self._models = self._settings | {"models": given}, models
        self._note_times()

    def _at(self, index: int) -> int:
        if not 0 <= index < len(self._models):
            raise IndexError(f"there is no member {index}; the committee has {len(self._models)}, the first one 0")
        return index

    def _welcome(self, model: StreamModel) -> StreamModel:
        if not isinstance(model, StreamModel):
            raise TypeError(f"model must be a stream model such as KRLST(); got {model!r}")
        if self._d is not None and (model._d, model._p) not in ((self._d, self._p), (None, None)):
            raise ValueError(
                f"model takes {model._d} inputs and {model._p} targets, but the committee {self._d} and {self._p}"
            )
        if model._d is None and self._d is not None:
            model = model.clone()
            model._prepare(self._shape._replace(scalar=False, certain=True))
        return model

    # The state.

    def _children(self) -> dict[str, StreamModel]:
        return {f"member.{k}": member for k, member in enumerate(self._models)}

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        K = len(self._models)
        self._regrets = np.zeros((p, 3, 3, max(K, VOICES)))
        self._errors, self._slopes = np.zeros((p, 6, K)), np.zeros((p, 3, K))
        self._covariances = np.tile(PRIOR**2 * np.eye(K), (p, 3, 1, 1))
        self._scale, self._range = np.zeros((p, 6)), np.zeros((p, RANGE))
        self._numbers, self._given = np.arange(K), np.array([K])

    def _resize(self, old: list[int], K: int) -> None:
        """Let the first of K members have what these old ones had earned."""
        n, regrets, covariances = len(old), self._regrets, self._covariances
        self._errors, self._slopes = (
            np.pad(one.take(old, 2), ((0, 0), (0, 0), (0, K - n))) for one in (self._errors, self._slopes)
        )
        self._regrets = np.zeros((len(regrets), 3, 3, max(K, VOICES)))
        self._regrets[:, :2, :, :n] = regrets[:, :2][..., old]
        self._regrets[:, 2, :, :VOICES] = regrets[:, 2, :, :VOICES]
        self._covariances = np.tile(PRIOR**2 * np.eye(K), (len(regrets), 3, 1, 1))
        self._covariances[:, :, :n, :n] = covariances[:, :, old][..., old]
        self._numbers = np.append(self._numbers[old], self._given[0] + np.arange(K - n))
        self._given = self._given + K - n

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("regrets", "errors", "covariances", "slopes", "scale", "numbers", "given", "range")
        return {name: getattr(self, f"_{name}") for name in names}

    def _check_restored(self) -> None:
        require("errors", self._errors, at_least=0)
        require("regrets", self._regrets[:, :, 1:], at_least=0)
        require("scale", self._scale, at_least=0)
        require("range", self._range)
        require("range", self._range[:, [STEP, COUNT, LIMITED]], at_least=0)
        require("numbers", self._numbers, at_least=0, at_most=int(self._given[0]) - 1)
        require("covariances", np.diagonal(self._covariances, axis1=2, axis2=3), at_least=0)

    # Rows.

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return ISSUED * (self._p or 1) + sum(member._kept_width for member in self._models)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        ops, bare, p = predicted_too(ops), without_noise(conditions), self._p or 1
        predicted, start = np.empty((p, 3, len(X), len(self._models))), ISSUED * p
        for k, member in enumerate(self._models):
            stop = start + member._kept_width
            lines = None if kept is None else kept[:, start:stop]
            given = bare if member._cannot("weigh") else conditions
            predicted[..., k] = member._pass(ops, X, Y, given, lines)[:3].transpose(2, 0, 1)
            start = stop
        columns = self._weighed(ops, predicted, Y, kept)[2].transpose(1, 2, 0)
        if not self.has_variance:
            columns[1:] = np.nan
        return np.ascontiguousarray(columns)

    def _screened(self, Y: FloatArray) -> FloatArray:
        """What one of the members would not learn, nobody learns, and the committee does not judge them by it."""
        seen = [screened for member in self._models if (screened := member._screened(Y)) is not Y]
        if not seen:
            return Y
        return np.where(np.isnan(seen).any(axis=0), np.nan, Y)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        """Members that cannot weigh rows learn them with their own noise, as long as there are others."""
        refused = [member._cannot(what, p) for member in self._models]
        return next(filter(None, refused), "") if what != "weigh" or all(refused) else ""

    def _weighed(
        self, ops: np.ndarray, predicted: FloatArray, Y: Maybe = None, kept: Maybe = None, reach: float | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weigh what each member says, (p, 3, n, members), and learn from targets; see aggregation.combine().

        Returns:
            The weights, those of the members with a variance, (p, n, members) both, and the mixture, (p, 3, n).
        """
        p, _, n, K = predicted.shape
        judged, weights, variance_weights = np.empty((3, p, n, K))
        spoken, mixed = np.empty((p, n, SPOKEN)), np.empty((p, 3, n))
        settings = self._rule, self._discount, self._reach if reach is None else reach, ops
        targets = np.full((p, n), np.nan) if Y is None else Y.T.copy()
        room = aggregation.work_room(K)
        for j in range(p):
            lines = NONE_WAIT if kept is None else kept[:, j * ISSUED : (j + 1) * ISSUED]
            aggregation.combine(
                *(*settings, targets[j], self._numbers, predicted[j], lines, self._range[j], self._regrets[j]),
                *(self._errors[j], self._covariances[j], self._slopes[j], self._scale[j], judged[j], spoken[j]),
                *(weights[j], variance_weights[j], mixed[j], room),
            )
        return weights, variance_weights, mixed

    def _analysis(self) -> Analysis:
        return _CommitteeAnalysis(self)

    # What can be read.

    @property
    def weights(self) -> FloatArray:
        """The present weight of every member if all were awake, averaged over outputs; they sum to 1."""
        if self._d is None:
            return np.full(len(self._models), 1.0 / len(self._models))
        assert self._p is not None
        weights, _, _ = self._weighed(ONE[PREDICT], np.zeros((self._p, 3, 1, len(self._models))), reach=0.0)
        return np.asarray(weights[:, 0].mean(0))

    @property
    def leader(self) -> int:
        """Which member has the most weight, the first one 0."""
        return int(np.argmax(self.weights))

    @property
    def members(self) -> list[StreamModel]:
        """Copies of the models within."""
        return [member.copy() for member in self._models]

    @property
    def errors(self) -> FloatArray:
        """The root mean squared error of every member over about the last thousand rows; NaN before the first."""
        if self._d is None:
            return np.full(len(self._models), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt((self._errors[:, 2] / self._errors[:, 3]).mean(0)))

    @property
    def health(self) -> Health:
        limited = 0 if self._d is None else int(self._range[:, LIMITED].sum())
        found = super().health
        return found._replace(limited_rows=found.limited_rows + limited)

    def _shown(self) -> StreamModel:
        return self._models[self.leader]


class _CommitteeAnalysis(Analysis):
    """What the members say, by their weights."""

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        committee = self.model
        if not committee.has_variance:
            return super().joint(X, conditions)
        if committee._rule == STACKED:
            raise ValueError(
                'a Committee with rule="stacked" speaks through regressions on its members, of which there is no joint '
                'posterior; use rule="recent" or "ml-poly", or predict_joint of one of committee.members'
            )
        joints = [
            member._analysis().joint(X, conditions)
            if member.has_variance
            else certain(passing.predicted(member, X, conditions)[0])
            for member in committee._models
        ]
        # As the members predict rows by themselves: one that knows no scale yet is left out there, too.
        alone = [passing.predicted(member, X, conditions)[:3] for member in committee._models]
        said = np.ascontiguousarray(np.stack(alone, axis=-1).transpose(2, 0, 1, 3))
        _, each, mixed = committee._weighed(listed(len(X), PREDICT), said)
        weights = each[:, 0].T  # (members, p)
        counting = np.flatnonzero(np.any(weights > 0, axis=1))
        if counting.size and np.all(each == each[:, :1]):
            parts = [replace(joints[k], noise=said[:, 2, :, k].T) for k in counting]
            mixture = JointMixture.of(parts, weights[counting])
            if np.allclose(mixture.mean, mixed[:, 0].T, rtol=1e-9, atol=1e-9 * np.sqrt(mixture.noise)):
                return mixture
        raise ValueError(
            "the members of this Committee are no one mixture for all of these rows: some have no mean or no variance "
            "yet, or their weights differ from row to row. Use predict_many, or predict_joint of one of "
            "committee.members"
        )

    def trajectories(self, count: int, steps: int) -> Trajectories:
        return _Shares(self.model, count, steps)


class _Shares(Trajectories):
    """Each trajectory follows one member; a member has as many of them as its weight says."""

    def __init__(self, committee: Committee, count: int, steps: int) -> None:
        weights = committee.weights
        if committee.has_variance:  # the others could only repeat their mean
            weights = weights * [member.has_variance for member in committee._models]
            weights = weights / weights.sum() if weights.any() else committee.weights
        edges = np.round(np.cumsum(weights) * count).astype(int)
        edges[-1] = count
        starts = [0, *edges[:-1].tolist()]
        shares = [slice(start, stop) for start, stop in zip(starts, edges.tolist(), strict=True)]
        self._parts = [
            (own, member._analysis().trajectories(own.stop - own.start, steps))
            for own, member in zip(shares, committee._models, strict=True)
            if own.stop > own.start
        ]

    def predict(self, X: FloatArray) -> Step:
        steps = [futures.predict(X[own]) for own, futures in self._parts]
        return Step(*(np.concatenate(parts) for parts in zip(*steps, strict=True)))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for own, futures in self._parts:
            futures.record(values[own], targets[own])
