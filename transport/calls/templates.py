"""Templates of repeated calls, which hold the part that is the same in each: see `wire.templates`.

    STEP = CallTemplate("run_graph", lambda handle, step: [handle, step, False], numbers=2)
    calls.request_again(STEP, 7, 1001)

Between two calls only the call's number and numbers among its arguments change.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import msgpack

from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.templates import TAIL_BEGINS, FrameTemplate

#: The part of a header before the number of a call, and of an answer without and with tensors.
BEFORE_CALL: Final = bytes((0xDC, 0, 4, 0xCC, m.REQUEST, 0xCF))
BEFORE_ANSWER: Final = bytes((0xDC, 0, 3, 0xCC, m.REPLY, 0xCF))
BEFORE_TENSOR: Final = bytes((0xDC, 0, 4, 0xCC, m.REPLY, 0xCF))

#: The empty answer.
NO_ANSWER: Final = FrameTemplate(BEFORE_ANSWER, b"\xc0")

_NUMBER_MARK: Final = b"\xcf"
#: Stands for a number while a template is made; msgpack writes it as the mark and the number itself.
_PLACE: Final = 0xFEED_FACE_CAFE_F00D
_PLACE_BYTES: Final = _NUMBER_MARK + _PLACE.to_bytes(8, "big")


class CallTemplate:
    """Calls of one method without tensors whose arguments differ in numbers only."""

    __slots__ = ("_between", "_make", "_parts", "_rest", "frame_template", "method", "rest_bytes")

    def __init__(self, method: str, make: Callable[..., Any], *, numbers: int = 0) -> None:
        """`make(number, ...)` returns the arguments. Raises InvalidArgumentError if they cannot be sent."""
        self.method = method
        self._make = make
        try:
            header = m.write_header(method, make(*(_PLACE for _ in range(numbers))))[1:]
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"'{method}' cannot be called with these arguments: {error}") from None
        tail, *between = header.split(_PLACE_BYTES) if numbers else [header]
        assert len(between) == numbers, "the arguments do not hold each number once"
        if numbers:
            tail += _NUMBER_MARK
            between[:-1] = [each + _NUMBER_MARK for each in between[:-1]]
        #: The bytes behind each number, up to the next; and the same with gaps for the numbers.
        self._between = tuple(between)
        self._parts: list[Any] = [part for each in between for part in (0, each)]
        self._rest = struct.Struct(">" + "".join(f"Q{len(each)}s" for each in between))
        self.rest_bytes = self._rest.size
        self.frame_template = FrameTemplate(BEFORE_CALL, tail, rest_bytes=self.rest_bytes)

    @property
    def is_small(self) -> bool:
        """Return whether every peer accepts such a header."""
        return TAIL_BEGINS + len(self.frame_template.tail) + self.rest_bytes <= HANDSHAKE_HEADER_BYTES_MAX

    def arguments(self, *numbers: int) -> Any:
        """Return the arguments of a call with these numbers."""
        return self._make(*numbers)

    def frame(self, call: int, *numbers: int) -> bytes:
        """Return the frame of a call. Raises struct.error for numbers that do not fit into 64 bits."""
        frame = self.frame_template.frame(call)
        if not numbers:
            return frame
        parts = self._parts.copy()
        parts[::2] = numbers
        return frame + self._rest.pack(*parts)

    def read(self, rest: memoryview) -> Any:
        """Return the arguments from the bytes behind the tail; None if they do not fit the template."""
        parts = self._rest.unpack(rest)
        return self._make(*parts[::2]) if parts[1::2] == self._between else None


def fixed_call(method: str, arguments: Any) -> CallTemplate:
    """Return a template of a call that is the same each time. Its arguments must not change any more."""
    return CallTemplate(method, lambda: arguments)


def known_answer(has_table: bool) -> bytes:
    """Return the bytes of a one-tensor answer behind its number: with None, or with an empty table."""
    packed: bytes = msgpack.packb({} if has_table else None)
    return packed


__all__ = ["BEFORE_CALL", "BEFORE_TENSOR", "NO_ANSWER", "CallTemplate", "fixed_call", "known_answer"]
