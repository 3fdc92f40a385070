"""Regular expressions over strings; `patterns` compiles and matches them."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted, each
from flowengine.core.accounting import REFERENCE_BYTES, ask_for, text_bytes
from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import mapped
from flowengine.kernels.strings.patterns import check_library, compiled, matches

#: So many strings are long enough a batch whatever they hold.
_MANY: Final = 64
#: A text that grows under replacement is asked for each time it has grown by so much.
_BYTES_BETWEEN_LOOKS: Final = 1 << 16


def _scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, but received shape {list(array.shape)}")
    text: bytes = array.item()
    return text


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 2 a string, and 1 each 100 bytes."""
    if isinstance(strings, bytes):
        return 2.0 + 0.01 * len(strings)
    size = getattr(strings, "size", 1)
    held = sum(map(len, strings.reshape(-1).tolist())) if 0 < size <= _MANY else 0
    return 2.0 * float(size) + 0.01 * held


def _full_match(strings: Value, pattern: bytes) -> Any:
    match = compiled(pattern).fullmatch
    array = to_array(strings)
    found = each(lambda text: match(text) is not None, array.reshape(-1).tolist())
    return np.array(found, np.bool_).reshape(array.shape)


@kernel("RegexFullMatch", fresh=True, heavy=_cost, needs=check_library)
def regex_full_match(strings: Value, pattern: Value) -> Any:
    """Whether the pattern matches the whole of each string (bool, of the input's shape)."""
    return _full_match(strings, _scalar(pattern, "pattern"))


@kernel("StaticRegexFullMatch", fresh=True, heavy=_cost, needs=check_library)
def static_regex_full_match(strings: Value, *, pattern: bytes) -> Any:
    """As RegexFullMatch, with a pattern that is fixed."""
    return _full_match(strings, pattern)


@kernel("RegexReplace", fresh=True, heavy=_cost, needs=check_library)
def regex_replace(strings: Value, pattern: Value, rewrite: Value, *, replace_global: bool) -> Value:
    """Each match replaced (or the first only); in `rewrite`, \\1 to \\9 are groups and \\0 is the match."""
    return replaced(strings, _scalar(pattern, "pattern"), _scalar(rewrite, "rewrite"), replace_global)


@kernel("StaticRegexReplace", fresh=True, heavy=_cost, needs=check_library)
def static_regex_replace(strings: Value, *, pattern: bytes, rewrite: bytes, replace_global: bool) -> Value:
    """As RegexReplace, with a pattern and a text that are fixed."""
    return replaced(strings, pattern, rewrite, replace_global)


def replaced(strings: Value, pattern: bytes, rewrite: bytes, everywhere: bool) -> Value:
    """The strings with matches replaced.

    From an escape in `rewrite` that means nothing, the rest of it is dropped; where only the first match
    is to be replaced, nothing is. A group that the pattern lacks is empty. What the result takes is asked for
    while it is made.
    """
    program = compiled(pattern)
    pieces, is_sound = _rewrite_pieces(rewrite)
    usable = [p for p in pieces if isinstance(p, bytes) or p <= program.groups]
    if not everywhere and not is_sound:
        return mapped(strings, lambda text: text)

    made = 0

    def replace(text: bytes) -> bytes:
        nonlocal made
        out: list[bytes] = []
        copied = size = looked_at = 0
        for match in matches(program, text):
            begin, end = match.span()
            parts = [p if isinstance(p, bytes) else match.group(p) or b"" for p in usable]
            out += [text[copied:begin], *parts]
            size += begin - copied + sum(map(len, parts))
            copied = end
            if not everywhere:
                break
            if size + len(out) > looked_at:
                check_wanted()
                # The parts are there already, the text that they make comes beside them.
                ask_for(made + size + REFERENCE_BYTES * len(out))
                looked_at = size + len(out) + _BYTES_BETWEEN_LOOKS
        if not out:
            return text
        size += len(text) - copied
        ask_for(made + size + REFERENCE_BYTES * len(out))
        made += text_bytes(b"") + size
        return b"".join([*out, text[copied:]])

    return mapped(strings, replace)


@functools.lru_cache(maxsize=256)
def _rewrite_pieces(rewrite: bytes) -> tuple[list[bytes | int], bool]:
    """Text and numbers of groups, up to the first escape that means nothing; whether there is none."""
    text, *escapes = rewrite.split(b"\\")
    pieces: list[bytes | int] = [text]
    behind = iter(escapes)
    for part in behind:
        if part[:1].isdigit():
            pieces += [int(part[:1]), part[1:]]
            continue
        # Two backslashes in a row: an empty part between them.
        following = None if part else next(behind, None)
        if following is None:
            return pieces, False
        pieces.append(b"\\" + following)
    return pieces, True
