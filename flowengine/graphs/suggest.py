"""The nearest known name, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def close_matches(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Up to `count` known names that look like this one, whatever their case."""
    # Only a failure pays for the import.
    import difflib

    spelled = {each.lower(): each for each in known}
    return [spelled[key] for key in difflib.get_close_matches(name.lower(), list(spelled), n=count)]
