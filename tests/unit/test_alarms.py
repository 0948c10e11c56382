from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from scipy import stats

import streamgp as sg
from streamgp.arrays import Numbers
from streamgp.contract.within import all_arrays
from streamgp.wrappers import surprise
from streamgp.wrappers.alarms import rate_of
from tests.inside import called


def judged(z, rate=1e-3, memory=5000.0, warmup=100.0, own=()):
    """Surprise and kinds of errors in standard deviations, and in those that the model itself claims."""
    n = len(z)
    plan = {"stopping": False, "memory": memory, "warmup": warmup}
    numbers = Numbers(surprise.LAYOUT, {"outputs": 1, "inputs": 1, "history": 1}, plan)
    numbers.state.progress[:, surprise.UNFITTED] = -1.0
    Z, claimed = (np.ascontiguousarray(part, dtype=float).reshape(-1, 1) for part in (z, own))
    inputs, found = (np.zeros((n, 1)), Z, claimed, np.zeros((n, 1)), np.full(n, rate)), np.empty((2, n, 1))
    assert surprise.judge(numbers.records, numbers.buffers, *inputs, *found) == n
    return found[0, :, 0], found[1, :, 0]


def sine(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


def around(**settings):
    return sg.Alarms(sg.OnlineGP(sg.Fourier(20, lengthscale=1.0), noise=0.01), **settings)


# How rows are judged.


def test_an_alarm_carries_what_was_compared_with_the_budget():
    z = np.random.default_rng(5).standard_normal(20_000)
    nats, kinds = judged(z, rate=1.0 / 168.0)
    plain, _ = judged(z, rate=0.0)  # the p-values alone
    spikes, none = kinds == surprise.SPIKE, kinds == surprise.NONE
    assert np.count_nonzero(np.exp(-plain[spikes]) > 1.0 / 168.0) > 3  # after a quiet time the budget has a factor
    assert np.exp(-nats[spikes]).max() <= surprise.SPIKES / 168.0
    np.testing.assert_array_equal(np.exp(-nats[kinds > surprise.SPIKE]) <= surprise.CHANGES / 168.0, True)
    assert none.mean() > 0.99


def in_units(sizes):
    """Sizes over a geometric mean of those before, 1/200 of which is new in every row; by a list, not in one pass."""
    found, logs = [], []  # the mean of log |x| is -0.635 for a Gaussian
    for t, size in enumerate(sizes):
        log = math.log(size)
        mean = logs[-1] if logs else log
        found.append(size / math.exp(mean) * math.exp(-0.6351814227))
        share = 1.0 / min(t + 1, 200)
        logs.append((1.0 - share) * mean + share * np.clip(log, mean - math.log(10.0), mean + math.log(10.0)))
    return np.array(found)


def test_a_calibrated_error_counts_by_its_own_deviation_where_that_is_less():
    rng = np.random.default_rng(14)
    z, own = rng.standard_normal(1500), 7.0 * rng.standard_normal(1500)
    own[[700, 1300]], z[[1200, 1300]] = 0.0001, 40.0
    by_both = np.sign(z) * np.minimum(in_units(np.abs(z)), in_units(np.abs(own)))
    nats, kinds = judged(z, own=own)
    wanted, wanted_kinds = judged(by_both)
    np.testing.assert_allclose(nats, wanted, rtol=1e-8)
    np.testing.assert_array_equal(kinds, wanted_kinds)
    assert kinds[1200] == surprise.NONE  # the model itself did not find it large
    unknown = judged(z, own=np.full(1500, np.nan))
    assert unknown[1][[1200, 1300]].tolist() == [surprise.SPIKE, surprise.SPIKE]


def test_a_row_that_the_model_did_not_claim_to_know_is_no_spike():
    rng = np.random.default_rng(15)
    X = np.where(rng.random((3000, 1)) < 0.9, rng.uniform(-1, 1, (3000, 1)), rng.uniform(2, 9, (3000, 1)))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.standard_normal(3000)
    X[2000], y[2000], X[2500], y[2500] = 20.0, -1.0, 0.5, -1.0
    alarms = sg.Alarms(sg.Calibrated(sg.KRLST(capacity=30, forgetting=1.0)), rate=1e-3)
    told = alarms.track(X, y).alarm
    assert (str(told[2000]), str(told[2500])) == ("", "spike")


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.standard_normal(n),
        lambda rng, n: 3.0 * rng.laplace(size=n),
        lambda rng, n: 0.2 * rng.standard_t(3, n),
        lambda rng, n: rng.lognormal(size=n) - math.exp(0.5),
    ],
    ids=["Gaussian", "Laplace", "Student-t", "lognormal"],
)
def test_alarms_keep_their_budget_whatever_the_distribution_and_scale_of_errors(draw):
    rng = np.random.default_rng(3)
    for rate in (1e-2, 1e-3):
        kinds = np.concatenate([judged(draw(rng, 20000), rate)[1] for _ in range(3)])
        assert 0.5 < np.mean(kinds > 0) / rate < 1.5, rate


