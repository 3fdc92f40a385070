"""The outcome of a scenario, and what all scenarios share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowengine.testing.simulation.log import EventLog
from flowengine.testing.simulation.network import LinkModel
from flowengine.testing.simulation.outcomes import Failure

#: Simulated seconds within which a scenario ends, whatever happens in it.
SECONDS_MAX: Final = 3600.0
#: Links with pieces that stray, so that messages of several connections come in any order.
LINKS: Final = LinkModel(stray_seconds=0.02, stray_share=0.02)


class Divergence(Failure):
    """Training under faults did not give what it gives without."""


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """How a scenario went.

    seconds     simulated, from the first step to the last
    restarts    how often training began again at a checkpoint
    """

    log: EventLog
    seconds: float
    restarts: int = 0
