"""Settings: how every part and model describes, checks, remembers, shows and compares what it was built with."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, Unpack, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Maybe = FloatArray | None  # an array, where there is one
Check = Callable[[str, Any], Any]
WRAPPED = re.compile(r"\S.{0,107}(?= |$)")  # lines of a docstring, which textwrap would find too slowly
BY_POSITION = Parameter.POSITIONAL_OR_KEYWORD


class Setting(NamedTuple):
    """What a setting is, described once: ``Capacity = Annotated[int, Setting("most basis points", "points", whole)]``.

    Signatures have ``capacity: Capacity = 100``; docstrings, the tables of the docs and the checks follow from it.
    ``Annotated[Capacity, Setting("rows in the window")]`` is the same with other words. What several signatures have is
    a group, a TypedDict with ``capacity: Annotated[Capacity, 100]``, taken as ``**settings: Unpack[Group]``.

    Args:
        meaning: without a full stop.
        unit: empty where it has none.
        check: a function of name and value that returns the value that ``__init__`` gets, or raises.
    """

    meaning: str = ""
    unit: str = ""
    check: Check | None = None

    def reworded(self, other: Setting) -> Setting:
        return Setting(other.meaning or self.meaning, other.unit or self.unit, other.check or self.check)


def nearest(name: str, names: Iterable[str]) -> str:
    """' Did you mean ...?' or nothing; upper and lower case are alike."""
    lowered = {one.lower(): one for one in names}
    close = [lowered[one] for one in difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)]
    return f" Did you mean {close[0]!r}?" if close else ""


class Configured:
    """Base of everything that is built from keyword settings.

    A subclass writes an ordinary ``__init__`` with typed keywords. The settings it was called with are kept (arrays as
    copies), so that ``get_params``, ``repr``, equality and snapshots need nothing more from it. Settings that are
    annotated with a :class:`Setting` are checked before ``__init__`` runs and listed in the docstring.
    """

    registry: ClassVar[dict[str, type[Configured]]] = {}
    described: ClassVar[dict[str, Setting]] = {}
    _settings: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Configured.registry[registered_name(cls)] = cls
        if "__init__" in vars(cls):
            parameters = _parameters(cls.__init__)
            cls.described = {p.name: setting for p in parameters if (setting := _setting(p.annotation))}
            cls.__init__ = _remember_settings(cls.__init__, parameters, cls.described)  # type: ignore[method-assign]
        if cls.described:
            cls.__doc__ = _with_arguments(vars(cls).get("__doc__"), cls.described)

    @classmethod
    @functools.cache
    def setting_names(cls) -> tuple[str, ...]:
        return tuple(cls._defaults())

    @classmethod
    @functools.cache
    def _defaults(cls) -> dict[str, Any]:
        """The default of each setting; ``Parameter.empty`` where it has none."""
        return {name: one.default for name, one in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the settings by name; ``deep`` adds those of the parts as ``part__setting``."""
        params = {name: copied(value) for name, value in self._settings.items()}
        if deep:
            for name, value in self._settings.items():
                if isinstance(value, Configured):
                    params |= {f"{name}__{inner}": v for inner, v in value.get_params(deep=True).items()}
        return params

    def replaced(self, **params: Any) -> Self:
        """Return a new object of the same class with some settings changed (``part__setting`` reaches into a part)."""
        return type(self)(**self._merged(params))

    def _merged(self, params: Mapping[str, Any]) -> dict[str, Any]:
        settings = self.get_params()
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            head, _, tail = name.partition("__")
            refuse_unknown(type(self).__name__, [head], self.setting_names())
            if tail:
                inner.setdefault(head, {})[tail] = value
            else:
                settings[head] = value
        for head, changes in inner.items():
            part = settings[head]
            if not isinstance(part, Configured):
                raise ValueError(
                    f"{type(self).__name__}: the setting {head!r} is {part!r} and has no settings of its own"
                )
            settings[head] = part.replaced(**changes)
        return settings

    def __repr__(self) -> str:
        defaults = self._defaults()
        shown = [
            f"{name}={_shown(value)}" for name, value in self._settings.items() if not _same(value, defaults.get(name))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def registered_name(kind: type) -> str:
    """The name of a class in snapshots: ours by their own, others with their module, so that they hide none of ours."""
    own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


class Part(Configured):
    """A part of a model: an immutable value, equal to another of the same class and settings."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same(self._settings, other._settings)

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self)))

    def __sklearn_clone__(self) -> Self:
        return self  # a value that cannot change needs no clone


def _parameters(init: Callable[..., None]) -> list[Parameter]:
    """The parameters of an ``__init__``, also those in a group, with the types themselves."""
    try:
        signature = inspect.signature(init, eval_str=True)
    except NameError:  # a type of the user's that is imported for type checkers only
        signature = inspect.signature(init)
    parameters = list(signature.parameters.values())[1:]
    if parameters and get_origin(parameters[-1].annotation) is Unpack:
        (group,) = get_args(parameters.pop().annotation)
        for name, kind in get_type_hints(group, include_extras=True).items():
            default = next((item for item in kind.__metadata__ if not isinstance(item, Setting)), None)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return parameters


def _setting(kind: Any) -> Setting | None:
    """What an annotation says of the setting; later words replace earlier ones."""
    given = [item for item in getattr(kind, "__metadata__", ()) if isinstance(item, Setting)]
    return functools.reduce(Setting.reworded, given) if given else None


def _with_arguments(text: str | None, settings: Mapping[str, Setting]) -> str | None:
    """A docstring with a section of arguments in front of its example."""
    if not text:
        return text
    lines = ["", "", "    Args:"]
    for name, (meaning, unit, _) in settings.items():
        said = f"{name}: {meaning}{'' if not unit or unit in meaning else f' ({unit})'}."
        lines.append("        " + "\n            ".join(WRAPPED.findall(said)))
    head, example, tail = text.partition("\n    Example:")
    return head.rstrip() + "\n".join(lines) + "\n" + (example or "    ") + tail


def _remember_settings(
    init: Callable[..., None], parameters: list[Parameter], described: Mapping[str, Setting]
) -> Callable[..., None]:
    checks = {name: setting.check for name, setting in described.items() if setting.check}
    names = tuple(p.name for p in parameters)
    by_position = [p.name for p in parameters if p.kind is BY_POSITION]
    defaults = {p.name: p.default for p in parameters}

    @functools.wraps(init)
    def wrapped(self: Configured, *args: Any, **kwargs: Any) -> None:
        owner = type(self).__name__
        refuse_unknown(owner, kwargs, names)
        if len(args) > len(by_position):
            raise TypeError(
                f"{owner} takes {' and '.join(by_position) or 'nothing'} by position; give the other "
                f"settings by name: {', '.join(name for name in names if name not in by_position)}"
            )
        placed = dict(zip(by_position, args, strict=False))
        given = defaults | placed | kwargs
        for name in placed.keys() & kwargs:
            raise TypeError(f"{owner} has {name} twice, by position and by name; give it once")
        for name in (name for name, value in given.items() if value is Parameter.empty):
            raise TypeError(f"{owner} needs the setting {name!r}")
        settings = {name: copied(value) for name, value in given.items()}
        if type(self).__init__ is wrapped:  # and not called by that of a subclass, whose settings are the ones to keep
            self._settings = settings
        init(self, **{n: checks[n](n, value) if n in checks else copied(value) for n, value in settings.items()})

    types = [p.replace(annotation=p.annotation.__origin__) if p.name in described else p for p in parameters]
    signature = inspect.Signature([Parameter("self", BY_POSITION), *types], return_annotation=None)
    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    return wrapped


def read_only(name: str) -> property:
    """A setting as an attribute, to which nothing can be assigned: it would change nothing."""

    def refuse(_: Any, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name} is a setting: change it before the first row by model.set_params({name}={value!r})"
        )

    return property(lambda configured: copied(configured._settings[name]), refuse)


def refuse_unknown(owner: str, given: Iterable[str], names: tuple[str, ...]) -> None:
    """Refuse settings that are not among the names, with the nearest one."""
    for name in given:
        if name not in names:
            raise TypeError(
                f"{owner} has no setting {name!r}.{nearest(name, names)} Its settings are: {', '.join(names)}."
            )


def copied(value: Any) -> Any:
    """A setting that later changes of the caller's do not reach, and that can be saved."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    return value.item() if isinstance(value, np.generic) else value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):  # a snapshot has lists only
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))
    return type(a) is type(b) and bool(a == b)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= 8 else f"array{value.shape}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return (
        getattr(value, "__name__", repr(value))
        if callable(value) and not isinstance(value, Configured)
        else repr(value)
    )


