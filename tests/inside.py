"""What tests know of a model's insides, in one place."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np

import streamgp as sg
from streamgp.arrays import opened
from streamgp.compiled import compiled, uncompiled
from streamgp.process import growing
from streamgp.process.adapt import move
from streamgp.process.state import GATHERING


def count(model, name):
    """A counter of the model."""
    return model._numbers.count(name)


def absorb_from_now_on(model):
    """Let no row be novel."""
    model._numbers.plan["novelty"] = 2.0


def prior(model):
    """K of the basis points, jitter included."""
    K = model._features.kernel(model.basis)
    return K * (1.0 + model._features.jitter * np.eye(len(K)))


def factor(model):
    """R with K = R'R, as the model carries it."""
    return model._state.factor[: model.size, : model.size]


def covariance(model, j=0):
    """S of the whitened weights, full."""
    n = len(model._state.mu) if model._features.kernel is None else model.size
    lower = model._state.covariance[j, :n, :n]
    if model._factored:  # the factor R of noise S^-1
        root = np.linalg.inv(np.triu(lower))
        return model._state.noise[j] * root @ root.T
    return np.tril(lower) + np.tril(lower, -1).T


def change(model, j=0):
    """C: what the data changed of the covariance of the kernel functions' weights."""
    root = np.linalg.inv(factor(model))
    return root @ (covariance(model, j) - np.eye(model.size)) @ root.T


def weights(model):
    """alpha, the weights of the kernel functions."""
    return np.linalg.solve(factor(model), model._state.mu[: model.size])


def hyperparameters(model):
    return np.concatenate([model._state.parameters, model._state.noise])


def _standing(function):
    """What compiled code can call, also where a function is compiled into its caller."""
    written = uncompiled(function)
    return function if written is function else compiled(written)


@cache
def called(function):
    """A compiled function as Python can call it."""
    standing = _standing(function)
    return import_module("numba").njit(lambda *given: standing(*given))


@cache
def called_with_model(function):
    """A compiled function of a model, as Python can call it with the model's records and buffers."""
    standing = _standing(function)
    return import_module("numba").njit(lambda records, buffers, *given: standing(opened(records, buffers, 0), *given))


def _numbers(model):
    return model._numbers.records, model._numbers.buffers


def loadings(model):
    """Which hyperparameters are loadings of factors: they move as they are, the others by their logarithms."""
    if model._features.kernel is None:
        return np.zeros(hyperparameters(model).size, dtype=bool)
    own = move.program_of(model._numbers).loading_units(model._numbers.work.seen.size) > 0
    return np.pad(own, (0, model._state.noise.size))


def try_to_move(model, target):
    """Move a model to other hyperparameters through its own code; target is the vector (parameters..., noise...)."""
    plain = loadings(model)
    there = np.where(plain, target, np.log(np.where(plain, 1.0, target)))
    return move.move_to(model._numbers, plain.astype(float), there)


def move_to(model, target):
    assert try_to_move(model, target)


def gradient_at(model, x, y, time=None):
    """The gradient that the model gathers when it learns one row."""
    twin = model.copy()
    twin._numbers.counters["phase"] = GATHERING
    twin._numbers.counters["phase_rows"] = 0
    twin._state.gradient[:] = 0.0
    twin.learn_one(x, y, time=time)
    return twin._state.gradient.copy()


def evict(model, r):
    called_with_model(growing.evict)(*_numbers(model), r)


class Stopped(sg.KRLST):
    """A model that is stopped in the middle."""

    def __init__(self, capacity=8):
        super().__init__(capacity=capacity)

    def _pass(self, ops, X, *given):
        if len(X) > 5:
            raise KeyboardInterrupt
        return super()._pass(ops, X, *given)
