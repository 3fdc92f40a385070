"""A small tensor along an edge, by what is the same in every step. Sans-I/O.

Only the step's number and the bytes are new; the rest of its frame follows from the edge, the type and the
shape. So a sender joins what it has joined before, and a receiver that has read such a frame once knows the
next by its first bytes (`known_forms`): nobody packs or unpacks.

For that, route and step are written in 16 and 64 bits whatever they are, which msgpack leaves to the writer:

    bytes   0-19     20 21   22    23-24   25    26-33   34      35 ...          ...
            prefix   95 1f   cd    route   cf    step    dead    description     payload

Calls and answers are written so that what is new begins at the same place: see `call_forms`.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from flowengine.core.arrays import Value
from flowengine.transport.limits import INLINE_BYTES_MAX
from flowengine.transport.tensors.routes import Route
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import number_of, read_small
from flowengine.transport.wire.framing import KNOWN_BYTES, PREFIX_BYTES, message_prefix

#: What is written before the route, and before the step.
BEFORE_ROUTE: Final = bytes((0x95, m.DELIVER, 0xCD))
STEP_MARK: Final = 0xCF
#: Whether the tensor is dead.
ALIVE: Final = b"\xc2"
_DEAD: Final = b"\xc3"
_place = struct.Struct(">HBQ").pack

#: Forms that are remembered for sending.
_FORMS_MAX: Final = 4096


class Form(NamedTuple):
    """What is sent before the route, between the step and the payload, and the payload's bytes."""

    head: bytes
    tail: bytes
    size: int


def make_form(descriptions: list[Any], size: int, *, is_dead: bool) -> Form:
    """The form of a tensor by its descriptions (one, or none if dead) and bytes."""
    packed: bytes = msgpack.packb(descriptions)
    tail = (_DEAD if is_dead else ALIVE) + packed
    header_bytes = KNOWN_BYTES - PREFIX_BYTES + len(tail)
    return Form(message_prefix(header_bytes, 0, size) + BEFORE_ROUTE, tail, size)


def head_of(form: Form, route: int, step: int) -> bytes:
    """A frame of this form up to its payload."""
    return form.head + _place(route, STEP_MARK, step) + form.tail


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
        return read_small(payload, self.dtype, self.shape)


__all__ = ["ALIVE", "BEFORE_ROUTE", "STEP_MARK", "Form", "Known", "form_of", "head_of", "make_form"]
