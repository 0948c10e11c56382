"""Options as text, taken apart; and settings as the options that they are."""

from __future__ import annotations

import re

OPTIONS = ("target", "inputs", "lags", "horizon", "model", "budget", "trees", "half_life", "alarms", "on_error")
OF_FORECASTS = ("ahead", "quantiles")
PLACES = ("schema", "write_schema", "out", "report", "plot", "save", "load", "new_source", "prior", "data", "state")
FLAGS = {name: f"--{name.replace('_', '-')}" for name in OPTIONS + OF_FORECASTS + PLACES} | {
    "settings": "--set",
    "source": "the source",
    "ticket": "--ticket-column",
}
TYPED = "typed"  # in the meta of a context: the command
NAMED = re.compile(r"(?<!['\"])`(\w+)(?:=([^`]+))?`")  # not what stands in quotes, which is the user's


def with_options(sentence: str) -> str:
    """A sentence of the library, which has settings in backticks, with the options of the command line.

    Example:
        >>> with_options("give `lags=10`, or `inputs`; to learn all targets, use `screen=off`")
        'give --lags 10, or --inputs; to learn all targets, use --set screen=off'
    """
    return NAMED.sub(_option, sentence)


def _option(named: re.Match[str]) -> str:
    name, value = named.groups()
    if name in FLAGS:
        return FLAGS[name] if value is None else f"{FLAGS[name]} {value}"
    return named[0] if value is None else f"--set {name}={value}"


def split_names(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_settings(settings: list[str] | None) -> dict[str, str]:
    """Settings given as name=value."""
    result = {}
    for text in settings or []:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"--set expects name=value, such as capacity=200; got {text!r}")
        result[name.strip()] = value.strip()
    return result