def test_p_values_are_uniform_while_nothing_changes():
    rng = np.random.default_rng(4)
    nats, _ = judged(2.0 * rng.standard_normal(8000), rate=1e-4)
    p_values = np.exp(-nats[1000:])
    for level in (0.5, 0.1, 0.02):
        assert np.mean(p_values <= level) == pytest.approx(level, abs=4 * math.sqrt(level / 7000))


def test_the_score_of_an_error_is_the_log_of_its_gaussian_p_value():
    for z in (0.0, 0.3, -2.0, 8.0, 34.0, 36.0, -60.0):
        assert called(surprise.nats)(z) == pytest.approx(-math.log(2) - stats.norm.logsf(abs(z)), rel=5e-4, abs=1e-12)
    assert math.isfinite(called(surprise.nats)(1e200))


@pytest.mark.parametrize("shape", [0.0, 0.4])
def test_the_fitted_tail_is_that_of_a_generalized_pareto_distribution(shape):
    counts, tail, progress = np.zeros(2 * surprise.SIDE), np.zeros(surprise.FITTED), np.zeros(surprise.PROGRESS)
    edges = surprise.LEAST * np.exp(surprise.WIDTH * np.arange(surprise.SIDE + 1))
    counts[surprise.SIDE :] = 1e5 * np.diff(stats.genpareto(shape, scale=2.0).cdf(edges))
    called(surprise.fit)(counts, counts.sum(), tail, np.empty(surprise.ROOM))
    beyond = np.empty_like(counts)
    called(surprise.add_up)(counts, beyond)
    for p in (1e-2, 1e-3, 1e-4):
        score = stats.genpareto(shape, scale=2.0).isf(p)
        assert called(surprise.p_value)(score, beyond, tail, progress) == pytest.approx(p, rel=0.05)


def test_a_shift_is_a_level_change_and_errors_of_both_signs_are_a_change_of_the_relation():
    rng = np.random.default_rng(5)
    found = {surprise.LEVEL: [], surprise.RELATION: []}
    for _ in range(10):
        z = rng.standard_normal(1100)
        for kind, changed in ((surprise.LEVEL, z[1000:] + 2.0), (surprise.RELATION, 4.0 * z[1000:])):
            kinds = judged(np.append(z[:1000], changed))[1]
            first = next((t for t in range(1000, 1100) if kinds[t] > surprise.SPIKE), 1100)
            found[kind].append(first - 1000)
            right = first < 1100 and kinds[first] == kind
            found[kind][-1] = found[kind][-1] if right else 100
    assert np.median(found[surprise.LEVEL]) < 15
    assert np.median(found[surprise.RELATION]) < 20


def test_errors_that_return_to_zero_are_no_change():
    rng = np.random.default_rng(6)
    z = rng.standard_normal(2000) + np.repeat([3.0, 0.0], 1000)
    assert not np.any(judged(z)[1] > surprise.SPIKE)


def test_one_broken_value_does_not_become_the_tail():
    rng = np.random.default_rng(7)
    z = rng.standard_normal(3000)
    z[1000:2000:250] = 1e6
    z[2500] = 6.0
    _, kinds = judged(z, rate=1e-4)
    assert np.all(kinds[1000:2000:250] == surprise.SPIKE)
    assert kinds[2500] == surprise.SPIKE


