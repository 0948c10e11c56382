"""Dates as people write them: ISO 8601, Unix times, 31.12.2025 14:00, 12/31/2025 2 PM, or parts in several columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from streamgp.settings import FloatArray, unix_seconds
from streamgp.tables.numbers import LEAST_NUMBERS, as_number, is_missing

ORDERS = {"YMD": "year/month/day", "DMY": "day/month/year", "MDY": "month/day/year"}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WRITTEN = re.compile(
    r"(?P<first>\d{1,4})(?P<mark>\s?[-/.]\s?| )(?P<second>\d{1,2}|[A-Za-z]{3,9})(?P=mark)(?P<third>\d{2,4})"
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second_of_minute>\d{2})(?:[.,](?P<rest>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[AaPp][Mm]))?)?"
)
# The names of columns that make up a date together, each with its smallest and largest value.
PARTS = (
    (re.compile("year|yr|yyyy", re.I), 1900, 2200),
    (re.compile("month|mon|mm", re.I), 1, 12),
    (re.compile("day|dd|mday|day.of.month", re.I), 1, 31),
    (re.compile("hour|hours|hr|hh", re.I), 0, 24),
    (re.compile("minute|minutes", re.I), 0, 59),
)
NEEDED_PARTS = 3  # year, month and day


def seconds(text: str, local: bool = False) -> float | None:
    """Seconds since 1970 of a date and time in ISO 8601, or of a Unix time in seconds or milliseconds.

    Args:
        text: a time with an offset from UTC is converted; one without counts as UTC, as in the library.
        local: leave the offset out, for what goes by the clock on the wall.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            return None
        if 1e8 <= number < 1e10:
            return number
        return number / 1e3 if 1e11 <= number < 1e13 else None
    return unix_seconds(moment.replace(tzinfo=None) if local else moment)


def moments(values: Sequence[Any], local: bool = False) -> FloatArray:
    """Seconds since 1970, where most values tell them; otherwise nothing."""
    read = [seconds(str(value), local) for value in values if not is_missing(value)]
    known = np.array([moment for moment in read if moment is not None])
    return known if len(known) >= max(LEAST_NUMBERS * len(read), 3) else np.empty(0)


def as_iso(text: str, order: str) -> str | None:
    """A date in ISO 8601; None where it is not one of this order.

    Args:
        text: as it was written.
        order: of ORDERS.

    Example:
        >>> as_iso("31.12.2025 14:00", "DMY"), as_iso("12/31/2025 2:30 PM", "MDY"), as_iso("31/12/2025", "MDY")
        ('2025-12-31 14:00:00', '2025-12-31 14:30:00', None)
    """
    if not (found := WRITTEN.fullmatch(text.strip())):
        return None
    first, second, third = found["first"], found["second"], found["third"]
    if (
        (len(first) == 4) != (order == "YMD")
        or (len(first) == 3)
        or len(third) not in ((1, 2) if order == "YMD" else (2, 4))
    ):
        return None
    if second.isalpha():
        if second[:3].lower() not in MONTHS or order == "MDY":
            return None
        second = str(MONTHS.index(second[:3].lower()) + 1)
    year, month, day = {
        "YMD": (first, second, third),
        "DMY": (third, second, first),
        "MDY": (third, first, second),
    }[order]
    hour, half = int(found["hour"] or 0), (found["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    fraction = int((found["rest"] or "0").ljust(6, "0")[:6])
    try:
        moment = datetime(
            int(year) if len(year) == 4 else 2000 + int(year),
            int(month),
            int(day),
            hour,
            int(found["minute"] or 0),
            int(found["second_of_minute"] or 0),
            fraction,
        )
    except ValueError:
        return None
    return moment.isoformat(" ")


def order_of(values: Sequence[Any]) -> tuple[str, bool]:
    """The order in which a column writes its dates, and whether its values leave no doubt; "": not as in ORDERS.

    A day beyond 12 tells. Without one, dots mean that the day comes first; else the order is taken in which the rows
    follow each other more closely.
    """
    texts = [str(value) for value in values if not is_missing(value)]
    least = LEAST_NUMBERS * len(texts)
    if not texts or sum(seconds(text) is not None for text in texts) >= least:
        return "", True
    read = {order: [iso for text in texts if (iso := as_iso(text, order))] for order in ORDERS}
    counts = {order: len(found) for order, found in read.items() if len(found) >= least}
    if not counts:
        return "", True
    best = [order for order, count in counts.items() if count == max(counts.values())]
    if len(best) == 1 or any(text[:4].isdigit() or "." in text.split()[0] for text in texts):
        return best[0], True
    steps = {order: np.diff(moments(read[order])) for order in best}
    closeness = {order: (int(np.sum(by < 0)), float(np.max(by, initial=0.0))) for order, by in steps.items()}
    return min(best, key=closeness.__getitem__), False


def parts_of_date(columns: Mapping[str, Sequence[Any]], others: Sequence[str]) -> tuple[str, ...]:
    """The columns that make up a date: year, month, day, and hour and minute if they are there; () where they do not.

    Args:
        columns: the values of each.
        others: names that are used otherwise.
    """
    found: list[str] = []
    for pattern, low, high in PARTS:
        names = [name for name in columns if name not in others and pattern.fullmatch(name.strip())]
        if len(names) != 1 or not _within(columns[names[0]], low, high):
            break
        found.append(names[0])
    return tuple(found) if len(found) >= NEEDED_PARTS else ()


def _within(values: Sequence[Any], low: int, high: int) -> bool:
    numbers = [as_number(value) for value in values if not is_missing(value)]
    return bool(numbers) and all(n is not None and n == int(n) and low <= n <= high for n in numbers)


def joined_parts(values: Sequence[Sequence[Any]]) -> list[str]:
    """The dates that columns of ``parts_of_date`` make up, in ISO 8601; "" where a part is missing or makes none."""
    return [_joined(parts) for parts in zip(*values, strict=True)]


def _joined(parts: Sequence[Any]) -> str:
    numbers = [as_number(part) for part in parts]
    try:
        year, month, day, hour, minute = (int(n) for n in [*(n or 0.0 for n in numbers), 0.0, 0.0][: len(PARTS)])
        moment = datetime(year, month, day) + timedelta(hours=hour, minutes=minute)  # hours may count from 1 to 24
    except (ValueError, OverflowError):
        return ""
    return moment.isoformat(" ")
