"""Models: a network over windows of a series, alone or under a Gaussian process [alshedivat2017]."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Unpack

import numpy as np

from streamgp.contract.model import Shape
from streamgp.deep.encoders import GRU, LSTM, NARX, RNN, Encoder
from streamgp.deep.gp import ExactHead, Head, ProcessHead, starting_theta
from streamgp.deep.interpolated import InterpolatedHead
from streamgp.deep.model import DeepModel, EncoderSetting, Run, Windowed
from streamgp.deep.online import trained_encoder
from streamgp.deep.training import NetworkLearner, ProcessLearner, Windows, embed
from streamgp.encoded.model import Encoded
from streamgp.kernels import SquaredExponential
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Fourier
from streamgp.process.forgetting import BackToPrior, Forgetting
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import (
    FloatArray,
    Setting,
    number,
    one_of,
    option,
    optional,
    positive_vector,
    refuse_unknown,
    whole,
)
from streamgp.tuning.projection import place, spread_points
from streamgp.vocabulary import positive

FEATURES = ("basis", "fourier")
INFERENCE = ("auto", "exact", "interpolated")
MOST_EXACT = 4000  # windows up to which "auto" is exact: one evaluation takes seconds on a CPU

Hyperparameters = dict[str, float | FloatArray]


class Network(DeepModel):
    """A network with a linear output, trained by squared errors: the baseline without a process.

    It has no variance, but for the spread of passes with dropout: ``predict(..., samples=50)``. Its noise is the mean
    squared error in training.

    Example:
        >>> import numpy as np
        >>> from streamgp import deep
        >>> t = np.arange(400)
        >>> u, y = np.sin(0.2 * t), np.cos(0.2 * t)
        >>> model = deep.Network(deep.NARX(16, dropout=0.0), depth=5).fit(u[:300], y[:300])
        >>> bool(np.abs(model.predict(u, y).mean - y)[300:].max() < 0.3)
        True
    """

    def _train(self, windows: Windows, run: Run) -> Head:
        learner = NetworkLearner(self._network, windows, self._training)
        run(learner, self._training.epochs)
        return learner.head


class DeepKernelGP(DeepModel):
    """A Gaussian process on the embeddings of windows, trained together with the network [alshedivat2017].

    The kernel is squared exponential with a lengthscale for each number of the embedding. Several outputs share the
    network and have processes of their own.
    """

    _head: ProcessHead

    def __init__(
        self,
        encoder: EncoderSetting,
        *,
        lengthscale: Annotated[
            Any,
            Setting(
                "one, or one for each number of the embedding, to start from; None: the median distance of the "
                "embeddings",
                "standard units",
                optional(positive_vector),
            ),
        ] = None,
        variance: Annotated[
            float, Setting("prior variance of the function to start from", "standard units, squared", positive)
        ] = 1.0,
        noise: Annotated[
            float, Setting("variance of the observation noise to start from", "standard units, squared", positive)
        ] = 0.1,
        inference: Annotated[
            str,
            Setting(
                '"exact", "interpolated" (on a grid, for an embedding of 1 or 2 numbers) or "auto": exact up to 4000 '
                "windows",
                check=one_of(*INFERENCE),
            ),
        ] = "auto",
        grid: Annotated[
            int,
            Setting("points of the grid along each number of the embedding", "points", partial(whole, at_least=12)),
        ] = 100,
        **settings: Unpack[Windowed],
    ) -> None:
        super().__init__(encoder, **settings)
        self._lengthscale, self._start = lengthscale, (variance, noise)
        self._inference, self._grid = inference, grid

    def _train(self, windows: Windows, run: Run) -> ProcessHead:
        if self._training.pretrain:
            run(NetworkLearner(self._network, windows, self._training), self._training.pretrain)
        theta = starting_theta(embed(self._network, windows), windows.targets.shape[1], self._lengthscale, *self._start)
        if self._inference == "exact" or (self._inference == "auto" and len(windows) <= MOST_EXACT):
            head: ProcessHead = ExactHead(theta)
        else:
            head = InterpolatedHead(theta, self._grid)
        run(ProcessLearner(self._network, head, windows, self._training), self._training.epochs)
        return head

    def _settle(self, windows: Windows) -> None:
        self._learned = windows
        if self._training.finetune:
            self._head.tune(embed(self._network, windows), windows.targets, self._training.finetune)
        super()._settle(windows)

    def log_marginal_likelihood(self) -> float:
        """Return the log marginal likelihood of all rows that were fitted, in standard units, summed over outputs."""
        self._checked_units()
        H, Y = embed(self._network, self._learned), self._learned.targets
        return -self._head.evaluate(H, Y).value * Y.numel()

    def online(
        self,
        features: str = "basis",
        capacity: int = 100,
        novelty: float = 1e-3,
        forgetting: Any = None,
        adapt: SNGD | None = None,
        seed: int = 0,
    ) -> Encoded:
        """Return a stream model that starts from the trained process and goes on learning, row by row.

        Its rows are those of :meth:`rows`; its memory goes on from the end of the series that was fitted.

        Args:
            features: "basis" (a dictionary of embeddings that grows and shrinks) or "fourier" (random features).
            capacity: most basis points; number of frequencies.
            novelty: relative to the prior variance, of an embedding that becomes a basis point.
            forgetting: None, a factor in (0, 1] by which the posterior goes back to the prior with every row, or
                Injection(factor).
            adapt: SNGD() keeps learning the hyperparameters; None: they stay.
            seed: of the frequencies.
        """
        units, windows, named = self._checked_units(), self._learned, self._head.hyperparameters
        basis = option("features", features, FEATURES) == 0
        whole("capacity", capacity)
        if not (forgetting is None or isinstance(forgetting, Forgetting)):
            forgetting = BackToPrior(number("forgetting", forgetting, above=0, at_most=1))
        scales = zip(named["lengthscale"], named["variance"].tolist(), strict=True)
        kernels = [SquaredExponential(lengthscale, variance=variance) for lengthscale, variance in scales]
        models = [
            OnlineGP(
                Basis(kernel)
                if basis
                else Fourier(capacity, lengthscale=kernel.lengthscale, variance=kernel.variance, seed=seed),
                noise=noise,
                budget=Budget(capacity, novelty=novelty) if basis else None,
                forgetting=forgetting,
                adapt=adapt,
            )
            for kernel, noise in zip(kernels, named["noise"].tolist(), strict=True)
        ]
        shift, scale, target_shift, target_scale = units
        if self._task.feeds_back:
            shift, scale = np.append(shift, target_shift), np.append(scale, target_scale)
        encoder = trained_encoder(self._encoder, self._network, windows.rows.shape[1], self._task.depth)
        p = len(models)
        result = Encoded(
            encoder,
            model=models if p > 1 else models[0],
            input_shift=shift,
            input_scale=scale,
            target_shift=target_shift,
            target_scale=target_scale,
        )
        result._prepare(Shape(encoder.inputs, p, self._scalar, certain=True))
        # The posterior of all rows that were fitted, in double precision.
        with self._torch():
            exact = copy.deepcopy(self._network).double()
            E = embed(exact, replace(windows, rows=windows.rows.double())).cpu().numpy()
        Y = windows.targets.cpu().numpy()
        for j, (kernel, one) in enumerate(zip(kernels, result._each(), strict=True)):
            assert isinstance(one, OnlineGP)
            place(one, E, Y[:, j : j + 1], spread_points(kernel, E, capacity) if basis else None)
        result._window[:] = self._last
        result._last_y[:] = target_shift + target_scale * Y[-1]
        result._rows[0] = len(E)
        return result

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters by name, in standard units: (width,) or (p, width) lengthscales, variance, noise."""
        if self._units is None:
            return {"variance": self._start[0], "noise": self._start[1]}
        named = self._head.hyperparameters.items()
        if not self._scalar:
            return dict(named)
        return {name: values[0] if values.ndim > 1 else float(values[0]) for name, values in named}


