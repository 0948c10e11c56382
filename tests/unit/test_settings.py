"""Settings are described once, checked first, given by name, and are those a class was called with."""

from __future__ import annotations

import inspect
from typing import Annotated, TypedDict, Unpack

import numpy as np
import pytest
from sklearn.base import clone

import streamgp as sg
from streamgp.settings import Part, Setting, number, one_of, optional, whole
from tests.docs.test_pages import CLASSES

Stiffness = Annotated[float, Setting("force over length", "N/m", lambda name, value: number(name, value, above=0))]


class Spring(Part):
    """Pulls back.

    Example:
        >>> Spring(3.0)
        Spring(stiffness=3.0)
    """

    def __init__(self, stiffness: Stiffness = 2.0) -> None:
        self.stiffness = stiffness


class Coil(Spring):
    """A subclass with nothing of its own."""


class Damped(Spring):
    """A subclass with settings of its own."""

    def __init__(
        self,
        damping: float = 0.1,
        *,
        windings: Annotated[int | None, Setting("turns of wire", "turns", optional(whole))] = None,
        wire: Annotated[str, Setting("metal", check=one_of("steel", "brass"))] = "steel",
        stiffness: Annotated[Stiffness, Setting("of one winding")] = 3.0,
    ) -> None:
        super().__init__(stiffness)
        self.damping = damping
        self.windings = windings


class Winding(TypedDict, total=False):
    """Settings that several springs have."""

    stiffness: Annotated[Stiffness, 4.0]
    turns: Annotated[int | None, Setting("turns of wire", check=optional(whole))]


class Wound(Spring):
    """A subclass with a group of settings."""

    def __init__(self, length: float = 1.0, **winding: Unpack[Winding]) -> None:
        super().__init__(winding["stiffness"])
        self.winding = winding


def test_settings_of_a_group_are_checked_shown_and_remembered_like_all_others():
    assert str(inspect.signature(Wound)) == (
        "(length: float = 1.0, *, stiffness: float = 4.0, turns: int | None = None) -> None"
    )
    assert Wound(turns=3).winding == {"stiffness": 4.0, "turns": 3}
    assert repr(Wound(2.0, stiffness=5)) == "Wound(length=2.0, stiffness=5)"
    assert "stiffness: force over length (N/m)." in Wound.__doc__
    with pytest.raises(ValueError, match="turns must be a whole number of at least 1; got 0"):
        Wound(turns=0)
    with pytest.raises(TypeError, match=r"Wound has no setting 'turn'. Did you mean 'turns'\?"):
        Wound(turn=1)


def test_a_subclass_with_an_init_keeps_its_own_settings():
    damped = Damped(0.3)
    assert damped.get_params() == {"damping": 0.3, "windings": None, "wire": "steel", "stiffness": 3.0}
    assert damped.stiffness == 3.0


def test_an_unknown_setting_is_refused_in_the_name_of_the_subclass():
    with pytest.raises(TypeError, match=r"Coil has no setting 'stiffnes'. Did you mean 'stiffness'\?"):
        Coil(stiffnes=1.0)


def test_a_second_setting_by_position_is_refused_with_the_names():
    with pytest.raises(TypeError, match="Damped takes damping by position; give the other settings by name: windings"):
        Damped(0.1, 3)
    with pytest.raises(TypeError, match="SOGP takes kernel by position; give the other settings by name: lengthscale,"):
        sg.SOGP(sg.SquaredExponential(), 100)


def test_a_setting_that_is_missing_or_given_twice_is_told():
    with pytest.raises(TypeError, match="RecursiveGP needs the setting 'basis'"):
        sg.RecursiveGP()
    with pytest.raises(TypeError, match="Damped has damping twice, by position and by name; give it once"):
        Damped(0.1, damping=0.2)


def test_a_described_setting_is_checked_before_init_and_remembered_as_it_was_given():
    spring = Spring(5)
    assert isinstance(spring.stiffness, float)
    assert isinstance(spring.get_params()["stiffness"], int)
    for build, message in (
        (lambda: Coil(0.0), "stiffness must be a finite number above 0; got 0.0"),
        (lambda: Damped(stiffness=-1.0), "stiffness must be a finite number above 0; got -1.0"),
        (lambda: Damped(windings=0), "windings must be a whole number of at least 1; got 0"),
        (lambda: Damped(wire="brast"), "wire must be one of 'steel', 'brass'; got 'brast'. Did you mean 'brass'?"),
    ):
        with pytest.raises(ValueError) as refused:
            build()
        assert str(refused.value) == message


