"""Regular expressions over strings; `regex_syntax` says what patterns may be."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import mapped
from flowengine.kernels.strings.regex_syntax import matcher


def _scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, but received shape {list(array.shape)}")
    text: bytes = array.item()
    return text


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 2 a string."""
    return 2.0 * float(getattr(strings, "size", 1))


def _full_match(strings: Value, pattern: bytes) -> Any:
    program, text_of = matcher(pattern)
    array = to_array(strings)
    found = [program.fullmatch(text_of(data)) is not None for data in array.reshape(-1).tolist()]
    return np.array(found, np.bool_).reshape(array.shape)


@kernel("RegexFullMatch", fresh=True, heavy=_cost)
def regex_full_match(strings: Value, pattern: Value) -> Any:
    """Whether the pattern matches the whole of each string (bool, of the input's shape)."""
    return _full_match(strings, _scalar(pattern, "pattern"))


@kernel("StaticRegexFullMatch", fresh=True, heavy=_cost)
def static_regex_full_match(strings: Value, *, pattern: bytes) -> Any:
    """As RegexFullMatch, with a pattern that is fixed."""
    return _full_match(strings, pattern)


@kernel("RegexReplace", fresh=True, heavy=_cost)
def regex_replace(strings: Value, pattern: Value, rewrite: Value, *, replace_global: bool) -> Value:
    """Each match replaced (or the first only); in `rewrite`, \\1 to \\9 are groups and \\0 is the match."""
    return replaced(strings, _scalar(pattern, "pattern"), _scalar(rewrite, "rewrite"), replace_global)


@kernel("StaticRegexReplace", fresh=True, heavy=_cost)
def static_regex_replace(strings: Value, *, pattern: bytes, rewrite: bytes, replace_global: bool) -> Value:
    """As RegexReplace, with a pattern and a text that are fixed."""
    return replaced(strings, pattern, rewrite, replace_global)


def replaced(strings: Value, pattern: bytes, rewrite: bytes, everywhere: bool) -> Value:
    """The strings with matches replaced. An empty match right behind another one does not count.

    From an escape in `rewrite` that means nothing, the rest of it is dropped; where only the first match
    is to be replaced, nothing is.
    """
    program, text_of = matcher(pattern)
    pieces, is_sound = _rewrite_pieces(rewrite.decode("utf-8", "surrogateescape"))
    usable = [p for p in pieces if isinstance(p, str) or p <= program.groups]

    def replace(data: bytes) -> bytes:
        text = text_of(data)
        out: list[str] = []
        at = 0
        for match in program.finditer(text):
            if out and match.start() == match.end() == at:
                continue
            if not everywhere and not is_sound:
                return data
            out.append(text[at : match.start()])
            out.extend(p if isinstance(p, str) else match[p] or "" for p in usable)
            at = match.end()
            if not everywhere:
                break
        return "".join([*out, text[at:]]).encode("utf-8", "surrogateescape") if out else data

    return mapped(strings, replace)


@functools.lru_cache(maxsize=256)
def _rewrite_pieces(rewrite: str) -> tuple[list[str | int], bool]:
    """Text and numbers of groups, up to the first escape that means nothing; whether there is none."""
    pieces: list[str | int] = []
    at = 0
    while at < len(rewrite):
        if rewrite[at] != "\\":
            pieces.append(rewrite[at])
            at += 1
            continue
        following = rewrite[at + 1 : at + 2]
        if following.isascii() and following.isdigit():
            pieces.append(int(following))
        elif following == "\\":
            pieces.append("\\")
        else:
            return pieces, False
        at += 2
    return pieces, True