# The model.


def test_a_usual_value_that_is_wrong_for_its_inputs_is_a_spike():
    X, y = sine(1200)
    X[1000], y[1000] = 1.5, -0.8
    alarms = around(rate=1e-4)
    p = alarms.track(X, y)
    assert str(p.alarm[1000]) == "spike"
    assert np.flatnonzero(p.alarm).tolist() == [alarm.row for alarm in alarms.events]
    alarm = next(alarm for alarm in alarms.events if alarm.row == 1000)
    assert (alarm.kind, alarm.observed, alarm.output) == ("spike", -0.8, 0)
    assert alarm.expected == p.mean[1000]
    assert alarm.surprise == p.surprise[1000] == pytest.approx(-math.log(alarm.p_value))
    assert alarms.counts["spike"] == sum(alarm.kind == "spike" for alarm in alarms.events)


def test_the_last_row_is_judged():
    X, y = sine(400)
    alarms = around()
    assert alarms.last is None
    p = alarms.track(X, y)
    assert alarms.last.row == 399
    assert alarms.last.surprise == p.surprise[-1]
    alarms.learn_one(X[0], 5.0)
    assert alarms.last[:2] == (400, "spike")
    alarms.learn_one(X[0], None)
    assert alarms.last[:2] == (400, "spike")
    assert alarms.predict_one(X[0]).alarm is None
    assert alarms.events[-1].row == 400


@pytest.mark.parametrize(
    "model",
    [
        lambda: sg.OnlineGP(sg.Fourier(20, lengthscale=1.0), noise=0.01),
        lambda: sg.Calibrated(sg.IRFRR(features=20)),
        lambda: sg.Standardize(sg.KRLST(capacity=20)),
    ],
    ids=["weighs rows", "cannot", "Standardize"],
)
def test_a_spike_is_not_learned_as_truth(model):
    X, y = sine(500)
    clean, spoiled = model(), sg.Alarms(model())
    clean.learn_many(X, y)
    spoiled.learn_many(X, y)
    learning = sg.Alarms(model(), discount_spikes=False)
    learning.learn_many(X, y)
    for _ in range(3):
        spoiled.learn_one([0.0], 4.0)
        learning.learn_one([0.0], 4.0)
    expected = clean.predict_one([0.0]).mean
    assert spoiled.predict_one([0.0]).mean == pytest.approx(expected, abs=0.02)
    assert learning.predict_one([0.0]).mean > expected + 0.03


def test_a_fill_value_is_a_spike():
    X, y = sine(300)
    y[200] = -9999.0
    alarms = sg.Alarms(sg.Standardize(sg.KRLST(capacity=20)))
    p = alarms.track(X, y)
    assert str(p.alarm[200]) == "spike"
    assert (alarms.events[0].row, alarms.events[0].observed) == (200, -9999.0)
    assert alarms.health.fill_values == 1


SPIKES = {700: 0.8, 740: 3.0, 780: 12.0, 820: 25.0, 860: 60.0, 900: 300.0, 940: 27000.0}


