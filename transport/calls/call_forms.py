"""Calls and answers that say the same again, by what is the same. Sans-I/O.

All are written so that only what is new has to be: first the call's number, in 64 bits and at the same place
as the step of a tensor along an edge, then what differs from one to the next. It is msgpack as any other.

    part of a step       prefix  dc 00 04 cc 10 cf  call  method 94 cf handle cf step 92 cf first cf last c2
    the same arguments   prefix  dc 00 04 cc 10 cf  call  method arguments
    nothing to say       prefix  dc 00 03 cc 11 cf  call  c0
    one small tensor     prefix  dc 00 04 cc 11 cf  call  c0 or 80  91 description  payload
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX, INLINE_BYTES_MAX
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import number_of, read_small
from flowengine.transport.wire.framing import KNOWN_BYTES, PREFIX_BYTES, message_prefix

#: Calls, answers and answers with tensors, up to their numbers.
BEFORE_CALL: Final = bytes((0xDC, 0, 4, 0xCC, m.REQUEST, 0xCF))
_BEFORE_ANSWER: Final = bytes((0xDC, 0, 3, 0xCC, m.REPLY, 0xCF))
BEFORE_TENSOR: Final = bytes((0xDC, 0, 4, 0xCC, m.REPLY, 0xCF))
#: What lies between the numbers of a call's arguments.
_ARGUMENTS: Final = b"\x94\xcf"
_NUMBER: Final = b"\xcf"
_RANGE: Final = b"\x92\xcf"
_FALSE: Final = b"\xc2"
_NOTHING: Final = b"\xc0"
_arguments = struct.Struct(">QcQ2sQcQc")
#: Bytes of a header up to and with the call's number.
NUMBERED_BYTES: Final = KNOWN_BYTES - PREFIX_BYTES

#: Forms of answers that are remembered for sending.
_FORMS_MAX: Final = 4096


class CallForm:
    """Calls of one method with the arguments [handle, step, [first, last], False]: a part of a step begins.

    Keeps `framing.KnownFrame`; to whom it is read, what follows the tail is the payload.
    """

    __slots__ = ("_pack", "head", "method", "payload", "size", "tail")

    def __init__(self, method: str) -> None:
        self.method = method
        self.tail: bytes = msgpack.packb(method) + _ARGUMENTS
        self.payload = _arguments.size
        self.size = KNOWN_BYTES + len(self.tail) + self.payload
        self.head = message_prefix(self.size - PREFIX_BYTES, 0, 0) + BEFORE_CALL
        self._pack = struct.Struct(f">{len(self.head)}sQ{len(self.tail)}s{_arguments.format[1:]}").pack

    def frame(self, call: int, handle: int, step: int, first: int, last: int) -> bytes:
        """A call. struct.error for numbers that do not fit into 64 bits."""
        return self._pack(
            self.head, call, self.tail, handle, _NUMBER, step, _RANGE, first, _NUMBER, last, _FALSE
        )

    def read(self, numbers: memoryview) -> tuple[str, list[Any]] | None:
        """Method and arguments by what follows the tail; None if they are others."""
        handle, before_step, step, before_first, first, before_last, last, flag = _arguments.unpack(numbers)
        if before_step != _NUMBER or before_first != _RANGE or before_last != _NUMBER or flag != _FALSE:
            return None
        return self.method, [handle, step, [first, last], False]


class AnswerForm:
    """Answers that say nothing. Keeps `framing.KnownFrame`."""

    __slots__ = ("_pack", "head", "payload", "size", "tail")

    def __init__(self) -> None:
        self.tail = _NOTHING
        self.payload = 0
        self.size = KNOWN_BYTES + len(self.tail)
        self.head = message_prefix(self.size - PREFIX_BYTES, 0, 0) + _BEFORE_ANSWER
        self._pack = struct.Struct(f">{len(self.head)}sQ{len(self.tail)}s").pack

    def frame(self, call: int) -> bytes:
        """The answer to a call."""
        return self._pack(self.head, call, self.tail)


#: The one that there is.
ANSWER: Final = AnswerForm()


class FixedCall:
    """A call without tensors that is made again and again, each time with the same arguments."""

    __slots__ = ("arguments", "head", "is_small", "method", "tail")

    def __init__(self, method: str, arguments: Any) -> None:
        """InvalidArgumentError for arguments that cannot travel. They are not to be changed any more."""
        self.method = method
        self.arguments = arguments
        try:
            self.tail: bytes = m.write_header(method, arguments)[1:]
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"'{method}' cannot be called with these arguments: {error}") from None
        size = NUMBERED_BYTES + len(self.tail)
        #: Whether every side takes it.
        self.is_small = size <= HANDSHAKE_HEADER_BYTES_MAX
        self.head = message_prefix(size, 0, 0) + BEFORE_CALL if self.is_small else b""

    def frame(self, call: int) -> bytes:
        """The call under this number."""
        return self.head + call.to_bytes(8, "big") + self.tail


class TensorAnswer(NamedTuple):
    """What is sent before the call's number, and between it and the tensor's bytes; their count."""

    head: bytes
    tail: bytes
    size: int

    def frame(self, call: int) -> bytes:
        """The answer to a call up to the tensor's bytes."""
        return self.head + call.to_bytes(8, "big") + self.tail


