"""The nearest known names, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def close_matches(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return up to `count` known names that look like this one, whatever their case."""
    # Only a failure pays for the import.
    import difflib

    spelled = {each.lower(): each for each in known}
    return [spelled[key] for key in difflib.get_close_matches(name.lower(), list(spelled), n=count)]


def did_you_mean(name: str, known: Iterable[str], count: int = 3) -> str:
    """Return "; did you mean 'a' or 'b'?" to append to an error, or "" if no known name is close."""
    return asking(close_matches(name, known, count))


def asking(near: Sequence[str]) -> str:
    """Return "; did you mean 'a' or 'b'?" for these names, "" for none."""
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


__all__ = ["asking", "close_matches", "did_you_mean"]
