"""The tensors of one message, outgoing or incoming."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.wire.encoding import IncomingTensor, encode


class Payload:
    """Tensors ready to be sent with a message."""

    __slots__ = ("buffers", "copied", "descriptions", "size")

    def __init__(self, tensors: Iterable[Value] = ()) -> None:
        self.descriptions: list[Any] = []
        self.buffers: list[memoryview] = []
        self.size = 0
        self.copied = 0
        for tensor in tensors:
            encoded = encode(tensor)
            self.descriptions.append(encoded.description)
            self.buffers.extend(encoded.buffers)
            self.size += encoded.size
            self.copied += encoded.copied


#: The payload of a message without tensors.
NO_TENSORS: Final = Payload()


class IncomingMessage:
    """A message under reception: its header read, its tensors on their way."""

    __slots__ = ("cost", "fields", "key", "number", "tensors", "views")

    def __init__(self, number: int, fields: list[Any], tensors: list[IncomingTensor]) -> None:
        self.number = number
        self.fields = fields
        self.tensors = tensors
        self.views: list[memoryview] = []
        self.cost = 0
        #: The payload of a tensor that came along a numbered edge.
        self.key: RendezvousKey | None = None


__all__ = ["NO_TENSORS", "IncomingMessage", "Payload"]
