"""How a scenario went, and what all scenarios share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowengine.testing.simulation.log import EventLog
from flowengine.testing.simulation.network import LinkModel

#: Simulated seconds within which a scenario ends, whatever happens in it.
SECONDS_MAX: Final = 3600.0
#: Links with pieces that stray, so that what is said on several connections comes in any order.
LINKS: Final = LinkModel(stray_seconds=0.02, stray_share=0.02)


class Failure(AssertionError):
    """A failure found by a simulation, with the log of the events that led to it."""

    log: EventLog | None = None


class Divergence(Failure):
    """Training under faults did not give what it gives without."""


class EngineFault(Failure):
    """The engine has met a fault of its own, and said so in its log."""


class Hang(Failure):
    """A simulation did not end within its simulated time."""


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """How a scenario went.

    seconds     simulated, from the first step to the last
    restarts    how often training began again at a checkpoint
    """

    log: EventLog
    seconds: float
    restarts: int = 0


__all__ = ["LINKS", "SECONDS_MAX", "Divergence", "EngineFault", "Failure", "Hang", "ScenarioOutcome"]
