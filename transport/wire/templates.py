"""Frame templates: messages that are repeated with another number. Sans-I/O.

Step after step the same edges carry a tensor, the same calls are made and answered. Such a frame has one new
number, that of the step or the call, and new bytes at its end: those of a tensor, or the numbers among a
call's arguments. All else is the same each time. So a sender packs it once and joins it from then on, and a
receiver that has read such a frame once recognizes the next by the constant part: nobody packs or unpacks.

For that, the number always has 64 bits, at the same place in all of them; msgpack leaves the width to the
writer:

    bytes   0-19     20-25                26-33    34 ...     ...
            prefix   before the number    number   tail       rest

    a tensor along an edge        95 1f cd route cf     step   c2 [description]         the tensor's bytes
    a call                        dc 00 04 cc 10 cf     call   method, arguments        the arguments' numbers
    an empty answer              dc 00 03 cc 11 cf     call   c0
    an answer of one tensor       dc 00 04 cc 11 cf     call   c0 or 80 [description]   the tensor's bytes

This module has their common part; `tensors.deliveries` and `calls` have the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgpack
import numpy as np

from flowengine.core.arrays import Value
from flowengine.transport.limits import INLINE_BYTES_MAX
from flowengine.transport.wire.encoding import number_of
from flowengine.transport.wire.prefix import PREFIX_BYTES, message_prefix

#: Prefix and header of a frame up to the number, and the number.
NUMBERED: Final = struct.Struct(">26sQ")
NUMBERED_BYTES: Final = NUMBERED.size
#: The place where a header's tail begins, and the length of its part before the number.
TAIL_BEGINS: Final = NUMBERED_BYTES - PREFIX_BYTES
BEFORE_BYTES: Final = TAIL_BEGINS - 8

#: The number of templates that a connection, or a sender, remembers; the longest tail of a received one.
_TEMPLATES_MAX: Final = 4096
_TAIL_BYTES_MAX: Final = 256

#: A function that takes a frame by its number and its rest, whose memory is reused. It returns False if the
#: frame has to be read like any other after all.
Taker: TypeAlias = Callable[[int, memoryview], bool]


class FrameTemplate:
    """The common part of frames that differ in their number and their rest.

    before          the header before the number
    tail            the header behind it
    rest_bytes      the length of the rest of the header, behind the tail
    payload_bytes   the length of the payload behind the header
    """

    __slots__ = ("head", "payload_bytes", "tail")

    def __init__(self, before: bytes, tail: bytes, *, rest_bytes: int = 0, payload_bytes: int = 0) -> None:
        assert len(before) == BEFORE_BYTES, "the number is not where a receiver looks for it"
        header_bytes = TAIL_BEGINS + len(tail) + rest_bytes
        self.head = message_prefix(header_bytes, 0, payload_bytes) + before
        self.tail = tail
        self.payload_bytes = payload_bytes

    def frame(self, number: int) -> bytes:
        """Return a frame up to its rest."""
        return self.head + number.to_bytes(8, "big") + self.tail


class FrameFamily:
    """Frames that begin with the same bytes: their length, the place of their rest, and their takers."""

    __slots__ = ("rest", "size", "takers")

    def __init__(self, size: int, rest: int) -> None:
        self.size = size
        self.rest = rest
        #: {tail: the taker of the frame}
        self.takers: dict[bytes, Taker] = {}


class TemplateTable(dict[bytes, FrameFamily]):
    """The frames that one connection recognizes while it is open: {their first bytes: those frames}.

    Names, types and shapes come from outside, so their number is bounded.
    """

    def __init__(self) -> None:
        super().__init__()
        self._given: list[tuple[FrameTemplate, int, Taker]] = []
        self._is_open = False
        self._heard = 0

    def give(self, template: FrameTemplate, rest_bytes: int, taker: Taker) -> None:
        """Remember a template from the start."""
        self._given.append((template, rest_bytes, taker))
        if self._is_open:
            self._add(template.head, template.tail, rest_bytes, taker)

    def open(self) -> None:
        """Recognize frames from now on."""
        self._is_open = True
        self.forget()

    def close(self) -> None:
        """Forget all templates."""
        self._is_open = False
        self._given.clear()
        self.clear()

    def forget(self) -> None:
        """Forget all templates except those of the start."""
        self.clear()
        self._heard = 0
        for template, rest_bytes, taker in self._given:
            self._add(template.head, template.tail, rest_bytes, taker)

    def learn(self, header: memoryview, payload_bytes: int, taker: Taker) -> None:
        """Remember a frame that has passed every check, by all but its number and its payload."""
        if not self._is_open or not TAIL_BEGINS < len(header) <= TAIL_BEGINS + _TAIL_BYTES_MAX:
            return
        tail = bytes(header[TAIL_BEGINS:])
        if self._heard >= _TEMPLATES_MAX:
            self.forget()
        head = message_prefix(len(header), 0, payload_bytes) + bytes(header[:BEFORE_BYTES])
        self._heard += self._add(head, tail, payload_bytes, taker)

    def _add(self, head: bytes, tail: bytes, rest_bytes: int, taker: Taker) -> bool:
        rest = NUMBERED_BYTES + len(tail)
        alike = self.get(head)
        if alike is None:
            alike = self[head] = FrameFamily(rest + rest_bytes, rest)
        elif alike.rest != rest:
            return False  # others that begin so were there first
        alike.takers[tail] = taker
        return True


class SmallTensor:
    """A type and shape of small tensors whose bytes are sent unchanged: packed description, and size."""

    __slots__ = ("description", "size")

    def __init__(self, description: bytes, size: int) -> None:
        self.description = description
        self.size = size


_small: Final[dict[Any, SmallTensor]] = {}


def small_tensor(value: Value) -> SmallTensor | None:
    """Return the `SmallTensor` of a value, one for each type and shape; None for any other value."""
    kind = type(value)
    found = _small.get(kind)
    if found is not None:
        return found
    is_array = kind is np.ndarray
    if is_array:
        if not value.flags.c_contiguous:
            return None
        found = _small.get((value.dtype, value.shape))
        if found is not None:
            return found
    elif not issubclass(kind, np.generic):
        return None
    number = number_of(value.dtype)
    if number is None or value.nbytes > INLINE_BYTES_MAX:
        return None
    if len(_small) >= _TEMPLATES_MAX:
        _small.clear()
    found = SmallTensor(msgpack.packb([[number, list(value.shape)]]), value.nbytes)
    _small[(value.dtype, value.shape) if is_array else kind] = found
    return found


class TensorTemplates(dict[SmallTensor, FrameTemplate]):
    """The templates of frames that carry a small tensor and differ in nothing else, by type and shape."""

    def __init__(self, before: bytes, tail: bytes) -> None:
        """`before` and `tail` as in `FrameTemplate`; the tensor's description follows the tail."""
        super().__init__()
        self._before = before
        self._tail = tail

    def __missing__(self, small: SmallTensor) -> FrameTemplate:
        if len(self) >= _TEMPLATES_MAX:
            self.clear()
        template = FrameTemplate(self._before, self._tail + small.description, payload_bytes=small.size)
        self[small] = template
        return template


__all__ = ["FrameTemplate", "SmallTensor", "Taker", "TemplateTable", "TensorTemplates", "small_tensor"]
