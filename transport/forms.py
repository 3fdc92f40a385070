"""What is said in every step, by what is the same in each: tensors along edges, calls, answers. Sans-I/O.

Of a small tensor that takes the same edge in every step only the step's number and the bytes are new; the
rest of its frame follows from the edge, the type and the shape. So a sender joins what it has joined before,
and a receiver that has read such a frame once knows the next by its first bytes: nobody packs or unpacks.

For that, route and step are written in 16 and 64 bits whatever they are, which msgpack leaves to the writer:

    bytes   0-19     20 21   22    23-24   25    26-33   34      35 ...          ...
            prefix   95 1f   cd    route   cf    step    dead    description     payload

A call that begins a part of a step says the same in every step but for numbers, and nearly every part ends
with nothing to say. Both are written so that what is new begins at the same place:

            prefix   dc 00 04 cc 10 cf     call    method  94 cf handle cf step 92 cf first cf last c2
            prefix   dc 00 03 cc 11 cf     call    c0
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.transport import messages as m
from flowengine.transport.framing import KNOWN_BYTES, PREFIX_BYTES, message_prefix
from flowengine.transport.limits import ENTRY_BYTES, INLINE_BYTES_MAX
from flowengine.transport.routes import ROUTES_MAX, Route
from flowengine.transport.tensors import number_of, type_of

_BEFORE_ROUTE: Final = bytes((0x95, m.DELIVER, 0xCD))
_STEP_MARK: Final = 0xCF
_FALSE: Final = b"\xc2"
_TRUE: Final = b"\xc3"
_place = struct.Struct(">HBQ").pack

#: Forms that are remembered, for sending in all and for receiving on one connection, and the longest
#: description of those: names of types and shapes come from outside.
_FORMS_MAX: Final = 4096
_TAIL_BYTES_MAX: Final = 256


#: A call and an answer up to their numbers, and what lies between the numbers of a call's arguments.
_BEFORE_CALL: Final = bytes((0xDC, 0, 4, 0xCC, m.REQUEST, 0xCF))
_BEFORE_ANSWER: Final = bytes((0xDC, 0, 3, 0xCC, m.REPLY, 0xCF))
_ARGUMENTS: Final = b"\x94\xcf"
_NUMBER: Final = b"\xcf"
_RANGE: Final = b"\x92\xcf"
_NOTHING: Final = b"\xc0"
_arguments = struct.Struct(">QcQ2sQcQc")


class Form(NamedTuple):
    """What is sent before the route, between the step and the payload, and the payload's bytes."""

    head: bytes
    tail: bytes
    size: int


def make_form(descriptions: list[Any], size: int, *, is_dead: bool) -> Form:
    """The form of a tensor by its descriptions (one, or none if dead) and bytes."""
    packed: bytes = msgpack.packb(descriptions)
    tail = (_TRUE if is_dead else _FALSE) + packed
    header_bytes = KNOWN_BYTES - PREFIX_BYTES + len(tail)
    return Form(message_prefix(header_bytes, 0, size) + _BEFORE_ROUTE, tail, size)


def head_of(form: Form, route: int, step: int) -> bytes:
    """A frame of this form up to its payload."""
    return form.head + _place(route, _STEP_MARK, step) + form.tail


_scalars: Final[dict[type, Form]] = {}
_forms: Final[dict[tuple[Any, ...], Form]] = {}


def form_of(value: Value) -> Form | None:
    """The form of a small tensor whose bytes can be sent as they lie; None for any other value."""
    kind = type(value)
    form = _scalars.get(kind)
    if form is not None:
        return form
    if kind is np.ndarray:
        form = _forms.get((value.dtype, value.shape))
        if form is not None:
            return form if value.flags.c_contiguous else None
    elif not issubclass(kind, np.generic):
        return None
    number = number_of(value.dtype)
    if number is None or value.nbytes > INLINE_BYTES_MAX:
        return None
    form = make_form([[number, list(value.shape)]], value.nbytes, is_dead=False)
    if kind is not np.ndarray:
        _scalars[kind] = form
        return form
    if len(_forms) >= _FORMS_MAX:
        _forms.clear()
    _forms[value.dtype, value.shape] = form
    return form if value.flags.c_contiguous else None


class Known(NamedTuple):
    """A frame that has been read before, but for its step and payload.

    size        of the whole frame
    tail        what lies between the step and the payload
    payload     bytes of the payload
    cost        what the tensor is charged
    shape       None for a scalar
    """

    size: int
    tail: bytes
    payload: int
    cost: int
    route: Route
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None

    def value(self, payload: memoryview) -> Value:
        """The tensor, in memory of its own."""
        if self.shape is None:
            return np.frombuffer(payload, self.dtype)[0]
        array: Array = np.frombuffer(bytearray(payload), self.dtype)
        return array.reshape(self.shape)


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
        self.head = message_prefix(self.size - PREFIX_BYTES, 0, 0) + _BEFORE_CALL
        self._pack = struct.Struct(f">{len(self.head)}sQ{len(self.tail)}s{_arguments.format[1:]}").pack

    def frame(self, call: int, handle: int, step: int, first: int, last: int) -> bytes:
        """A call. struct.error for numbers that do not fit into 64 bits."""
        return self._pack(
            self.head, call, self.tail, handle, _NUMBER, step, _RANGE, first, _NUMBER, last, _FALSE
        )

    def read(self, numbers: memoryview) -> list[Any] | None:
        """The arguments by what follows the tail; None if they are others."""
        handle, before_step, step, before_first, first, before_last, last, flag = _arguments.unpack(numbers)
        if before_step != _NUMBER or before_first != _RANGE or before_last != _NUMBER or flag != _FALSE:
            return None
        return [handle, step, [first, last], False]


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


class KnownForms(dict[bytes, Known | CallForm | AnswerForm]):
    """{first bytes of a frame: what it is} of frames that have come on one connection, and of those that
    all connections know."""

    def __init__(self) -> None:
        self._always: dict[bytes, CallForm | AnswerForm] = {ANSWER.head: ANSWER}
        super().__init__(self._always)

    def know(self, form: CallForm) -> None:
        """Tell calls of a method by their first bytes."""
        self._always[form.head] = self[form.head] = form

    def clear(self) -> None:
        """Forget what has come."""
        super().clear()
        self.update(self._always)

    def learn(self, header: memoryview, payload: int, route: Route, description: list[Any]) -> None:
        """Remember a DELIVER that has passed every check, if it is written in this form."""
        place = KNOWN_BYTES - PREFIX_BYTES
        if len(header) <= place or header[:3] != _BEFORE_ROUTE or header[5] != _STEP_MARK:
            return
        dtype, tail = type_of(description[0]), bytes(header[place:])
        if dtype is None or tail[:1] != _FALSE or len(tail) > _TAIL_BYTES_MAX:
            return
        if len(self) >= min(_FORMS_MAX, ROUTES_MAX):
            self.clear()
        shape = tuple(description[1])
        self[message_prefix(len(header), 0, payload) + bytes(header[: place - 8])] = Known(
            PREFIX_BYTES + len(header) + payload,
            tail,
            payload,
            ENTRY_BYTES + payload,
            route,
            dtype,
            shape or None,
        )


__all__ = [
    "ANSWER",
    "AnswerForm",
    "CallForm",
    "Form",
    "Known",
    "KnownForms",
    "form_of",
    "head_of",
    "make_form",
]