def optional(check: Check) -> Check:
    """The same check of a setting that may be None."""
    return lambda name, value: None if value is None else check(name, value)


def instance(kind: type, example: str) -> Check:
    """Of a setting that is a part."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be, for example, {example}; got {value!r}")
        return value

    return check


def one_of(*options: str) -> Check:
    """One of these names, as it is; see option()."""
    return lambda name, value: options[option(name, value, options)]


def option(name: str, value: Any, options: tuple[str, ...]) -> int:
    """The position of a named option; an unknown one is refused with the nearest."""
    if value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.{nearest(str(value), options)}")
    return options.index(value)


NUMBERS = (int, float, np.integer, np.floating)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite number within its range, or a sentence that says the range."""
    kind: type[Exception] = TypeError
    came = ""
    if isinstance(value, NUMBERS) and not isinstance(value, bool):
        kind = ValueError
        try:
            result = float(value)
        except OverflowError:
            came = "an integer too large for a float"
        else:
            inside = (above is None or result > above) and (at_least is None or result >= at_least)
            if inside and (at_most is None or result <= at_most) and math.isfinite(result):
                return result
    bounds = {"above": above, "at least": at_least, "at most": at_most}
    rule = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    raise kind(f"{name} must be a finite number{rule and ' '}{rule}; got {came or repr(value)}")


