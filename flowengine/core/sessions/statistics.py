"""Statistics of a session at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """The statistics of a session at one moment.

    used_bytes, peak_bytes         of all steps, variables, queues, tables and plans together, now and at most
                                   so far; None where nothing is counted: without a bound on memory, and
                                   without `Config(count_allocations=True)`
    limit_bytes                    `Config.session_memory_bytes`; None for no bound
    refused                        how often something was refused for want of memory, or of room for a step
    running_steps, waiting_steps   steps under way, and those that `max_steps` lets wait
    plans                          how many are kept
    """

    used_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None
    refused: int
    running_steps: int
    waiting_steps: int
    plans: int


__all__ = ["SessionStatistics"]
