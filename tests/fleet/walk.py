"""A fleet and its models alone, called alike: what both say and know has to be the same."""

import numpy as np

import streamgp as sg
from tests.fleet.recipes import D, dense, sparse
from tests.same import assert_same

SIZE = 4


def states(fleet):
    return [fleet.model(i).to_bytes() for i in range(fleet.size)]


class Walk:
    """Calls of a fleet and of its models, each told of the others as late ones are.

    Args:
        late: whether some targets come late.
        timed: whether rows have a noise and a time of their own.
        width: columns of the inputs.
        saved: whether the fleet goes on from its bytes.
    """

    def __init__(self, fleet, recipe, *, outputs=(), same=assert_same, late=False, timed=False, width=D, saved=True):
        self.fleet, self.outputs, self.same, self.late, self.timed = fleet, outputs, same, late, timed
        self.saved, self.rng, self.width, self.time, self.waiting = saved, np.random.default_rng(1), width, 0.0, {}
        self.models = [sg.Delayed(recipe.clone(), pending=100) if late else recipe.clone() for _ in range(SIZE)]

    @property
    def alone(self):
        return [model.inner if self.late else model for model in self.models]

    def given(self, shape):
        """The noise and the time of rows, later than all before."""
        if not self.timed:
            return {}
        noise, self.time = self.rng.uniform(0.01, 0.5, shape), self.time + 100.0
        return {"noise": noise, "time": self.time + self.rng.uniform(0.1, 2.0, shape).cumsum(axis=0)}

    def together(self, rows, call="track"):
        X, Y = dense(self.rng, rows, SIZE, self.outputs)
        X, given = X[..., : self.width], self.given((rows, SIZE))
        p = getattr(self.fleet, call)(X, Y, **given)
        for i, model in enumerate(self.models):
            q = getattr(model, call)(X[:, i], Y[:, i], **{name: values[:, i] for name, values in given.items()})
            if call == "track":
                self.same(p[:, i], q)

    def some(self, rows):
        """Rows of some models, predicted and then tracked."""
        ids, X, Y = sparse(self.rng, rows, SIZE, self.outputs)
        X, given = X[:, : self.width], self.given(rows)
        p, q = self.fleet.predict_many(X, ids=ids), self.fleet.track(X, Y, ids=ids, **given)
        for i in np.unique(ids):
            own = ids == i
            self.same(p[own], self.models[i].predict_many(X[own]))
            told = {name: values[own] for name, values in given.items()}
            self.same(q[own], self.models[i].track(X[own], Y[own], **told))

    def issue(self, rows):
        ids, X, Y = sparse(self.rng, rows, SIZE, self.outputs)
        p = self.fleet.issue(X, ids=ids)
        for row, i in enumerate(ids):
            q = self.models[i].issue(X[row])
            self.same(p[row], q)
            self.waiting[int(p.ticket[row])] = i, q.ticket, Y[row]

    def resolve(self, rows):
        """Some of the rows that wait, in any order."""
        tickets = self.rng.permutation(list(self.waiting))[:rows].tolist()
        found = [self.waiting.pop(ticket) for ticket in tickets]
        self.fleet.resolve(tickets, [y for _, _, y in found])
        for i, ticket, y in found:
            self.models[i].resolve(ticket, y)
        assert self.fleet.pending == len(self.waiting)

    def come_and_go(self):
        """One model takes the place of another, one is added, and one removed."""
        assert not self.waiting
        self.fleet.replace(1, self.fleet.model(0))
        self.models[1] = self.models[0].copy()
        assert self.fleet.add(1).tolist() == [SIZE]
        self.models.append(self.models[0].clone())
        self.fleet.remove(2)
        del self.models[2]

    def go(self, rounds=2):
        """All kinds of calls, from bytes in between; then all that both know is the same."""
        for turn in range(rounds):
            self.together(11)
            self.some(15)
            if self.late:
                self.issue(6)
                self.resolve(3)
                self.issue(3)
            self.together(1, "learn_many")
            if turn == 0 and self.saved:
                self.fleet = sg.from_bytes(self.fleet.to_bytes())
            if self.late:
                self.resolve(6)
            if turn < rounds - 1:
                self.come_and_go()
        self.check()
        return self

    def check(self):
        fleet, alone = self.fleet, self.alone
        if self.same is assert_same:
            assert states(fleet) == [model.to_bytes() for model in alone]
            assert fleet.copy().to_bytes() == fleet.to_bytes()
        X = self.rng.normal(size=(3, self.width))
        for i, model in enumerate(alone):
            self.same(fleet.model(i).predict_many(X), model.predict_many(X))
        np.testing.assert_array_equal(fleet.rows_seen, [model.rows_seen for model in alone])
        np.testing.assert_array_equal(fleet.health.models, np.transpose([model.health for model in alone]))
        assert fleet.health.total.repairs == sum(model.health.repairs for model in alone)
        assert len(fleet.broken()) == 0
