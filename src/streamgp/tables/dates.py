"""Times of rows as tables write them: dates in ISO 8601, 31.12.2025 14:00, 12/31/2025 2 PM, in parts; or numbers.

How a column writes them is its form, which is decided once, on the first rows; ``TimeReader`` reads all others by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from streamgp.settings import FloatArray, unix_seconds
from streamgp.tables.numbers import LEAST_NUMBERS, are_mostly_numbers, as_number, is_missing

ORDERS = {"YMD": "year/month/day", "DMY": "day/month/year", "MDY": "month/day/year"}
NUMBER = "number"
UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9, NUMBER: 1.0}  # of a second
FORMS = ORDERS | {unit: f"{unit} since 1970" for unit in UNITS} | {NUMBER: "a number, which counts as seconds"}
SINCE_1970 = 1e8, 1e10  # seconds, from 1973 to 2286; in each unit these are other numbers, which tell the unit
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WRITTEN = re.compile(
    r"(?P<first>\d{1,4})(?P<mark>\s?[-/.]\s?| )(?P<second>\d{1,2}|[A-Za-z]{3,9})(?P=mark)(?P<third>\d{2,4})"
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second_of_minute>\d{2})(?:[.,](?P<rest>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[AaPp][Mm]))?)?"
)
LEAP_SECOND = re.compile(r"(\d\d:\d\d):60")
DIGITS_OF_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")  # 20240131
YEARS_OF_1900 = 69  # two digits from here on are of 19xx, as in POSIX
# The names of columns that make up a date together, each with its smallest and largest value.
PARTS = (
    (re.compile("year|yr|yyyy", re.I), 1900, 2200),
    (re.compile("month|mon|mm", re.I), 1, 12),
    (re.compile("day|dd|mday|day.of.month", re.I), 1, 31),
    (re.compile("hour|hours|hr|hh", re.I), 0, 24),
    (re.compile("minute|minutes", re.I), 0, 59),
)
NEEDED_PARTS = 3  # year, month and day


class TimeReader(NamedTuple):
    """Reads the times of rows: for models, for people and for forecasts.

    Example:
        >>> TimeReader().seconds("1970-01-02"), TimeReader("milliseconds").seconds("86400000")
        (86400.0, 86400.0)
    """

    form: str = ""  # how they are written, of FORMS; "": in ISO 8601
    decimal: str = ""  # the decimal mark of numbers

    @property
    def is_dated(self) -> bool:
        """Whether times are seconds since 1970, and not other numbers."""
        return self.form != NUMBER

    def seconds(self, text: str, local: bool = False) -> float:
        """Seconds since 1970, or the number that stands there; NaN where neither does.

        Args:
            text: a date with an offset from UTC is converted; one without counts as UTC, as in the library.
            local: leave the offset out, for what goes by the clock on the wall.
        """
        if self.form in UNITS:
            number = as_number(text, self.decimal)
            if number is not None:
                return number / UNITS[self.form] if math.isfinite(number) else math.nan
        if not self.is_dated:
            return math.nan
        moment = _moment(text) or _moment(as_iso(text, self.form) or "" if self.form in ORDERS else "")
        return math.nan if moment is None else unix_seconds(moment.replace(tzinfo=None) if local else moment)

    def moments(self, texts: Sequence[str], local: bool = False) -> FloatArray:
        return np.array([self.seconds(text, local) for text in texts], dtype=np.float64)

    def dates(self, texts: Sequence[str], local: bool = False) -> FloatArray:
        """Seconds since 1970 of those that tell them, where most do; otherwise nothing."""
        if not self.is_dated:
            return np.empty(0)
        found = self.moments([text for text in texts if not is_missing(text)], local)
        known = found[np.isfinite(found)]
        return known if len(known) >= max(LEAST_NUMBERS * len(found), 3) else np.empty(0)


def _moment(text: str) -> datetime | None:
    """What ISO 8601 says. The second 60, a leap second, is the first of the next minute, as in Unix time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        leap = LEAP_SECOND.sub(r"\1:59", text)
    try:
        return None if leap == text else datetime.fromisoformat(leap) + timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None


def as_iso(text: str, order: str) -> str | None:
    """A date in ISO 8601; None where it is not one of this order, of ORDERS.

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
    if len(year) == 2:
        year = f"{19 if int(year) >= YEARS_OF_1900 else 20}{year}"
    minute, second, rest = found["minute"] or "00", found["second_of_minute"] or "00", found["rest"] or "0"
    moment = _moment(f"{year:0>4}-{month:0>2}-{day:0>2} {hour:02}:{minute}:{second}.{rest[:6]:0<6}")
    return None if moment is None else moment.isoformat(" ")


def form_of(values: Sequence[Any], decimal: str = "") -> tuple[str, bool]:
    """How a column writes its times, of FORMS, and whether its values leave no doubt; "": in ISO 8601, or not at all.

    Numbers are those since 1970 in the unit that makes them times of our days. Of dates a day beyond 12 tells the
    order. Without one, dots mean that the day comes first; else the order is taken in which the rows follow each other
    more closely.
    """
    texts = [str(value).strip() for value in values if not is_missing(value)]
    numbers = [as_number(text, decimal) for text in texts]
    if are_mostly_numbers(numbers) and not all(map(DIGITS_OF_DATE.fullmatch, texts)):
        usual, (low, high) = np.median([number for number in numbers if number is not None]), SINCE_1970
        return next((unit for unit in UNITS if low <= usual / UNITS[unit] < high), NUMBER), True
    least = LEAST_NUMBERS * len(texts)
    if sum(_moment(text) is not None for text in texts) >= least:
        return "", True
    read = {order: [iso for text in texts if (iso := as_iso(text, order))] for order in ORDERS}
    counts = {order: len(found) for order, found in read.items() if len(found) >= least}
    if not counts:
        return "", True
    best = [order for order, count in counts.items() if count == max(counts.values())]
    if len(best) == 1 or any(text[:4].isdigit() or "." in text.split()[0] for text in texts):
        return best[0], True
    steps = {order: np.diff(TimeReader().dates(read[order])) for order in best}
    closeness = {order: (int(np.sum(by < 0)), float(np.max(by, initial=0.0))) for order, by in steps.items()}
    return min(best, key=closeness.__getitem__), False


def parts_of_date(columns: Mapping[str, Sequence[Any]], others: Sequence[str]) -> tuple[str, ...]:
    """The columns that make up a date: year, month, day, and hour and minute if they are there; () where none do.

    Columns that are used otherwise are not asked.
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
