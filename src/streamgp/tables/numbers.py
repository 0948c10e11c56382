"""Numbers as people write them: with a decimal point or a decimal comma, and with marks between thousands.

"1,096" alone does not say whether it is 1096 or 1.096. Other values of the column tell, or other columns of the table;
where nothing does, it stays unclear, and whoever reads the column has to ask.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEAST_NUMBERS = 0.9  # of the known values, for a column to count as numbers; the others are then mistakes
WORDS = {"", "na", "n/a", "n.a.", "nan", "<na>", "null", "none", "?", ".", "-", "--", "---", "#n/a", "missing"}
MISSING = frozenset(WORDS | {"\N{MINUS SIGN}", "\N{EN DASH}", "\N{EM DASH}"})
MARKS = {".": "a decimal point", ",": "a decimal comma"}
UNCLEAR = "unclear"  # in place of a mark: every number with one can be read in both ways
APOSTROPHES = "'\u2019"
SPACES = " \u00a0\u2009\u202f"  # ordinary, no-break, thin, narrow no-break


def _grouped(thousands: str, decimal: str) -> re.Pattern[str]:
    """Numbers in groups of three digits: 1,234 and 12,345,678.9."""
    mark = f"(?P<mark>[{thousands}{APOSTROPHES}{SPACES}])"
    fraction = f"(?:{decimal}[0-9]*)?(?:[eE][-+]?[0-9]+)?"
    return re.compile(f"[-+]?[1-9][0-9]{{0,2}}{mark}[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*{fraction}")


GROUPED = {".": _grouped(",", r"\."), ",": _grouped(".", ",")}
# 14.8 °C, 45%, 3.2 m3/h, $1,234.5
UNIT = re.compile(
    r"(?P<number>(?![+-]?0[xX]).*[0-9.,])\s*(?P<unit>(?:[^\W\d_]|[°%‰])\S{0,11})|(?P<currency>[$€£¥])\s*(?P<amount>.*)"
)
FILL_VALUES = (-99999.0, -9999.0, -999.0, 999.0, 9999.0, 99999.0)  # often in place of missing values
FORTRAN = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)[dD][-+]?[0-9]+")  # 1.5D+03


def is_missing(value: Any) -> bool:
    return value is None or str(value).strip().lower() in MISSING


def as_number(value: Any, decimal: str = "") -> float | None:
    """The number a value means; NaN: missing; None: it is text.

    Args:
        value: text, or what is a number already.
        decimal: the decimal mark of text; "": none was seen so far, so that a single comma may mean anything.

    Example:
        >>> as_number("1.234,5", ","), as_number("1,234", "."), as_number("1,234", ","), as_number("1,234")
        (1234.5, 1234.0, 1.234, None)
    """
    if not isinstance(value, str):
        try:
            return np.nan if value is None else float(value)
        except OverflowError:  # an integer of more than 308 digits
            return np.inf
        except (TypeError, ValueError):
            return None
    if decimal != "," or "." not in value:
        try:
            return float(value if decimal != "," else value.replace(",", ".", 1))
        except ValueError:
            pass
    text = value.strip().replace("\N{MINUS SIGN}", "-")
    if text.lower() in MISSING:
        return np.nan
    if text != value:
        return as_number(text, decimal)
    if grouped := GROUPED[decimal or "."].fullmatch(text):
        if not decimal and as_number(text, ",") is not None and grouped["mark"] == ",":
            return None
        digits = text.replace(grouped["mark"], "")
        return float(digits.replace(",", "."))
    if decimal != "," and FORTRAN.fullmatch(text):
        return float(re.sub("[dD]", "e", text))
    return None


def units(values: Sequence[Any]) -> list[str]:
    """The units behind or before the numbers of a column, the most frequent first; none where it holds other text."""
    found: Counter[str] = Counter()
    others = 0
    for value in values:
        if not isinstance(value, str) or is_missing(value) or _is_number(value):
            continue
        split = UNIT.fullmatch(value.strip())
        if split and _is_number(split["number"] or split["amount"]):
            found[split["unit"] or split["currency"]] += 1
        else:
            others += 1
    return [unit for unit, _ in found.most_common()] if others <= (1 - LEAST_NUMBERS) * len(values) else []


def without_unit(value: Any, unit: str) -> Any:
    """A value without its unit, if it has this one."""
    if not isinstance(value, str) or unit not in value:
        return value
    return value.strip().removesuffix(unit).removeprefix(unit).strip()


def fill_value(numbers: Sequence[float | None]) -> float | None:
    """A value that may stand for missing ones: it is often used so, and far from all others."""
    known = np.array([number for number in numbers if number is not None and math.isfinite(number)])
    for value in FILL_VALUES:
        others = known[known != value]
        if 1 < len(others) < len(known) and np.abs(others - value).min() > np.ptp(others):
            return value
    return None


def _is_number(text: str) -> bool:
    return any(as_number(text, mark) is not None for mark in MARKS)


def decimal_marks(columns: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """The decimal mark of each column: ".", ",", "" where no value has one, or UNCLEAR.

    A column whose own values leave it open is written like the others, if all of those are written alike.
    """
    marks = {name: _mark(values) for name, values in columns.items()}
    if set(marks.values()) <= {"", "."}:
        return marks
    clear = {mark for name, mark in marks.items() if mark in MARKS and mostly_numbers(columns[name], mark)}
    shared = clear.pop() if len(clear) == 1 else ""
    for name, values in columns.items():
        if marks[name] == "" and shared == "," and unclear_value(values):  # 1.096 beside decimal commas
            marks[name] = UNCLEAR
        elif marks[name] in ("", UNCLEAR):
            marks[name] = shared or marks[name]
        if marks[name] == UNCLEAR and not mostly_numbers(values, "."):
            marks[name] = ""
    return marks


def mostly_numbers(values: Sequence[Any], decimal: str) -> bool:
    """Whether the known values are numbers, but for a few mistakes."""
    return are_mostly_numbers([as_number(value, decimal) for value in values])


def are_mostly_numbers(numbers: Sequence[float | None]) -> bool:
    """The same of what as_number made of them."""
    known = [number for number in numbers if number is None or number == number]
    return bool(known) and known.count(None) <= (1 - LEAST_NUMBERS) * len(known)


def unclear_value(values: Sequence[Any]) -> str:
    """The first value that can be read in both ways; "" where there is none."""
    return next((text for text in _texts(values) if _readings(text)[2]), "")


def described(values: Sequence[Any], decimal: str) -> str:
    """How the numbers of a column are written, for people; "" where there is nothing to tell."""
    texts = [value.strip() for value in values if isinstance(value, str) and (decimal == "," or not _is_plain(value))]
    numbers = [text for text in texts if text.lower() not in MISSING]
    notes = []
    if decimal == "," and any("," in text for text in numbers):
        notes.append(MARKS[","].removeprefix("a "))
    if any(GROUPED[decimal or "."].fullmatch(text) for text in numbers):
        notes.append("thousands separators")
    if any("\N{MINUS SIGN}" in text for text in numbers):
        notes.append("the sign \N{MINUS SIGN} counts as minus")
    markers = dict.fromkeys(text for text in texts if text and text.lower() in MISSING)
    return "; ".join(notes + [f"{marker!r} counts as missing" for marker in list(markers)[:3]])


def _is_plain(text: str) -> bool:
    """Whether a text is a number as computers write it."""
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _texts(values: Sequence[Any]) -> list[str]:
    """The values that have something like a decimal mark."""
    return [value for value in values if isinstance(value, str) and ("," in value or "." in value)]


def _readings(text: str) -> tuple[bool, bool, bool]:
    """Whether a text is a number only with a decimal point, only with a decimal comma, or another one with each."""
    point, comma = as_number(text, "."), as_number(text, ",")
    return (
        point is not None and comma is None,
        point is None and comma is not None,
        point is not None and comma is not None and point == point and point != comma,
    )


def _mark(values: Sequence[Any]) -> str:
    """What the values of one column say; those with a single point are decimals, unless other columns object."""
    texts = _texts(values)
    if not any("," in text or text.count(".") > 1 for text in texts):
        return "." if any(_readings(text)[0] for text in texts) else ""
    only_point, only_comma, either = np.sum([_readings(text) for text in texts], axis=0)
    if only_point or only_comma:
        return "," if only_comma > only_point else "."
    return UNCLEAR if either else ""
