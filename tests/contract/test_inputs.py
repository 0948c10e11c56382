"""What every call does with what users have: masked arrays, nullable columns, tensors, dates, huge whole numbers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import streamgp as sg
from tests.contract.models import EXAMPLES, D, parameters
from tests.contract.test_contract import N, state, stream
from tests.same import assert_same

pd = pytest.importorskip("pandas")
torch = pytest.importorskip("torch")

WRONG = 1e10  # what lies under a mask
DAYS = np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[D]")


@pytest.fixture(params=parameters(EXAMPLES))
def build(request):
    return EXAMPLES[request.param]


def masked(values, mask):
    return np.ma.array(np.where(mask, WRONG, values), mask=mask)


class Table:
    """Columns of another library, which NumPy reads by ``__array__``."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


# Rows: three numbers that are no row of numbers, and what is said.
BAD = {
    "masked": (
        lambda: masked(np.ones(D), [False, True, False]),
        "inputs must be finite numbers, and None, NA and masked",
    ),
    "masked integers": (lambda: np.ma.array([1, 2, 3], mask=[0, 1, 0]), "has NaN or inf"),
    "list with a masked entry": (lambda: [1.0, np.ma.masked, 2.0], "has NaN or inf"),
    "NA": (lambda: [1.0, pd.NA, 2.0], "has NaN or inf"),
    "nullable column": (lambda: pd.Series([1.0, pd.NA, 2.0], dtype="Float64"), "has NaN or inf"),
    "objects": (lambda: np.array([1.0, None, 2.0], dtype=object), "has NaN or inf"),
    "dates": (lambda: DAYS, "must be numbers; got dates or durations: .* for example to seconds"),
    "masked dates": (lambda: np.ma.array(DAYS, mask=[0, 1, 0]), "got dates or durations"),
    "durations": (lambda: DAYS - DAYS[0], "got dates or durations: .* for example to seconds"),
    "datetimes": (lambda: [dt.datetime(2020, 1, 1)] * 3, "got dates or durations"),
    "a date among numbers": (lambda: [1.0, np.datetime64("2020-01-01"), 2.0], "got dates or durations"),
    "a duration among numbers": (lambda: [1.0, np.timedelta64(5, "s"), 2.0], "got dates or durations"),
    "timestamps": (lambda: pd.Series(pd.date_range("2020", periods=3, tz="UTC")), "got dates or durations"),
    "400 digits": (lambda: [1, 10**400, 2], "has a whole number beyond the largest float, .* Use other units"),
    "9000 digits": (lambda: [1.0, -(10**9000), 2.0], "has a whole number beyond the largest float"),
    "text as objects": (lambda: np.array([1.0, "2", 3.0], dtype=object), "must be numbers; got text"),
    "text as StringDType": (lambda: np.array(["1", "2", "3"], dtype=np.dtypes.StringDType()), "got text"),
    "nullable text": (lambda: pd.Series(["1", pd.NA, "2"], dtype="string"), "got text"),
    "complex": (lambda: np.ones(D) * 1j, "must be real numbers; got complex ones"),
    "complex tensor": (lambda: torch.ones(D, dtype=torch.complex64), "must be real numbers; got complex ones"),
    "records": (lambda: np.zeros(D, dtype="f8,f8"), "must be numbers; got"),
    "sparse tensor": (lambda: torch.ones(D).to_sparse(), "must be numbers"),
}


CALLS = {
    "predict_one": lambda model, x, X: model.predict_one(x),
    "learn_one": lambda model, x, X: model.learn_one(x, 1.0),
    "learn_one without a target": lambda model, x, X: model.learn_one(x, None),
    "observe_one": lambda model, x, X: model.observe_one(x),
    "predict_many": lambda model, x, X: model.predict_many(X),
    "learn_many": lambda model, x, X: model.learn_many(X, [1.0]),
    "track": lambda model, x, X: model.track(X, [1.0]),
    "track without targets": lambda model, x, X: model.track(X),
    "simulate": lambda model, x, X: model.simulate(X, feedback=[0], trajectories=2),
}


