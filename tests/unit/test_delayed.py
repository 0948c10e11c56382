"""Late labels, against models that learn by hand, in the order in which the targets come."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract import snapshot
from streamgp.contract.lanes import ADVANCE, ONE, TELL
from streamgp.contract.within import family
from tests.contract.models import EXAMPLES, D, parameters
from tests.contract.test_contract import stream

SINGLE = {name: make for name, make in EXAMPLES.items() if not name.startswith("Delayed")}


@pytest.fixture(params=parameters(SINGLE))
def build(request):
    return SINGLE[request.param]


@pytest.fixture(params=[1, 2], ids=["scalar", "vector"])
def data(request):
    X, Y = stream(request.param)
    Y[7] = Y[31] = np.nan  # never known
    return X, Y


def issue_and_resolve(model, X, Y):
    for x, y in zip(X, Y, strict=True):
        model.resolve(model.issue(x).ticket, y)


def shuffled(n, seed=1):
    return np.random.default_rng(seed).permutation(n)


def test_resolving_at_once_equals_learn_one_bit_for_bit(build, data):
    X, Y = data
    if isinstance(build(), sg.Ahead):
        return  # a row that predicts what comes later is issued before its own target is known
    model, late, direct = build(), sg.Delayed(build(), pending=3), sg.Delayed(build(), pending=3)
    # Its lines predict and learn a row in one compiled call, or in two: some processors round these differently.
    rounding = 1e-12 if isinstance(model, sg.Auto) else 0.0
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        expected, issued = model.predict_one(x), late.issue(x)
        assert issued.ticket == t
        assert type(issued) is type(expected)
        for part in ("mean", "variance", "noise"):
            np.testing.assert_allclose(getattr(issued, part), getattr(expected, part), rtol=rounding, atol=rounding)
        model.learn_one(x, y)
        late.resolve(issued.ticket, y)
        direct.learn_one(x, y)
    assert rounding or late.inner.to_bytes() == model.to_bytes()
    assert rounding or late.to_bytes() == direct.to_bytes()
    assert (late.rows_seen, late.pending, late.expired, late.health) == (len(X), 0, 0, model.health)


# What is exact.

WITHOUT_MEMORY = [
    "SOGP",
    "SOGP adapting",
    "KRLST",
    "KRLST estimating power",
    "KRLS",
    "QKLMS",
    "LWPR",
    "LocalGP",
    "RecursiveGP separate",
    "ISSGPR adapting",
    "Standardize",
    "DriftAware on trial",
    "SeasonalValue",
    "RunningMean",
    "Columns",
    "Differenced",
]


# These note the numbers of rows, and rows that wait have come, too.
NUMBERED = {"SOGP adapting", "ISSGPR adapting", "DriftAware on trial"}


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
def test_without_a_memory_any_order_equals_learn_one_in_that_order(name, data):
    X, Y = data
    plain, late = EXAMPLES[name](), sg.Delayed(EXAMPLES[name]())
    tickets = [late.issue(x).ticket for x in X]
    for t in shuffled(len(X)):
        plain.learn_one(X[t], Y[t])
        late.resolve(tickets[t], Y[t])
        np.testing.assert_array_equal(late.predict_one(X[0]).mean, plain.predict_one(X[0]).mean)
    assert late.rows_seen == plain.rows_seen
    plain.learn_many(X[:2], Y[:2])
    issue_and_resolve(late, X[:2], Y[:2])  # from here on the last row is the same, too
    if name not in NUMBERED:
        assert late.inner.to_bytes() == plain.to_bytes()


NOISE = 0.01


def exact(rows, targets, at):
    """Mean and variance of a Gaussian process with unit lengthscale, solved as one system."""

    def kernel(A, B):
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1))

    K = kernel(rows, rows) + NOISE * np.eye(len(rows))
    k = kernel(rows, at[None])[:, 0]
    return k @ np.linalg.solve(K, targets), 1.0 - k @ np.linalg.solve(K, k)


def lately(n, seed=4):
    """A schedule: rows in order, targets some rows later in any order, some at once."""
    rng = np.random.default_rng(seed)
    waiting = []
    for t in range(n):
        yield "issue", t
        waiting.append(t)
        while waiting and rng.random() < 0.5:
            yield "resolve", waiting.pop(rng.integers(len(waiting)))
    for t in rng.permutation(waiting):
        yield "resolve", int(t)


def check_against(model, features, data, n=40, tolerance=1e-9):
    """Every prediction equals the exact process over the features of the rows whose targets have come."""
    X, Y = data
    rows, known = [], []
    for what, t in lately(n):
        if what == "issue":
            issued = model.issue(X[t])
            rows.append(features(t, issued))
            if known:
                mean, variance = exact(np.array([rows[i] for i in known]), Y[known], rows[t])
                np.testing.assert_allclose(issued.mean, mean, rtol=0, atol=tolerance)
                np.testing.assert_allclose(issued.variance, variance, rtol=0, atol=tolerance)
        else:
            model.resolve(t, Y[t])
            known.append(t)
    assert (model.pending, model.rows_seen) == (0, n)


@pytest.mark.parametrize("p", [1, 2])
def test_windows_are_those_of_the_rows_as_they_were_issued(p):
    X, Y = stream(p)
    padded = np.vstack([np.zeros((2, D)), X])
    model = sg.Delayed(sg.SOGP(sg.SquaredExponential(1.0), capacity=60, novelty=0, noise=NOISE, depth=3))
    check_against(model, lambda t, _: padded[t : t + 3].ravel(), (X, Y))


class Echo:
    """A reservoir by hand; what it is fed with is the target if it has come, or the mean that was issued."""

    def __init__(self, feedback, X, Y):
        rng = np.random.default_rng(3)
        self.W, self.W_i = 0.4 * rng.normal(size=(4, 4)), rng.normal(size=(4, D))
        self.W_b = 0.3 * rng.normal(size=(4, 1)) * feedback
        self.state, self.fed, self.X, self.Y = np.zeros(4), np.zeros(1), X, Y
        self.schedule = list(lately(40))

    def __call__(self, t, issued):
        if t and self.schedule.index(("resolve", t - 1)) < self.schedule.index(("issue", t)):
            self.fed = np.atleast_1d(self.Y[t - 1])
        self.state = np.tanh(self.W @ self.state + self.W_i @ self.X[t] + self.W_b @ self.fed)
        self.fed = np.atleast_1d(issued.mean)
        return np.concatenate([self.state, self.X[t]])


@pytest.mark.parametrize("feedback", [0, 1])
def test_a_reservoir_is_as_it_was_and_is_fed_with_targets_that_came_in_time(feedback):
    X, Y = stream(1)
    echo = Echo(feedback, X, Y)
    reservoir = sg.Reservoir(recurrent=echo.W, input=echo.W_i, feedback=echo.W_b if feedback else None)
    process = sg.OESGP(reservoir, kernel=sg.SquaredExponential(1.0), capacity=60, novelty=0, noise=NOISE)
    check_against(sg.Delayed(process), echo, (X, Y))


@pytest.mark.parametrize("several", [False, True])
def test_embeddings_are_those_of_the_rows_as_they_were_issued(several):
    X, Y = stream(2)
    weights = np.random.default_rng(6).normal(size=12 * (D + 4 + 2))
    encoder = sg.TrainedEncoder("gru", inputs=D, depth=3, units=4, weights=weights)
    process = sg.SOGP(sg.SquaredExponential(1.0), capacity=60, novelty=0, noise=NOISE)
    model = sg.Delayed(sg.Encoded(encoder, model=[process, process] if several else process))
    padded = np.vstack([np.zeros((2, D)), X])
    check_against(model, lambda t, _: encoder.embed(padded[t : t + 3]), (X, Y), tolerance=1e-7)


def test_resolving_returns_what_was_issued():
    X, Y = stream(2)
    model = sg.Delayed(sg.Calibrated(sg.Standardize(sg.KRLST())))
    issued = [model.issue(x) for x in X[:9]]
    for ticket in shuffled(9).tolist():
        p, expected = model.resolve(ticket, Y[ticket]), issued[ticket]
        assert p.ticket == ticket
        assert p.mean.shape == Y[ticket].shape
        for part in ("mean", "variance", "noise", "lower", "upper"):
            np.testing.assert_array_equal(getattr(p, part), np.broadcast_to(getattr(expected, part), p.mean.shape))


def test_delayed_within_delayed_is_judged_by_what_was_issued():
    X, Y = stream(1)
    build = lambda: sg.Calibrated(sg.Standardize(sg.KRLST()))  # noqa: E731
    once, twice = sg.Delayed(build()), sg.Delayed(sg.Delayed(build()))
    for model in (once, twice):
        for x in X[:20]:
            model.issue(x)
        for ticket in shuffled(20).tolist():
            model.resolve(ticket, Y[ticket])
    assert twice.inner.inner.to_bytes() == once.inner.to_bytes()


def test_calibration_counts_what_was_issued():
    X, Y = stream(1)
    model = sg.Delayed(sg.Calibrated(sg.KRLST(noise=1e-4), level=0.8))
    inside, widths, raw = [], [], []
    issued = {}
    for what, t in lately(len(X)):
        if what == "issue":
            issued[t] = model.issue(X[t])
        else:
            p = issued[t]
            model.resolve(p.ticket, Y[t])
            inside.append(p.lower <= Y[t] <= p.upper)
            widths.append(p.upper - p.lower)
            raw.append(abs(Y[t] - p.mean) <= 1.2815515655446004 * p.raw.std)
    found = model.inner.calibration
    assert found.rows == len(X)
    np.testing.assert_allclose(found.coverage, np.mean(inside), rtol=1e-12)
    np.testing.assert_allclose(found.width, np.mean(widths), rtol=1e-12)
    np.testing.assert_allclose(found.raw_coverage, np.mean(raw), rtol=1e-12)


# Whatever the model.


def run(model, X, Y, steps):
    for what, t in steps:
        if what == "issue":
            model.issue(X[t])
        else:
            model.resolve(t, Y[t])


def test_a_stopped_model_resumes_with_its_pending_rows(build, data):
    X, Y = data
    steps = list(lately(40))
    straight, stopped = sg.Delayed(build(), pending=30), sg.Delayed(build(), pending=30)
    run(straight, X, Y, steps)
    run(stopped, X, Y, steps[:33])
    assert stopped.pending > 1
    size = len(stopped.to_bytes())
    for model in (stopped.copy(), sg.from_bytes(stopped.to_bytes())):
        run(model, X, Y, steps[33:])
        assert model.to_bytes() == straight.to_bytes()
        assert len(model.to_bytes()) == size or any(isinstance(one, sg.Auto | sg.Tuned) for one in family(model))
    assert np.all(np.isfinite(straight.predict_many(X).mean))
    assert stopped.clone().pending == 0
    assert repr(stopped).startswith("Delayed(model=")


def test_the_oldest_row_expires_when_too_many_wait(data):
    X, Y = data
    model, plain = sg.Delayed(sg.KRLST(), pending=3), sg.KRLST()
    for t in range(4):
        model.issue(X[t])
        model.learn_one(X[10 + t], Y[10 + t])  # what is learned at once needs no place
        plain.learn_one(X[10 + t], Y[10 + t])
    assert (model.pending, model.expired, model.rows_seen) == (3, 1, 8)
    before = model.to_bytes()
    with pytest.raises(
        KeyError, match="no row waits under ticket 0: it is resolved, or expired when 3 newer ones wait"
    ):
        model.resolve(0, Y[0])
    assert model.to_bytes() == before
    for ticket in (6, 2, 4):
        model.resolve(ticket, Y[ticket // 2])
        plain.learn_one(X[ticket // 2], Y[ticket // 2])
    np.testing.assert_array_equal(model.predict_many(X).mean, plain.predict_many(X).mean)
    assert (model.pending, model.expired) == (0, 1)


def test_a_ticket_is_closed_without_a_target():
    X, Y = stream(1)
    model = sg.Delayed(sg.KRLST())
    model.learn_many(X, Y)
    said = model.predict_many(X).mean
    for nothing in (None, np.nan):
        older, newer = model.issue(X[0]).ticket, model.issue(X[1]).ticket
        model.resolve(older, nothing)
        model.resolve(newer, nothing)
        with pytest.raises(KeyError, match=f"no row waits under ticket {older}"):
            model.resolve(older, 1.0)
    assert model.pending == 0
    np.testing.assert_array_equal(model.predict_many(X).mean, said)


BAD_TICKETS = [
    (9, KeyError, "ticket 9 has not been issued; the next one will be 3"),
    (1, KeyError, "no row waits under ticket 1: it is resolved"),
    (-1, ValueError, "ticket must be a whole number of at least 0; got -1"),
    (0.5, (ValueError, TypeError), "ticket must be a whole number"),
    (None, (ValueError, TypeError), "ticket must be a whole number"),
]


def test_a_bad_ticket_gets_a_sentence_and_changes_nothing():
    model = sg.Delayed(sg.KRLST(depth=2))
    for x in ([1.0], [2.0], [3.0]):
        model.issue(x)
    model.resolve(1, 5.0)
    before = model.to_bytes()
    for ticket, error, message in BAD_TICKETS:
        with pytest.raises(error, match=message):
            pytest.fail(f"{ticket} was taken: {model.resolve(ticket, 1.0)}")
        assert model.to_bytes() == before, ticket
    with pytest.raises(KeyError, match="ticket 0 has not been issued"):
        sg.Delayed(sg.KRLST()).resolve(0, 1.0)


@pytest.mark.parametrize("learned", [0, 5], ids=["first target", "later"])
def test_bad_rows_and_targets_change_nothing(build, learned):
    X, Y = stream(2)
    model = sg.Delayed(build(), pending=4)
    with pytest.raises(ValueError, match="x has NaN or inf"):
        model.issue([1.0, np.nan, 2.0])
    assert model.to_bytes() == sg.Delayed(build(), pending=4).to_bytes()
    issue_and_resolve(model, X[:learned], Y[:learned])
    ticket = model.issue(X[10]).ticket
    model.issue(X[11])
    before = model.to_bytes()
    for y, message in [
        ([np.inf, 1.0], "y has inf"),
        ("high", "y must be numbers; got text"),
        ([[1.0], [2.0]], "y must be a number or a list of numbers"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            model.resolve(ticket, y)
        assert model.to_bytes() == before
    if learned:
        with pytest.raises(ValueError, match="y must be 2 numbers"):
            model.resolve(ticket, [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="must have 3 columns"):
            model.issue([1.0])
    if model._shared:
        with pytest.raises(ValueError, match="Make the whole row missing"):
            model.resolve(ticket, [np.nan, 1.0])
    assert model.to_bytes() == before


def test_a_new_sequence_is_not_disturbed_by_targets_of_the_last_one():
    X, Y = stream(1)
    model, plain = sg.Delayed(sg.KRLST(depth=3)), sg.KRLST(depth=3)
    ticket = model.issue(X[0]).ticket
    model.reset_memory()
    model.resolve(ticket, Y[0])
    plain.learn_one(X[0], Y[0])
    plain.reset_memory()
    np.testing.assert_array_equal(model.predict_many(X).mean, plain.predict_many(X).mean)


def test_forecast_needs_the_target_of_the_last_row():
    X, Y = stream(1)
    model, plain = sg.Delayed(sg.Standardize(sg.KRLST(), warmup=16)), sg.Standardize(sg.KRLST(), warmup=16)
    for one in (model, plain):
        one.learn_one(X[0], Y[0])
    early = [model.issue(x).ticket for x in X[1:8]]
    last = model.issue(X[8]).ticket
    with pytest.raises(ValueError, match="the last row and its target, which has not come: resolve it first"):
        model.forecast(3, feedback=[0, 1, 2])
    for t in (last, *early):  # the units change on the way
        model.resolve(t, Y[t])
        plain.learn_one(X[t], Y[t])
    # The last row again, and its target, which is not learned.
    plain._pass(ONE[ADVANCE | TELL], X[8:9].copy(), np.array([[Y[8]]]), None, None)
    expected = plain.forecast(3, feedback=[0, 1, 2], trajectories=1)
    np.testing.assert_allclose(model.forecast(3, feedback=[0, 1, 2], trajectories=1).mean, expected.mean, atol=1e-12)


def test_a_snapshot_with_impossible_tickets_is_refused():
    model = sg.Delayed(sg.KRLST(), pending=2)
    model.issue([1.0])
    header, tensors = snapshot.unpacked(model.to_bytes())
    for name, value, message in [
        ("tickets", np.array([5, -1]), "tickets must be different whole numbers below 1"),
        ("tickets", np.array([0, 0]), "tickets must be different whole numbers"),
        ("tickets", np.array([-1, -1]), "says that row 0, its last one, waits, but has no such row"),
        ("counters.expired", np.array([7]), "the snapshot cannot have 1 rows, of which 7 expired"),
        ("waiting", tensors["state.waiting"] * np.nan, "waiting rows must be finite"),
    ]:
        with pytest.raises(sg.SnapshotError, match=message):
            sg.from_bytes(snapshot.packed(header, tensors | {f"state.{name}": value}))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="pending must be a whole number of at least 1; got 0"):
        sg.Delayed(sg.KRLST(), pending=0)
    with pytest.raises(TypeError, match="model must be a stream model such as KRLST"):
        sg.Delayed("KRLST")


def test_encoded_models_of_several_outputs_may_wait_within_a_wrapper():
    X, Y = stream(2)
    weights = np.random.default_rng(6).normal(size=12 * (D + 4 + 2))
    encoder = sg.TrainedEncoder("gru", inputs=D, depth=3, units=4, weights=weights)
    plain = sg.Encoded(encoder, model=[sg.KRLST(), sg.KRLST(noise=0.1)])
    wrapped = sg.Calibrated(sg.Encoded(encoder, model=[sg.KRLST(), sg.KRLST(noise=0.1)]))
    for model in (plain, wrapped):  # a row comes before it is known how many outputs there are
        model.observe_one(X[0])
        model.learn_many(X[1:], Y[1:])
    np.testing.assert_array_equal(wrapped.predict_many(X).mean, plain.predict_many(X).mean)


def test_with_a_half_life_targets_come_in_any_order_and_the_posterior_never_goes_back():
    """A target of an earlier row is learned as of the last one learned."""
    rng = np.random.default_rng(0)
    X, y, order = rng.normal(size=(20, D)), rng.normal(size=20), shuffled(20)
    model, expected = sg.Delayed(sg.KRLST(capacity=8, half_life=5.0)), sg.KRLST(capacity=8, half_life=5.0)
    tickets, latest = [model.issue(x, time=t).ticket for t, x in enumerate(X)], -np.inf
    for k, t in enumerate(order):
        latest = max(latest, t)
        model.resolve(tickets[t], y[t])
        expected.learn_one(X[t], y[t], time=latest)
        if k == 10:
            model = sg.from_bytes(model.to_bytes())
    assert model.health.late_rows == np.count_nonzero(order < np.maximum.accumulate(order))
    said, wanted = (one.predict_many(X) for one in (model, expected))
    np.testing.assert_array_equal(said.mean, wanted.mean)
    np.testing.assert_array_equal(said.variance, wanted.variance)