def GPLSTM(*units: int, **settings: Any) -> DeepKernelGP:  # noqa: N802
    """Return a GP-LSTM: a Gaussian process on the last hidden vector of an LSTM network [alshedivat2017].

    Args:
        units: of the network; other settings are given by name.
        settings: those of :class:`LSTM` and those of :class:`DeepKernelGP`.

    Example:
        >>> import numpy as np
        >>> from streamgp import deep
        >>> t = np.arange(400)
        >>> u, y = np.sin(0.2 * t), np.cos(0.2 * t)
        >>> model = deep.GPLSTM(units=8, depth=5, training=deep.Training(epochs=20)).fit(u[:300], y[:300])
        >>> p = model.predict(u, y)[300:]
        >>> bool(np.abs(p.mean - y[300:]).max() < 0.3)
        True
    """
    return _on(LSTM, "GPLSTM", units, settings)


def GPGRU(*units: int, **settings: Any) -> DeepKernelGP:  # noqa: N802
    """Return a GP-GRU: a Gaussian process on the last hidden vector of gated recurrent units; as :func:`GPLSTM`."""
    return _on(GRU, "GPGRU", units, settings)


def GPRNN(*units: int, **settings: Any) -> DeepKernelGP:  # noqa: N802
    """Return a GP-RNN: on the last hidden vector of a plain recurrent network [alshedivat2017]; as :func:`GPLSTM`."""
    return _on(RNN, "GPRNN", units, settings)


def GPNARX(*units: int, **settings: Any) -> DeepKernelGP:  # noqa: N802
    """Return a GP-NARX: a Gaussian process on a feedforward network over the whole window [alshedivat2017].

    Args:
        units: of the network; other settings are given by name.
        settings: those of :class:`NARX` and those of :class:`DeepKernelGP`.
    """
    return _on(NARX, "GPNARX", units, settings)


def _on(kind: type[Encoder], name: str, units: tuple[int, ...], settings: dict[str, Any]) -> DeepKernelGP:
    """A process on an encoder of one kind, by the settings of both."""
    refuse_unknown(name, settings, (*kind.setting_names(), *DeepKernelGP.setting_names()[1:]))
    encoder = kind(*units, **{own: settings.pop(own) for own in kind.setting_names() if own in settings})
    return DeepKernelGP(encoder, **settings)
