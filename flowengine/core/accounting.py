"""The bytes that a value holds: numbers, texts with what they say, lists with what is in them.

    assert bytes_of(np.zeros(3, np.float32)) == 12

An array of strings refers to `bytes` objects; one that stands there several times is held once. What holds
values between the kernels of a step, or between steps, books them with an `Account`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np

from flowengine.core.arrays import Array, Value

T = TypeVar("T")

#: What Python adds to the contents of a `bytes`.
_TEXT_BYTES: Final = sys.getsizeof(b"")
_TEXTS: Final = {bytes}
#: So many strings whose first is no longer than so many bytes are many short ones.
_MANY: Final = 32
_SHORT: Final = 64
#: A number that is no array.
NUMBER_BYTES: Final = sys.getsizeof(np.float64(0))
#: A reference in an array.
REFERENCE_BYTES: Final = np.dtype(object).itemsize


class Account(Protocol):
    """An account in which holders of values book their bytes, so that a bound on memory is kept."""

    def check(self, wanted: int = 0) -> None:
        """ResourceExhaustedError if so many bytes more are too many; nothing has changed then."""

    def book(self, owner: Any, size: int, holder: str) -> None:
        """Say how many bytes an object holds now, in the name of `holder`. Ends with the object's life."""


class _AskedAccount(threading.local):
    """Whom kernels on this thread ask."""

    account: Account | None = None


_ASKED: Final = _AskedAccount()


def ask_for(size: int) -> None:
    """Ask for the bytes that a kernel is about to take, where no shape tells of them.

    ResourceExhaustedError if they pass a bound of the step that runs the kernel. May be called on any thread.
    """
    account = _ASKED.account
    if account is not None:
        account.check(size)


def call_for(account: Account, function: Callable[..., T], *args: Any, **keywords: Any) -> T:
    """Call a function that asks this account, wherever it runs."""
    before, _ASKED.account = _ASKED.account, account
    try:
        return function(*args, **keywords)
    finally:
        _ASKED.account = before


def is_asked() -> bool:
    """Whether anybody answers `ask_for`, so that it is worth finding out how much that is."""
    return _ASKED.account is not None


@runtime_checkable
class Composite(Protocol):
    """A value that is made of others, such as a list of tensors."""

    def held_values(self) -> Iterable[Any]:
        """Return the parts of the value; None for a part that is missing."""


def text_bytes(text: bytes | bytearray) -> int:
    """Return the bytes that one string takes."""
    return _TEXT_BYTES + len(text)


def contents_of(array: Array) -> int:
    """Return the bytes of an array's strings and lists, beside the references to them; 0 for numbers."""
    if not array.dtype.hasobject:
        return 0
    held = array.ravel().tolist()
    distinct = dict(zip(map(id, held), held, strict=True)).values()
    if set(map(type, distinct)) <= _TEXTS:
        return _TEXT_BYTES * len(distinct) + sum(map(len, distinct))
    return sum(map(bytes_of, distinct))


def bytes_at_most(value: Any) -> int:
    """As `bytes_of`, with strings that stand in an array several times counted as often: quicker."""
    if not isinstance(value, np.ndarray) or not value.dtype.hasobject:
        return bytes_of(value)
    held = value.ravel().tolist()
    # An array holds strings alone, or none.
    if held and type(held[0]) is bytes:
        # To join many short ones takes half as long as to ask each for its length.
        many = len(held) >= _MANY and len(held[0]) <= _SHORT
        contents = len(b"".join(held)) if many else sum(map(len, held))
        return int(value.nbytes) + _TEXT_BYTES * len(held) + contents
    return bytes_of(value)


def bytes_of(value: Any) -> int:
    """Return the bytes that a value takes; 0 for one that owns no memory, such as a handle.

    value    a tensor, a scalar, a string, or a `Composite`: then its references and what they refer to
    """
    if isinstance(value, bytes):
        return text_bytes(value)
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + contents_of(value)
    if isinstance(value, np.generic):
        return int(value.nbytes)
    if isinstance(value, Composite):
        parts = list(value.held_values())
        distinct = {id(part): part for part in parts if part is not None}
        return REFERENCE_BYTES * len(parts) + sum(map(bytes_of, distinct.values()))
    return 0


def element_bytes(element: Iterable[Value]) -> int:
    """Return the bytes of a tuple of tensors that is stored unchanged, such as an element of a queue."""
    size = sys.getsizeof(())
    for value in element:
        size += REFERENCE_BYTES + (NUMBER_BYTES if isinstance(value, np.generic) else bytes_of(value))
    return size


def rows_bytes(batch: Sequence[Array], count: int) -> int:
    """Return the bytes that the first `count` rows of a batch take as elements.

    They include Python's overhead for each row, and the row's contents.

    batch   arrays of at least one axis, alike in its length
    """
    size = count * sys.getsizeof(())
    for value in batch:
        numbers = value.ndim == 1 and not value.dtype.hasobject
        size += count * (REFERENCE_BYTES + (NUMBER_BYTES if numbers else 0))
        if not numbers:
            size += bytes_of(value if count == len(value) else value[:count])
    return size


__all__ = [
    "NUMBER_BYTES",
    "REFERENCE_BYTES",
    "Account",
    "Composite",
    "ask_for",
    "bytes_at_most",
    "bytes_of",
    "call_for",
    "contents_of",
    "element_bytes",
    "is_asked",
    "rows_bytes",
    "text_bytes",
]
