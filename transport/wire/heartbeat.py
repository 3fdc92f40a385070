"""Checks that the other side lives: signs of life, silence, and output that does not move.

Sans-I/O: its caller reports received bytes and the time, and gets the fault.
"""

from __future__ import annotations

from flowengine.core.errors import OpError
from flowengine.transport.errors import ConnectionLostError, RemoteProtocolError
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.lent_memory import LentMemory
from flowengine.transport.wire.states import State
from flowengine.transport.wire.wire import Wire


class Heartbeat:
    """PING and PONG of one side, and their deadlines."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        #: The time when something last arrived.
        self.received_at = wire.now
        self.round_trip_seconds: float | None = None
        #: The number of the last PING that arrived and is not answered yet: one answer to many.
        self.pong_due: int | None = None
        self._ping_number = 0
        #: The last that was answered.
        self._pong_number = 0
        #: The awaited sign of life, and the time when it was asked for; None while none is awaited.
        self._asked_number = 0
        self._asked_at: float | None = None
        #: (bytes sent so far, the time when that was first seen), which detects output that does not move.
        self._output_seen = (0, wire.now)
        #: Memory that the other side may still read; None if everything is copied.
        self._lent: LentMemory | None = None

    def lend_memory(self) -> None:
        """Let large tensors be sent without a copy; a PONG confirms that they were read."""
        self._lent = self._wire.outbox.lent = LentMemory(self.ping)

    def take_lent(self) -> list[memoryview]:
        """Return the memory that the other side may still read, once the connection is closed."""
        lent, self._lent = self._lent, None
        self._wire.outbox.lent = None
        return lent.take() if lent is not None else []

    def ping(self) -> int:
        """Ask for a PONG; return its number, or 0 if no PING can be sent."""
        if self._wire.state is not State.OPEN:
            return 0
        self._ping_number += 1
        self._wire.send(m.PING, (self._ping_number,))
        return self._ping_number

    def answer(self) -> None:
        """Send the PONG that is due."""
        number, self.pong_due = self.pong_due, None
        if self._wire.state is State.OPEN:
            self._wire.send(m.PONG, (number,))

    def ping_came(self, number: int) -> None:
        """Handle PING: a peer that asks faster than it reads gets the last number only."""
        self.pong_due = number

    def pong_came(self, number: int) -> None:
        """Handle PONG."""
        if not self._pong_number < number <= self._ping_number:
            raise RemoteProtocolError(f"PONG {number} answers no PING")
        self._pong_number = number
        if self._lent is not None:
            self._lent.returned(number)
        if self._asked_at is not None and number >= self._asked_number:
            self.round_trip_seconds = self._wire.now - self._asked_at
            self._asked_at = None

    def look(self, oldest_progress: float | None) -> OpError | None:
        """Return the fault found by now; if there is none, ask for a sign of life when it is time.

        oldest_progress   see `FrameReader.oldest_progress`
        """
        wire, limits, now = self._wire, self._wire.limits, self._wire.now
        silent = now - self.received_at
        if silent >= limits.silence_seconds and self._had_time_to_answer(now):
            return ConnectionLostError(f"{wire.address} gave no sign of life for {silent:.1f} s")
        sent = wire.counters.bytes_sent
        if not wire.outbox or self._output_seen[0] != sent:
            self._output_seen = (sent, now)
        elif now - self._output_seen[1] >= limits.silence_seconds:
            return ConnectionLostError(
                f"{wire.address} has read nothing for {now - self._output_seen[1]:.1f} s, "
                f"{wire.outbox.queued_bytes} bytes wait for it"
            )
        if oldest_progress is not None and now - oldest_progress >= limits.frame_seconds:
            return RemoteProtocolError(
                f"{wire.address} left a message unfinished for {now - oldest_progress:.1f} s"
            )
        if silent >= limits.heartbeat_seconds and self._asked_at is None and wire.state is State.OPEN:
            self._asked_number = self.ping()
            self._asked_at = now
        return None

    def _had_time_to_answer(self, now: float) -> bool:
        """Return whether the other side was asked for a sign of life long enough ago.

        If not, this side stood still meanwhile: its process was stopped, or had no time.
        """
        if self._wire.state is not State.OPEN:
            return True
        limits = self._wire.limits
        asked = self._asked_at
        return asked is not None and now - asked >= limits.silence_seconds - 1.5 * limits.heartbeat_seconds


__all__ = ["Heartbeat"]
