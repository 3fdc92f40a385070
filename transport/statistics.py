"""What a connection has done so far: counted as it goes, read as an immutable record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Running totals of one connection. Bytes are those on the wire, prefixes and headers included."""

    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    #: Bytes of tensors that had to be copied here to be sent: strided sources, short strings.
    bytes_copied_to_send: int = 0
    calls_made: int = 0
    calls_served: int = 0
    tensors_pushed: int = 0
    tensors_announced: int = 0
    tensors_pulled: int = 0
    tensors_received: int = 0


@dataclass(frozen=True, slots=True)
class PeerStatistics:
    """One peer at one moment."""

    task: str
    incarnation: int
    address: str
    bytes_sent: int
    bytes_received: int
    messages_sent: int
    messages_received: int
    bytes_copied_to_send: int
    #: Bytes that the stream itself copied on their way in: 0 on TCP, all of them on TLS.
    bytes_copied_to_receive: int
    calls_made: int
    calls_served: int
    #: Calls of ours that wait for their answer, and calls of the peer that wait for ours.
    calls_waiting: int
    calls_serving: int
    tensors_pushed: int
    tensors_announced: int
    tensors_pulled: int
    tensors_received: int
    #: Queued here and not yet handed to the operating system.
    bytes_queued: int
    #: What may still be pushed there, and what may still be pushed here.
    credit_left: int
    credit_given: int
    #: The last heartbeat's round trip; None before the first.
    round_trip_seconds: float | None


__all__ = ["Counters", "PeerStatistics"]