_answers: Final[dict[tuple[Any, ...], TensorAnswer]] = {}


def answer_of(result: Any, value: Value) -> TensorAnswer | None:
    """The form of an answer with one small tensor whose bytes can be sent as they lie; None for any other.

    result    beside the tensor: None or an empty table
    """
    if result is not None and (type(result) is not dict or result):
        return None
    kind = type(value)
    if kind is np.ndarray:
        if not value.flags.c_contiguous:
            return None
    elif not issubclass(kind, np.generic):
        return None
    key = (value.dtype, value.shape, result is None)
    form = _answers.get(key)
    if form is None:
        number = number_of(value.dtype)
        if number is None or value.nbytes > INLINE_BYTES_MAX:
            return None
        packed: bytes = msgpack.packb([[number, list(value.shape)]])
        tail = (_NOTHING if result is None else msgpack.packb({})) + packed
        size = value.nbytes
        form = TensorAnswer(message_prefix(NUMBERED_BYTES + len(tail), 0, size) + BEFORE_TENSOR, tail, size)
        if len(_answers) >= _FORMS_MAX:
            _answers.clear()
        _answers[key] = form
    return form


class HeardCalls:
    """Calls of one length whose method and arguments have come before. Keeps `framing.KnownFrame`."""

    __slots__ = ("calls", "payload", "size", "tail")

    def __init__(self, size: int, calls: dict[bytes, tuple[str, list[Any]]]) -> None:
        """`calls` are those of every length: {what follows the number: method and arguments}."""
        self.size = size
        self.tail = b""
        self.payload = size - KNOWN_BYTES
        self.calls = calls

    def read(self, behind: memoryview) -> tuple[str, list[Any]] | None:
        """Method and arguments by what follows the number; None if they have not come before."""
        found = self.calls.get(bytes(behind))
        return None if found is None else (found[0], found[1].copy())


class HeardTensor(NamedTuple):
    """What an answer says of its tensor, and whether a table lies beside it."""

    has_table: bool
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def value(self, payload: memoryview) -> Value:
        """The tensor, in memory of its own."""
        return read_small(payload, self.dtype, self.shape)


class HeardAnswers:
    """Answers of one length with one tensor of so many bytes. Keeps `framing.KnownFrame`."""

    __slots__ = ("_between", "payload", "size", "tail", "tensors")

    def __init__(self, header_bytes: int, payload_bytes: int, tensors: dict[bytes, HeardTensor]) -> None:
        """`tensors` are those of every length: {what follows the number: what it says}."""
        self.size = PREFIX_BYTES + header_bytes + payload_bytes
        self.tail = b""
        self.payload = self.size - KNOWN_BYTES
        self._between = header_bytes - NUMBERED_BYTES
        self.tensors = tensors

    def read(self, behind: memoryview) -> tuple[dict[str, Any] | None, Value] | None:
        """Result and tensor by what follows the number; None if no such has come before."""
        between = self._between
        found = self.tensors.get(bytes(behind[:between]))
        if found is None:
            return None
        return {} if found.has_table else None, found.value(behind[between:])


__all__ = [
    "ANSWER",
    "BEFORE_CALL",
    "BEFORE_TENSOR",
    "NUMBERED_BYTES",
    "AnswerForm",
    "CallForm",
    "FixedCall",
    "HeardAnswers",
    "HeardCalls",
    "HeardTensor",
    "TensorAnswer",
    "answer_of",
]