def with_spikes(rows=1000):
    """y = 2a - b, and single rows of which each is further off than the one before."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((rows, 2))
    y = X @ [2.0, -1.0] + 0.1 * rng.standard_normal(rows)
    for row, size in SPIKES.items():
        y[row] += size
    return X, y


@pytest.mark.more
def test_a_spike_is_told_however_large_it_is():
    X, y = with_spikes()
    settings = {"warmup": 100, "tune": False, "background": False}
    together, alone = (sg.Alarms(sg.Auto(**settings), rate=1e-3) for _ in range(2))
    p = together.track(X, y)
    for x, target in zip(X, y, strict=True):
        alone.learn_one(x, target)
    assert together.inner.health.fill_values >= 2
    for row in SPIKES:
        assert str(p.alarm[row]) == "spike"
        assert np.exp(-p.surprise[row]) < 1e-3
    for alarms in (together, alone):
        told = [alarm.row for alarm in alarms.events]
        assert [row for row in told if row in SPIKES] == list(SPIKES)
        assert len(told) <= len(SPIKES) + 4
    late = sg.Delayed(sg.Alarms(sg.Auto(**settings), rate=1e-3), pending=2)
    for x, target in zip(X, y, strict=True):
        late.resolve(late.issue(x).ticket, target)
    assert [alarm.row for alarm in late.inner.events if alarm.row in SPIKES] == list(SPIKES)


def test_a_row_with_a_large_noise_of_its_own_is_no_spike():
    X, y = sine(400)
    alarms = around()
    alarms.learn_many(X, y)
    alarms.learn_one([0.0], 1.5, noise=1.0)
    assert alarms.last.alarm == ""
    alarms.learn_one([0.0], 1.5, noise=0.01)
    assert alarms.last.alarm == "spike"


def test_inputs_that_make_a_row_strange_are_named():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 2, (600, 3))
    y = np.sin(X[:, 1]) + 0.1 * rng.standard_normal(600)
    alarms = sg.Alarms(sg.KRLST(capacity=60, lengthscale=2.0))
    with pytest.raises(ValueError, match="once a row has been learned"):
        alarms.explain_one(X[0], 0.0)
    alarms.learn_many(X, y)
    before = alarms.to_bytes()
    told = alarms.explain_one([0.3, 1.6, -0.4], 0.1)
    assert np.argmax(told) == 1
    assert told[1] > 10 > np.abs(told[[0, 2]]).max()
    assert alarms.to_bytes() == before


def test_several_outputs_are_judged_apart():
    X, y = sine(400)
    Y = np.column_stack([y, -y])
    Y[300, 1] += 3.0
    alarms = sg.Alarms(sg.SOGP(capacity=20, noise=0.01, outputs="separate"))
    p = alarms.track(X, Y)
    assert p.alarm[300].tolist() == ["", "spike"]
    assert p.surprise.shape == (400, 2)
    assert [alarm.output for alarm in alarms.events if alarm.row == 300] == [1]


def test_late_targets_are_judged_by_what_was_predicted():
    X, y = sine(402)
    y[400] = 5.0
    model = sg.Delayed(around(), pending=3)
    model.learn_many(X[:400], y[:400])
    first, second = (model.issue(x).ticket for x in X[400:])
    model.resolve(second, y[401])
    model.resolve(first, y[400])
    assert model.inner.events[-1][:2] == (400, "spike")


def test_only_the_last_events_are_listed_and_all_are_counted():
    X, y = sine(900)
    y[300::100] += 3.0
    alarms = around(history=2)
    alarms.learn_many(X, y)
    assert alarms.counts["spike"] >= 6
    assert [alarm.row for alarm in alarms.events][-1] == 800
    assert len(alarms.events) == 2


# Rates.


def test_a_rate_by_time_is_a_rate_by_row_where_rows_are_equally_spaced():
    X, y = sine(600)
    y[500] = 4.0
    by_row = around(rate=1e-3)
    by_time = around(rate="1/hour")
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(seconds=3.6 * t) for t in range(600)]
    a, b = by_row.track(X, y), by_time.track(X, y, time=times)
    np.testing.assert_array_equal(a.alarm, b.alarm)
    assert by_time.events[-1].time == pytest.approx(times[by_time.events[-1].row].timestamp())
    one = around(rate="1/hour")
    for x, target, time in zip(X, y, times, strict=True):
        one.learn_one(x, target, time=time)
    assert one.to_bytes() == by_time.to_bytes()


def with_wrong_times(times):
    """The same times, and those of clocks that were wrong once, or stood still for years."""
    first, ahead, pause, back = (times.copy() for _ in range(4))
    first[0] = 0.0
    ahead[1000] = 4.3e9
    pause[1500:] += 10 * 365.25 * 86400
    back[1000:] -= 10 * 365.25 * 86400
    return {"right": times, "first row in 1970": first, "row 1000 in 2106": ahead, "pause": pause, "set back": back}


def test_one_wrong_time_stamp_does_not_change_the_budget():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (3000, 1))
    y = X[:, 0] + 0.1 * rng.standard_normal(3000)
    counts = {}
    for name, times in with_wrong_times(1.7e9 + 3600.0 * np.arange(3000)).items():
        alarms = sg.Alarms(sg.KRLST(capacity=5), rate="1/week")
        alarms.learn_many(X, y, time=times)
        counts[name] = sum(alarms.counts.values())
    assert 3 <= counts["right"] <= 30  # 17.9 weeks
    assert all(abs(count - counts["right"]) <= 3 for count in counts.values()), counts


def test_the_mean_gap_is_the_time_that_has_passed_over_the_rows():
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.exponential(60.0, 500)) + 1.7e9
    times[100:110] = times[100]  # at the same time
    times[200:203] = times[[202, 200, 201]]  # a little out of order
    clock, means = np.zeros(surprise.CLOCK), np.empty(500)
    surprise.mean_gaps(clock, times, means)
    latest = np.maximum.accumulate(times)
    np.testing.assert_allclose(means[1:], (latest[1:] - times[0]) / np.arange(1, 500), rtol=1e-8)
    surprise.mean_gaps(np.zeros(surprise.CLOCK), np.full(3, 7.0), means[:3])
    assert means[:3].tolist() == [0.0, 0.0, 0.0]


def test_rates_are_read():
    assert rate_of("rate", 0.01) == (0.01, 0.0)
    for text, often in {"1/week": 1 / 604800, "3/day": 3 / 86400, "1/8h": 1 / 28800, "0.5 / minute": 0.5 / 60}.items():
        assert rate_of("rate", text) == (0.0, pytest.approx(often))


def test_bad_settings_and_missing_times_get_a_sentence():
    for wrong in ("often", "1/fortnight", "0/day", "-1/day", "week", "1/0h"):
        with pytest.raises(ValueError, match="rate must be alarms for each row, such as 1e-3, or for a length of time"):
            around(rate=wrong)
    with pytest.raises(ValueError, match=r"rate must be a finite number above 0 and at most 0\.1; got 0\.5"):
        around(rate=0.5)
    with pytest.raises(ValueError, match=r"QKLMS has none; use Alarms\(Calibrated\(QKLMS\(\.\.\.\)\)\)"):
        sg.Alarms(sg.filters.QKLMS())
    with pytest.raises(ValueError, match="judges the errors of numbers; it cannot be used around a model of counts"):
        sg.Alarms(sg.ISSGPR(form="covariance", likelihood=sg.Poisson(), outputs="separate"))
    with pytest.raises(ValueError, match="Alarms looks at every row before it is learned: use batch=1"):
        sg.Alarms(sg.RecursiveGP([[0.0], [1.0]], batch=2))
    X, y = sine(10)
    alarms = around(rate="1/week")
    for call in (lambda: alarms.learn_one(X[0], y[0]), lambda: alarms.track(X, y, time=[np.nan] * 10)):
        with pytest.raises(ValueError, match="rate='1/week' counts alarms by time, so that every learned row needs"):
            call()
    assert alarms.rows_seen == 0


def test_a_snapshot_that_no_stream_leads_to_is_refused():
    X, y = sine(150)
    alarms = around()
    alarms.learn_many(X, y)
    for name, wrong in (("counts", -1.0), ("evidence", np.nan), ("tails", np.inf), ("clock", np.nan)):
        broken = alarms.copy()
        all_arrays(broken)[name][...] = wrong
        with pytest.raises(sg.SnapshotError, match="cannot be of a stream"):
            sg.from_bytes(broken.to_bytes())


def test_rows_without_any_error_say_nothing_of_later_ones():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 2)), rng.normal(size=900)
    y[:150] = 0.0  # what the model expects before it has learned anything
    y[800] = 60.0
    alarms = sg.Alarms(sg.Calibrated(sg.KRLST(capacity=10)), rate=1e-3)
    told = alarms.track(X, y).alarm
    assert told[800] == "spike"
    assert np.count_nonzero(told[200:] == "spike") <= 2  # the change itself is a few rows earlier


@pytest.mark.parametrize("unit", [1e9, 1e-9])
def test_a_model_in_other_units_than_its_targets_is_not_surprised_by_every_row(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = unit * (np.sin(X[:, 0]) + 0.1 * rng.normal(size=400))
    alarms = sg.Alarms(sg.SOGP(capacity=8, noise=0.05))
    alarms.learn_many(X, y)
    assert sum(alarms.counts.values()) <= 2