@pytest.mark.parametrize("name", ["SOGP", "QKLMS", "LWPR", "LocalGP", "Encoded", "Calibrated committee"])
def test_every_call_refuses_bad_inputs_and_changes_nothing(name):
    first, later = EXAMPLES[name](), EXAMPLES[name]()
    later.learn_many(*stream(1))
    for model in (first, later):
        before = state(model)
        for bad, (make, message) in BAD.items():
            x = make()
            rows = pd.DataFrame([x]) if isinstance(x, pd.Series) else x[None] if isinstance(x, np.ndarray) else [x]
            for kind, call in CALLS.items():
                with pytest.raises((ValueError, TypeError), match=message):
                    pytest.fail(f"{kind} took {bad}: {call(model, x, rows)}")
                assert state(model) == before, (kind, bad)


BAD_TARGETS = {
    "date": (np.datetime64("2020-01-01"), "y must be numbers; got dates or durations"),
    "no date": (np.datetime64("NaT", "s"), "y must be numbers; got dates or durations"),
    "NaT of pandas": (pd.NaT, "y must be numbers; got dates or durations"),
    "duration": (np.timedelta64(5, "s"), "y must be numbers; got dates or durations"),
    "400 digits": (10**400, "y has a whole number beyond the largest float"),
    "complex": (1j, "y must be real numbers"),
    "text": ("1.0", "y must be numbers; got text"),
    "dict": ({}, "y must be numbers; got {}"),
}


def test_every_model_refuses_bad_targets_and_changes_nothing(build):
    X, Y = stream(1)
    model = build()
    model.learn_many(X, Y)
    before = state(model)
    for bad, (y, message) in BAD_TARGETS.items():
        with pytest.raises((ValueError, TypeError), match=message):
            pytest.fail(f"{bad} was taken: {model.learn_one(X[0], y)}")
        for call in (model.learn_many, model.track):
            with pytest.raises((ValueError, TypeError), match=message.replace("y ", "Y ").replace("{}", "")):
                pytest.fail(f"{bad} was taken: {call(X[:2], [1.0, y])}")
        assert state(model) == before, bad


def test_none_na_and_masked_targets_are_missing_alike(build):
    X, Y = stream(2)
    for earlier in (0, 10):
        results = []
        for missing in (None, pd.NA, np.ma.masked):
            model = build()
            model.learn_many(X[:earlier], Y[:earlier])
            model.learn_one(X[10], missing)
            model.learn_many(X[11:], Y[11:])
            results.append(state(model))
        assert results[0] == results[1] == results[2], earlier


def test_missing_targets_of_many_rows_may_be_masked_nullable_or_none(build):
    check_missing_targets_of_many_rows(build, 1)
    check_missing_targets_of_many_rows(build, 2)


def check_missing_targets_of_many_rows(build, p):
    X, Y = stream(p)
    gone = np.zeros(Y.shape, dtype=bool)
    gone[::3] = True
    plain, table = np.where(gone, np.nan, Y), pd.DataFrame(Y).astype("Float64")
    table[pd.DataFrame(gone)] = pd.NA
    model = build()
    expected = model.track(X, plain)
    forms = {
        "masked": masked(Y, gone),
        "None": np.where(gone, None, Y.astype(object)),
        "list": np.where(gone, None, Y.astype(object)).tolist(),
        "nullable": table[0] if p == 1 else table,
        "other library": Table(plain),
        "list of masked": list(masked(Y, gone)),
    }
    for name, form in forms.items():
        twin = build()
        assert_same(twin.track(X, form), expected)
        assert state(twin) == state(model), (name, p)


