"""The parts of an online Gaussian process, checked against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.compiled import compile_now, places
from streamgp.contract import spacing
from streamgp.contract.checks import check
from streamgp.kernels import Kernel, program
from streamgp.kernels.temporal import components
from streamgp.process import features as feature_kinds
from streamgp.process import observation, stream
from streamgp.process import time as passing
from streamgp.process.adapt import sngd
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import DISCARD, DTC, ERROR, NEVER, OLDEST, Budget, least_distinct
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.features import Features
from streamgp.process.forgetting import Forgetting, NoForgetting
from streamgp.process.likelihood import Likelihood, chosen
from streamgp.process.mean import LinearMean, Mean
from streamgp.process.memory import Memory, Window
from streamgp.settings import positive_vector
from streamgp.vocabulary import FORMS, LEAST_NOISE


class Composed(CompiledModel):
    """A process as far as it is put together: which parts it has, and whether they go together."""

    _batch = 1
    _estimate_power = False
    _direct = True  # predictions are what compiled code says, with nothing to add

    def _compose(
        self,
        features: Features,
        memory: Memory | None,
        noise: Any,
        budget: Budget | None = None,
        forgetting: Forgetting | None = None,
        adapt: SNGD | None = None,
        outputs: str = "shared",
        form: str | None = None,
        likelihood: Likelihood | None = None,
        time: Kernel | None = None,
        mean: Mean | None = None,
    ) -> None:
        """Check the parts against each other and compile the layout."""
        self._likelihood = chosen(noise, likelihood)
        noise = self._likelihood.noise
        self._features: Features = _part("features", features, Features, "Basis(kernel), Fourier(...) or Linear(...)")
        self._memory = Window(1) if memory is None else _part("memory", memory, Memory, "Window(3) or Reservoir(50)")
        self._budget: Budget = Budget() if budget is None else _part("budget", budget, Budget, "Budget(capacity=100)")
        self._forgetting: Forgetting = (
            NoForgetting()
            if forgetting is None
            else _part("forgetting", forgetting, Forgetting, "BackToPrior(0.999) or Injection(0.999)")
        )
        kernel = time if time is None else _part("time", time, Kernel, "Matern(1.5, lengthscale='3h') + Periodic('1d')")
        self._terms = [] if kernel is None else components(kernel)
        self._linear = mean if isinstance(mean, LinearMean) else None
        # What has coordinates beside the features; from the first row on also the weights of the mean.
        self._beside = self._terms
        self._needs_time = self._forgetting.half_life > 0 or bool(self._terms)
        self._shared = outputs == "shared"
        self._grows = self._features.kind == feature_kinds.DICTIONARY
        self._least_squares = self._grows and np.ndim(noise) == 0 and noise == 0
        self._noise = np.zeros(1) if self._least_squares else positive_vector("noise", noise)
        if not self._least_squares and self._noise.min() < LEAST_NOISE:
            raise ValueError(
                f"noise must be at least {LEAST_NOISE:g}, below which arithmetic cannot tell it from 0; got {noise!r}. "
                "Give a larger one, or use other units"
            )
        self._keeps_rows = self._grows and self._budget.removal == DISCARD
        if self._least_squares:
            self._check_least_squares()
        elif self._keeps_rows:
            self._check_kept()
        if self._shared and self._noise.size != 1:
            raise ValueError(
                f"noise has {self._noise.size} values, but the outputs share one covariance; "
                'give one value, or outputs="separate"'
            )
        fades = self._forgetting.forgets and not self._forgetting.injects
        if form is None:  # raw inputs of any size go into Linear, and only the information form takes them
            gaussian = self._likelihood.kind == observation.GAUSSIAN
            alone = not self._terms and self._linear is None
            form = FORMS[self._features.kind == feature_kinds.LINEAR and gaussian and not fades and alone]
        self._factored = form == "cholesky"
        if self._factored and self._grows:
            raise ValueError(
                'form="cholesky" needs a fixed number of weights: Fourier, Linear, or a Basis on given points; '
                'use form="covariance" with a basis that grows'
            )
        if self._factored and fades:
            raise ValueError('form="cholesky" cannot go back to the prior; use Injection(...) or form="covariance"')
        self._mean = mean
        if mean is not None:
            self._check_mean()
        self._adapt: SNGD | None = None if adapt is None else _part("adapt", adapt, SNGD, "SNGD(interval=25)")
        self._one_step = self._adapt is None and self._batch == 1 and not self._forgetting.injects
        if self._adapt is not None:
            self._check_adaptable(self._adapt)
        if self._likelihood.kind != observation.GAUSSIAN:
            self._check_likelihood()
        if self._terms:
            self._check_temporal()
        if self._linear is not None:
            self._check_linear_mean()
        self._run = self._loop()
        apart = self._apart()
        between = [
            *([program.matrix] if adapt is not None or self._batch > 1 or features.points is not None else []),
            *([] if adapt is None else [program.loading_units, least_distinct, sngd.count_moved]),
            *([spacing.note, spacing.usual] if self._terms else []),
        ]
        compile_now(self._run, check, *between, *apart)
        self._places = places(*apart)

    def _loop(self) -> Any:
        """The compiled loop for this kind of process."""
        if self._keeps_rows:
            return stream.run_kept
        if self._grows:
            return stream.run_growing
        return stream.run_fixed

    def _apart(self) -> list[Any]:
        """The functions that the loop calls by their address, which the plan has."""
        beside = [passing.arrive, passing.pass_time, passing.report_components]
        called = [
            *([] if self._features.kernel is None else [feature_kinds.kernel_values]),
            *(beside if self._terms or self._linear is not None else []),
        ]
        if self._likelihood.kind != observation.GAUSSIAN:
            called.append(observation.as_gaussian)
        if self._adapt is not None:
            called += [sngd.before_learning, sngd.after_learning]
        return called

    def _check_likelihood(self) -> None:
        """A likelihood that is not Gaussian is learned one row and one output at a time, in covariance form."""
        self._observes, self._direct = self._likelihood.targets, False
        cannot = {
            'form="cholesky" adds up Gaussian observations: use form="covariance"': self._factored,
            'removal="discard" keeps Gaussian observations: use another removal': self._keeps_rows,
            "batch learns Gaussian observations together: use batch=1": self._batch > 1,
            "adapt follows the gradient of a Gaussian density: use adapt=None": self._adapt is not None,
            "feedback takes the mean of the function for a missing target: use feedback=None": (
                self._memory.feeds_back and self._likelihood.targets != "numbers"
            ),
            "estimate_power scales Gaussian noise: use estimate_power=False": self._estimate_power,
        }
        _refuse(cannot, f"likelihood={self._likelihood!r}")

    def _check_mean(self) -> None:
        self._direct = False
        if self._likelihood.targets != "numbers":
            raise ValueError(f"mean is taken from the targets, and {self._likelihood.targets} have none: use mean=None")
        if self._memory.feeds_back:
            raise ValueError("feedback puts targets into the reservoir, not what is above the mean: use feedback=None")

    def _check_temporal(self) -> None:
        """A kernel over time needs a covariance between its coordinates and the weights, row by row."""
        cannot = {
            'form="cholesky" has no covariance that time could move: use form="covariance"': self._factored,
            'removal="discard" keeps rows whatever their time: use another removal': self._keeps_rows,
            "noise=0 is least squares, which knows no covariance: use a noise above 0": self._least_squares,
            "batch learns rows of different times together: use batch=1": self._batch > 1,
            "injection is capped at a prior that does not move: forget back to the prior": self._forgetting.injects,
            'on_move="rebuild" learns the targets of basis points whatever their time: use on_move="rebase"': (
                self._adapt is not None and self._adapt.rebuilds
            ),
        }
        _refuse(cannot, "a kernel over time (time=)")

    def _check_linear_mean(self) -> None:
        """The weights of the mean need a covariance with the function, row by row."""
        cannot = {
            'form="cholesky" has a factor of the features alone: use form="covariance"': self._factored,
            'removal="discard" keeps rows and no posterior: use another removal': self._keeps_rows,
            "noise=0 is least squares, which knows no covariance: use a noise above 0": self._least_squares,
            "batch learns rows together by the features alone: use batch=1": self._batch > 1,
            "injection is capped at the prior of features alone: forget back to the prior": self._forgetting.injects,
            'on_move="rebuild" learns the targets of basis points without their mean: use on_move="rebase"': (
                self._adapt is not None and self._adapt.rebuilds
            ),
        }
        _refuse(cannot, "mean=LinearMean(...)")

    def _check_adaptable(self, adapt: SNGD) -> None:
        if self._least_squares or self._keeps_rows or self._features.kind == feature_kinds.LINEAR:
            raise ValueError("adapt works on a posterior over a Basis or Fourier features; this model has another")
        if self._batch > 1:
            raise ValueError("adapt learns from each next row: use batch=1, or adapt=None")
        if self._factored and self._features.kind == feature_kinds.POINTS:
            raise ValueError('adapt needs form="covariance" with given basis points')
        if adapt.rebuilds and not self._grows:
            raise ValueError('on_move="rebuild" needs basis points with targets of their own; use on_move="rebase"')

    def _check_least_squares(self) -> None:
        budget = self._budget
        if budget.evict != NEVER or budget.absorb != DTC or not self._shared or self._forgetting.forgets:
            raise ValueError(
                "noise=0 is least squares on a dictionary that only grows, as in KRLS(noise=0): it needs "
                'Budget(absorb="dtc", evict="never"), shared outputs and no forgetting; otherwise give a noise above 0'
            )

    def _check_kept(self) -> None:
        budget = self._budget
        if budget.evict not in (ERROR, OLDEST) or budget.novelty > 0 or self._forgetting.forgets or not self._shared:
            raise ValueError(
                'removal="discard" keeps the exact GP on some rows: it needs evict="oldest" or "error", novelty=0, '
                "shared outputs and no forgetting"
            )

    @property
    def _cannot_forget_because(self) -> str:
        return super()._cannot_forget_because if self._least_squares or self._keeps_rows else ""


def _part(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be, for example, {example}; got {value!r}")
    return value


def _refuse(cannot: dict[str, bool], beside: str) -> None:
    """Refuse what does not go with a part.

    Args:
        cannot: what, with the way out -> whether the process has it.
        beside: the part, as users spell it.
    """
    for why, is_so in cannot.items():
        if is_so:
            raise ValueError(f"{why} with {beside}")
