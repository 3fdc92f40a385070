"""Paths that callers give: errors for values that are no path, and for paths that lead nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.suggest import asking, close_matches

#: Characters of a wrong value that an error shows.
_SHOWN_MAX = 80


def path_text(given: Any, function: str, advice: str = "") -> str:
    """Return a path as a str: a str, or anything with `__fspath__`.

    function   the name that users call it by, such as "fe.Graph.load"
    advice     what to write instead, appended to the error

    Raises InvalidArgumentError, which is no TypeError, for any other value: a Graph, bytes, None.
    """
    if isinstance(given, str | os.PathLike):
        found = os.fspath(given)
        if isinstance(found, str):
            return found
    shown = "bytes" if isinstance(given, bytes | bytearray | memoryview) else f"{given!r:.{_SHOWN_MAX}}"
    raise InvalidArgumentError(
        f"{function} takes a path (a str or a pathlib.Path), not {shown}" + (f": {advice}" if advice else "")
    )


def similar_files(path: str | os.PathLike[str]) -> str:
    """Return "; did you mean ...?" with names in the folder of a path that does not exist, or ""."""
    given = Path(path)
    try:
        names = os.listdir(given.parent)
    except OSError:
        return ""
    return asking([str(given.with_name(name)) for name in close_matches(given.name, names, 3)])


__all__ = ["path_text", "similar_files"]
