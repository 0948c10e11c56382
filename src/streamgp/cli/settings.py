"""Options as text, taken apart."""

from __future__ import annotations


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
