"""The failures that a simulation finds."""

from __future__ import annotations

from flowengine.testing.simulation.log import EventLog


class Failure(AssertionError):
    """A failure found by a simulation, with the log of the events that led to it."""

    log: EventLog | None = None


class EngineFault(Failure):
    """The engine has met a fault of its own, and said so in its log."""


class Hang(Failure):
    """A simulation did not end within its simulated time."""


__all__ = ["EngineFault", "Failure", "Hang"]
