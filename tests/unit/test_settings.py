"""Settings are those a class was called with, wherever its __init__ was written."""

from __future__ import annotations

import pytest

from streamgp.settings import Part, number


class Spring(Part):
    def __init__(self, stiffness: float = 2.0) -> None:
        self.stiffness = number("stiffness", stiffness, above=0)


class Coil(Spring):
    """A subclass with nothing of its own."""


class Damped(Spring):
    def __init__(self, damping: float = 0.1) -> None:
        super().__init__(3.0)
        self.damping = damping


def test_a_subclass_without_an_init_keeps_its_settings():
    coil = Coil(stiffness=5.0)
    assert coil.get_params() == {"stiffness": 5.0}
    assert repr(coil) == "Coil(stiffness=5.0)"
    assert coil.replaced(stiffness=2.0) == Coil()
    assert Coil() != Spring()


def test_a_subclass_with_an_init_keeps_its_own_settings():
    damped = Damped(0.3)
    assert damped.get_params() == {"damping": 0.3}
    assert damped.stiffness == 3.0


def test_an_unknown_setting_is_refused_in_the_name_of_the_subclass():
    with pytest.raises(TypeError, match=r"Coil has no setting 'stiffnes'. Did you mean 'stiffness'\?"):
        Coil(stiffnes=1.0)