def test_the_docstring_lists_the_described_settings_in_front_of_the_example():
    assert (
        "\n    Args:\n        stiffness: force over length (N/m).\n\n    Example:\n        >>> Spring" in Spring.__doc__
    )
    assert Coil.__doc__.splitlines()[2:] == ["    Args:", "        stiffness: force over length (N/m).", "    "]
    assert Damped.__doc__.splitlines()[2:] == [
        "    Args:",
        "        windings: turns of wire.",
        "        wire: metal.",
        "        stiffness: of one winding (N/m).",
        "    ",
    ]


class Own(sg.SOGP):
    """A subclass of a recipe with an __init__ of its own."""

    def __init__(self, points: int = 5) -> None:
        super().__init__(capacity=points)


def test_a_subclass_of_a_recipe_may_have_an_init_of_its_own():
    assert kernel_of(Own()) == sg.SquaredExponential()
    assert repr(Own(7)) == "Own(points=7)"
    with pytest.raises(TypeError, match="has no setting 'noize'. Did you mean 'noise'"):
        Noisy()


class Noisy(sg.SOGP):
    def __init__(self) -> None:
        super().__init__(noize=0.1)


def test_an_integer_too_large_for_a_float_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="noise must be a finite number above 0; got an integer too large for a float"):
        number("noise", 10**400, above=0)


# The exported classes


@pytest.mark.parametrize("name", CLASSES)
def test_everything_after_the_first_argument_is_given_by_name(name):
    kinds = [p.kind for p in inspect.signature(CLASSES[name]).parameters.values()]
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for kind in kinds[1:])


KERNELED = [name for name, kind in CLASSES.items() if {"kernel", "variance"} <= set(kind.setting_names())]


def built(name, **settings):
    needed = {"basis": [[0.0], [1.0]]} if name == "RecursiveGP" else {}
    return CLASSES[name](**needed, **settings)


def kernel_of(model):
    return model._features.kernel if hasattr(model, "_features") else model._kernel


def test_every_recipe_with_a_kernel_takes_it_in_short():
    assert len(KERNELED) == 16
    assert {name for name, kind in CLASSES.items() if "kernel" in kind.setting_names()} - {*KERNELED} == {"Basis"}


@pytest.mark.parametrize("name", KERNELED)
def test_a_kernel_is_given_whole_or_in_short_but_not_twice(name):
    default = inspect.signature(CLASSES[name]).parameters["kernel"].default
    expected = default.replaced(lengthscale=2.0, variance=3.0)
    short = built(name, lengthscale=2.0, variance=3.0)
    assert kernel_of(short) == kernel_of(built(name, kernel=expected)) == expected
    assert kernel_of(built(name)) == default
    assert f"{name}(" in repr(short)
    assert "lengthscale=2.0, variance=3.0" in repr(short)
    assert "kernel" not in repr(short)
    with pytest.raises(
        ValueError, match="the kernel is given twice: .*lengthscale=2.0; put lengthscale into the kernel"
    ):
        built(name, kernel=sg.Matern(), lengthscale=2.0)
    with pytest.raises(ValueError, match="variance must be a finite number above 0; got 0"):
        built(name, variance=0)
    with pytest.raises(TypeError, match=r"kernel must be a kernel such as SquaredExponential.*; got None"):
        built(name, kernel=None)


@pytest.mark.parametrize("name", [name for name in KERNELED if issubclass(CLASSES[name], sg.StreamModel)])
def test_the_default_kernel_can_be_reached_into(name):
    model = built(name).set_params(kernel__lengthscale=2)
    np.testing.assert_array_equal(kernel_of(model).lengthscale, [2.0])
    copies = clone(model), model.clone(), sg.from_bytes(model.to_bytes())
    for copy in copies:
        assert kernel_of(copy) == kernel_of(model)
        assert repr(copy) == repr(model)
    short = built(name, lengthscale=2.0).set_params(lengthscale=[4.0], variance=3.0)
    assert kernel_of(sg.from_bytes(short.to_bytes())) == kernel_of(short)
    assert short.get_params()["variance"] == 3.0
    assert short.get_params(deep=True)["kernel__variance"] == 1.0