def test_tensors_are_taken_without_their_gradient(build):
    X, Y = stream(1)
    rows, targets = torch.tensor(X, requires_grad=True), torch.tensor(Y, requires_grad=True)
    model, twin = build(), build()
    model.learn_many(X, Y)
    twin.learn_many(rows, targets)
    model.learn_one(X[0], float(Y[0]))
    twin.learn_one(rows[0], targets[0])
    model.learn_many(X[:3], Y[:3])
    twin.learn_many(list(rows[:3]), list(targets[:3]))
    assert state(model) == state(twin)
    assert_same(model.predict_many(X), twin.predict_many(rows))
    assert rows.requires_grad


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_tensors_may_be_of_any_real_kind(kind):
    model = sg.SOGP()
    model.learn_many(*stream(1))
    assert_same(model.predict_one(torch.tensor([1, 0, 1]).to(kind)), model.predict_one([1.0, 0.0, 1.0]))


def test_track_may_go_without_targets_and_learn_many_may_not():
    model = sg.SOGP(capacity=8)
    before = model.to_bytes()
    with pytest.raises(ValueError, match="Y must have one target for each of the 4 rows of X"):
        model.learn_many(np.ones((4, D)), None)
    assert model.to_bytes() == before
    model.track(np.ones((4, D)), None)
    assert model.rows_seen == 4


def test_whole_numbers_beyond_64_bits_are_numbers():
    model = sg.Standardize(sg.SOGP())
    model.learn_many([[2**70], [2**71]], [10**100, 2 * 10**100])
    assert model.rows_seen == 2


BATCH = {
    "FullGP": lambda: sg.batch.FullGP(),
    "FITC": lambda: sg.batch.FITC(points=5),
    "SSGPR": lambda: sg.batch.SSGPR(features=10),
}


@pytest.mark.parametrize("name", BATCH)
def test_batch_models_refuse_bad_data_and_stay_as_they_were(name):
    X, Y = stream(1)
    model = BATCH[name]().fit(X, Y)
    before = model.predict(X)
    hidden = np.zeros(X.shape, dtype=bool)
    hidden[3, 1] = True
    dates = np.full(X.shape, np.datetime64("2020-01-01"))
    for rows, targets, message in (
        (masked(X, hidden), Y, "NaN or inf in row 3"),
        (dates, Y, "X must be numbers; got dates or durations"),
        (X, masked(Y, hidden[:, 1]), "Y has NaN or inf in row 3: a batch model needs every target"),
        (X, dates[:, 0], "Y must be numbers; got dates or durations"),
        (X, [10**400, *Y[1:]], "Y has a whole number beyond the largest float"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(rows, targets)
    for rows, message in ((masked(X, hidden), "NaN or inf in row 3"), (dates, "got dates or durations")):
        with pytest.raises((ValueError, TypeError), match=message):
            model.predict(rows)
    assert_same(model.predict(X), before)
    assert_same(model.predict(torch.tensor(X, requires_grad=True)), before)


def test_scores_leave_out_what_is_masked_or_na():
    X, Y = stream(1)
    gone = np.arange(N) % 4 == 0
    expected = sg.evaluate.prequential(sg.SOGP(), X, np.where(gone, np.nan, Y))
    nullable = pd.Series(np.where(gone, pd.NA, Y.astype(object)), dtype="Float64")
    for targets in (masked(Y, gone), np.where(gone, None, Y.astype(object)), nullable):
        scores = sg.evaluate.prequential(sg.SOGP(), X, targets)
        assert scores.rows == expected.rows == (~gone).sum()
        assert (scores.rmse, scores.nlpd, scores.coverage) == (expected.rmse, expected.nlpd, expected.coverage)
    prediction = sg.Prediction(np.zeros(2), np.ones(2), np.ones(2))
    for y in (np.ma.array([1.0, WRONG], mask=[0, 1]), [1.0, None], [1.0, pd.NA]):
        np.testing.assert_array_equal(np.isnan(prediction.log_density(y)), [False, True])
        np.testing.assert_array_equal(np.isnan(prediction.deviations(y)), [False, True])
        assert sg.evaluate.rmse(y, [0.0, 0.0]) == sg.evaluate.coverage(y, [0.0, 0.0], [2.0, 2.0]) == 1.0
