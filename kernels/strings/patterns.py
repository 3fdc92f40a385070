"""Regular expressions, compiled by RE2: time is linear in the text, whatever the pattern.

The library takes bytes. It reads them as UTF-8; what is none matches nothing but `\\C`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError, UnimplementedError

#: Each pattern may take 8 MB, RE2's own default, for its program and for what it learns of texts.
_COMPILED_MAX: Final = 32


@functools.cache
def library() -> Any:
    """RE2's binding; UnimplementedError where it is not installed."""
    try:
        return importlib.import_module("re2")
    except ImportError as error:
        raise UnimplementedError(
            f"regular expressions need google-re2, which cannot be imported here ({error}): "
            "pip install google-re2"
        ) from error


def check_library() -> None:
    """Raise UnimplementedError where regular expressions cannot be had."""
    library()


@functools.lru_cache(maxsize=_COMPILED_MAX)
def compiled(pattern: bytes) -> Any:
    """The compiled pattern; InvalidArgumentError for one that RE2 refuses."""
    re2 = library()
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        message = reason.decode("utf-8", "backslashreplace") if isinstance(reason, bytes) else str(reason)
        shown = pattern[:200].decode("utf-8", "backslashreplace")
        raise InvalidArgumentError(f"Invalid pattern: {shown}, error: {message}") from error
    finally:
        # The binding caches 128 patterns, which it would not use again.
        re2.purge()


def matches(program: Any, text: bytes) -> Iterator[Any]:
    """The matches that are replaced, from left to right; an empty one right behind another does not count."""
    at, last = 0, -1
    while at <= len(text):
        match = program.search(text, at)
        if match is None:
            return
        begin, end = match.span()
        if begin == end == last:
            at = end + _width(text, end)
            continue
        yield match
        at = last = end


def _width(text: bytes, at: int) -> int:
    """The bytes of the character here: 1 where there is none in UTF-8. A surrogate counts as one."""
    lead = text[at] if at < len(text) else 0
    width = 1 if lead < 0xC2 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4 if lead < 0xF5 else 1
    if width == 1:
        return 1
    try:
        text[at : at + width].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return 1
    return width
