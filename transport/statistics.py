"""Statistics of a peer: an immutable record of its work so far and of the memory that it holds."""

from __future__ import annotations

from dataclasses import dataclass

from flowengine.transport.connection import Connection
from flowengine.transport.wire.identity import Identity


@dataclass(frozen=True, slots=True)
class PeerStatistics:
    """The statistics of one peer at one moment."""

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
    #: The credit left for pushes to the peer, and for pushes from it.
    credit_left: int
    credit_given: int
    #: The last heartbeat's round trip; None before the first.
    round_trip_seconds: float | None


def peer_statistics(who: Identity, connection: Connection, bytes_copied_to_receive: int) -> PeerStatistics:
    """Return the statistics of a connection to this peer."""
    counters = connection.counters
    return PeerStatistics(
        task=who.task,
        incarnation=who.incarnation,
        address=connection.address,
        bytes_sent=counters.bytes_sent,
        bytes_received=counters.bytes_received,
        messages_sent=counters.messages_sent,
        messages_received=counters.messages_received,
        bytes_copied_to_send=counters.bytes_copied_to_send,
        bytes_copied_to_receive=bytes_copied_to_receive,
        calls_made=counters.calls_made,
        calls_served=counters.calls_served,
        calls_waiting=connection.calls.waiting,
        calls_serving=connection.requests.waiting,
        tensors_pushed=counters.tensors_pushed,
        tensors_announced=counters.tensors_announced,
        tensors_pulled=counters.tensors_pulled,
        tensors_received=counters.tensors_received,
        bytes_queued=connection.queued_bytes,
        credit_left=connection.tensors.credit_left,
        credit_given=connection.tensors.credit_given,
        round_trip_seconds=connection.heartbeat.round_trip_seconds,
    )


__all__ = ["PeerStatistics", "peer_statistics"]
