"""The papers' rivals against dense formulas that share no code with them, and what batch models promise."""

from __future__ import annotations

import numpy as np
import pytest

from reproductions.rivals import BayesianCommitteeMachine, PseudoInputs, SubsetOfRegressors
from tests.unit import test_batch as of_batch
from tests.unit.test_batch import (
    KERNELS,
    NOISE,
    POINTS,
    VARIANCE,
    X_NEW,
    X,
    Y,
    assert_predicts,
    condition,
    kernel,
    log_evidence,
    se,
)

RIVALS = [SubsetOfRegressors(points=8), BayesianCommitteeMachine(experts=3), PseudoInputs(points=8)]
LAWS = (
    of_batch.test_shapes_follow_the_targets,
    of_batch.test_fitting_again_starts_from_the_settings_and_changes_none,
    of_batch.test_a_call_that_raises_leaves_the_model_as_it_was,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("model", RIVALS, ids=repr)
def test_a_rival_keeps_what_all_batch_models_promise(model, law):
    law(model)


def test_subset_of_regressors_equals_its_dense_formula():
    model = SubsetOfRegressors(kernel(), noise=NOISE, points=POINTS, jitter=1e-3).fit(X, Y)
    inverse = np.linalg.inv(se(POINTS, POINTS) + 1e-3 * VARIANCE * np.eye(6))
    q = lambda A, B: se(A, POINTS) @ inverse @ se(POINTS, B)  # noqa: E731
    S = q(X, X) + NOISE * np.eye(25)
    mean, covariance = condition(S, q(X_NEW, X), q(X_NEW, X_NEW), Y)
    assert_predicts(model, X_NEW, mean, np.diag(covariance))
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y), abs=1e-8)


@pytest.mark.parametrize("queries", [1, 3, 7, 20])
def test_committee_equals_tresps_combination_of_its_experts(queries):
    model = BayesianCommitteeMachine(kernel(), noise=NOISE, experts=4, queries=queries, seed=2).fit(X, Y)
    parts = np.array_split(np.random.default_rng(2).permutation(25), 4)
    evidence = sum(log_evidence(se(X[i], X[i]) + NOISE * np.eye(len(i)), Y[i]) for i in parts)
    assert model.log_marginal_likelihood() == pytest.approx(evidence, abs=1e-8)
    means, variances = [], []
    for first in range(0, 7, queries):
        Q = X_NEW[first : first + queries]
        precision, weighted = -3.0 * np.linalg.inv(se(Q, Q)), 0.0
        for i in parts:
            mean, covariance = condition(se(X[i], X[i]) + NOISE * np.eye(len(i)), se(Q, X[i]), se(Q, Q), Y[i])
            precision = precision + np.linalg.inv(covariance)
            weighted = weighted + np.linalg.solve(covariance, mean)
        means.append(np.linalg.solve(precision, weighted))
        variances.append(np.diag(np.linalg.inv(precision)))
    assert_predicts(model, X_NEW, np.concatenate(means), np.concatenate(variances))


@pytest.mark.more
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(
    "build",
    [
        lambda k, _: BayesianCommitteeMachine(k, noise=0.2, experts=3),
        lambda k, U: SubsetOfRegressors(k, noise=0.2, points=U, jitter=1e-3),
        lambda k, U: PseudoInputs(k, noise=0.2, points=U, jitter=1e-3),
    ],
    ids=["committee", "regressors", "pseudo-inputs"],
)
def test_gradient_of_the_log_marginal_likelihood_by_differences(build, kernel, depth):
    of_batch.test_gradient_of_the_log_marginal_likelihood_by_differences(build, kernel, depth)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BayesianCommitteeMachine(experts=0), "experts must be a whole number"),
        (lambda: BayesianCommitteeMachine(experts=30).fit(X, Y), "30 experts need as many rows"),
        (
            lambda: BayesianCommitteeMachine(kernel(), experts=2, queries=2).fit(X, Y).predict(np.zeros((2, 2))),
            "rows to predict is not positive definite.*Use jitter=1e-6",
        ),
    ],
)
def test_bad_settings_and_data_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
