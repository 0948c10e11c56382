"""Naming: the stream of a series or a topic; different ones have different names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

LONGEST = 64  # characters of a name, as in messages.NAME
DIGITS = 10  # of the digest that tells apart what had to be changed
OTHER = re.compile(r"[^A-Za-z0-9_-]")


def of_series(measurement: str, tags: Mapping[str, str]) -> str:
    """The stream of a series of InfluxDB.

    Example:
        >>> of_series("power", {"plant": "north", "line": "2"}), of_series("power", {})
        ('power.line-2.plant-north', 'power')
    """
    pairs = sorted(tags.items())
    parts = [measurement, *(f"{OTHER.sub('_', key).replace('-', '_')}-{value}" for key, value in pairs)]
    is_changed = any(OTHER.search(key) or "-" in key for key in tags)
    return _name(parts, [measurement, *(text for pair in pairs for text in pair)], is_changed)


def of_topic(topic: str) -> str:
    """The stream of a topic of MQTT.

    Example:
        >>> of_topic("plant/north/power"), of_topic("plant/north 1/power")
        ('plant.north.power', 'plant.north_1.power.7e82f9cb5d')
    """
    return _name(topic.split("/"), [topic], False)


def _name(parts: Sequence[str], known_by: Sequence[str], is_changed: bool) -> str:
    """Parts with dots between them; where a part had to be changed, a digest of what it was keeps names apart."""
    clean = [OTHER.sub("_", part) or "_" for part in parts]
    name = ".".join(clean)
    if not name[0].isalnum():
        name = f"x{name}"
    if is_changed or name != ".".join(parts) or len(name) > LONGEST:
        digest = hashlib.sha256("\0".join(known_by).encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
        name = f"{name[: LONGEST - DIGITS - 1]}.{digest}"
    return name
