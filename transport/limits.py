"""Limits on the resources that a peer may use: bytes, calls and seconds, before and after authentication.

Each side announces its limits while connections open, and each side keeps within the limits of the other. So
an honest peer waits or gets a clear error locally. A peer that exceeds the limits is not honest: its
connection is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

#: Largest header before authentication. The longest honest one, a proof with its identity, takes about 600
#: bytes; names are bounded below so that it always fits.
HANDSHAKE_HEADER_BYTES_MAX: Final = 4 * KIB

#: Longest cluster, task and method name, in bytes of UTF-8.
NAME_BYTES_MAX: Final = 256

#: Larger payloads than this are sent as a stream of chunks; smaller ones inside their message's frame. At 1
#: GB/s, this takes 64 us of the link: the time that a small message may have to wait for another.
INLINE_BYTES_MAX: Final = 64 * KIB

#: Largest chunk of a stream that a receiver accepts.
CHUNK_BYTES_MAX: Final = 2 * MIB

#: Size of the chunks that are sent: a small message may have to wait for one on this side, 0.3 ms of a link
#: at 1.5 GB/s. A system call, a round of the loop and a wake-up of the receiver go with each: with 256 KiB, a
#: transfer of 1 MB took four times as long.
CHUNK_BYTES: Final = 512 * KIB

#: Size of the chunks within one machine, where bytes move at 5 GB/s and more: 0.4 ms at most. It is twice the
#: bytes that a pipe of 1 MiB accepts at once (see `pages`).
CHUNK_BYTES_WITHIN_MACHINE: Final = 2040 * KIB

#: A tensor from this size on may be sent without a copy, and its pieces from that size on. For smaller ones,
#: the calls and the message that returns the memory cost more than the copy.
LENT_TENSOR_BYTES_MIN: Final = 8 * MIB
LENT_PIECE_BYTES_MIN: Final = 64 * KIB

#: The charge for a pushed or announced tensor beside its bytes: its key and its entry in the table.
ENTRY_BYTES: Final = 512


#: The time that a listener gives diallers to prove who they are.
STRANGER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that this side sets for the other. Sizes in bytes, times in seconds."""

    #: One message's msgpack header. A RunGraph with a thousand tensors takes about 40 KiB.
    header_bytes_max: int = 1 * MIB
    #: The tensors of one message.
    message_bytes_max: int = 16 * GIB
    #: Tensors under reception at one time, all streams together.
    incoming_bytes_max: int = 32 * GIB
    #: Streams under reception at one time.
    streams_max: int = 256
    #: Calls that wait for their answer.
    calls_max: int = 4096
    #: Tensors of the calls that wait for their answer.
    request_bytes_max: int = 32 * GIB
    #: Tensors pushed here that nobody has taken yet.
    credit_bytes: int = 64 * MIB
    #: Pulls that wait for their tensor.
    pulls_max: int = 131_072

    #: From the first byte to the end of the handshake.
    handshake_seconds: float = STRANGER_SECONDS
    #: Silence after which this side asks the other for a sign of life.
    heartbeat_seconds: float = 5.0
    #: Silence, or output that does not move, after which this side closes the connection.
    silence_seconds: float = 30.0
    #: From a frame's first byte to its last, and from one chunk of a stream to its next.
    frame_seconds: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidArgumentError(f"Limits.{field.name} must be positive, it is {value!r}")
        if self.header_bytes_max < HANDSHAKE_HEADER_BYTES_MAX:
            raise InvalidArgumentError(
                f"Limits.header_bytes_max must be {HANDSHAKE_HEADER_BYTES_MAX} or more, "
                f"it is {self.header_bytes_max}"
            )
        if self.heartbeat_seconds >= self.silence_seconds:
            raise InvalidArgumentError(
                f"Limits.heartbeat_seconds ({self.heartbeat_seconds}) must be less than "
                f"silence_seconds ({self.silence_seconds})"
            )

    def announced(self) -> PeerLimits:
        """Return the part that the other side must know to keep within it."""
        return PeerLimits(*(getattr(self, field.name) for field in fields(PeerLimits)))


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """The limits that the other side sets for this one, as announced while the connection opened."""

    header_bytes_max: int
    message_bytes_max: int
    incoming_bytes_max: int
    streams_max: int
    calls_max: int
    request_bytes_max: int
    credit_bytes: int
    pulls_max: int

    def to_wire(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]

    @classmethod
    def from_wire(cls, values: Any) -> PeerLimits | None:
        """Return the limits in this list, or None if the list is invalid."""
        names = [field.name for field in fields(cls)]
        if not isinstance(values, list) or len(values) != len(names):
            return None
        if not all(type(value) is int and 0 < value < 1 << 63 for value in values):
            return None
        if values[0] < HANDSHAKE_HEADER_BYTES_MAX:
            return None
        return cls(*values)


__all__ = ["Limits", "PeerLimits"]
