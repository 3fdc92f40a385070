"""Counts of the work of a connection so far."""

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


__all__ = ["Counters"]