LARGEST_WHOLE = 2**53  # every whole number up to here is a float
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def duration(name: str, value: Any) -> float:
    """A length of time above 0: a number as it is, text such as "90s", "15min", "2h", "1d" or "1w" in seconds."""
    if isinstance(value, str):
        text = value.strip()
        unit = text.lstrip("0123456789.")
        try:
            value = float(text.removesuffix(unit)) * UNITS[unit.strip().lower()] if unit.strip() else float(text)
        except (KeyError, ValueError):
            raise ValueError(
                f"{name} must be a length of time such as 3600, '90s', '15min', '2h', '1d' or '1w'; got {text!r}"
            ) from None
    return number(name, copied(value), above=0)


def unix_seconds(moment: dt.datetime) -> float:
    """Seconds since 1970; a moment without a zone counts as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def probability(name: str, value: Any) -> float:
    """A number above 0 and below 1."""
    if (result := number(name, value, above=0)) >= 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {value!r}")
    return result


def whole(name: str, value: Any, *, at_least: int = 1, at_most: int = LARGEST_WHOLE) -> int:
    """A whole number within its range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number of at least {at_least}; got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}; got {value!r}")
    if value > at_most:
        got = value if value <= LARGEST_WHOLE else "a larger one"  # which may have many digits
        raise ValueError(f"{name} must be a whole number of at most {at_most}; got {got}")
    return int(value)


def switch(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def positive_vector(name: str, value: Any) -> FloatArray:
    """One positive number or a 1-D array of them, as an array."""
    try:
        given = np.asarray(value)
        result = np.atleast_1d(given.astype(np.float64))
    except (TypeError, ValueError):
        given = np.array("")
    if given.dtype.kind in "bUST":
        raise TypeError(f"{name} must be a positive number or a list of them; got {value!r}")
    if result.ndim != 1 or result.size == 0 or not np.all(np.isfinite(result)) or not np.all(result > 0):
        raise ValueError(f"{name} must be a positive number or a list of positive numbers; got {value!r}")
    return result


def real_matrix(name: str, value: Any, shape: str) -> FloatArray:
    """A 2-D array of finite numbers."""
    try:
        result = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers of shape {shape}; got {type(value).__name__}") from None
    if result.ndim != 2 or 0 in result.shape:
        raise ValueError(f"{name} must have shape {shape}; got an array of shape {result.shape}")
    if not np.all(np.isfinite(result)):
        raise ValueError(f"{name} must hold finite numbers only; it has NaN or inf")
    return result
