"""A placement problem: operations with costs, edges with transfers, groups that stay together.

Plain lists by index, for `place_simulate` and `place_search`, whether the problem came from a graph
(`place.problem_of`) or from a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from flowengine.passes.place.device_profiles import DeviceLinks, Offer

#: (the other operation, crossings in a step, bytes in a step)
Edge: TypeAlias = tuple[int, float, float]


@dataclass(slots=True)
class Problem:
    """Operations in the executor's order of preference, indexed from 0.

    costs       for each operation its microseconds on each device
    edges       for each operation (consumer, crossings, bytes) of its outputs, acyclic; crossings is the
                number of
                transfers in a step (in a loop one for each iteration), bytes their total
    group_of    for each operation its group
    allowed     for each group its possible devices, never empty
    resident    for each group the bytes that it keeps in its device's memory between steps
    limits      for each device the resident bytes that it can hold; None for no limit
    latency     [source][target]: microseconds to pass a tensor without bytes; 0 on the diagonal
    per_byte    [source][target]: microseconds a byte
    """

    costs: list[Sequence[float]]
    edges: list[list[Edge]]
    group_of: list[int]
    allowed: list[tuple[int, ...]]
    latency: list[list[float]]
    per_byte: list[list[float]]
    resident: list[int] = field(default_factory=list)
    limits: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.resident:
            self.resident = [0] * len(self.allowed)
        if not self.limits:
            self.limits = [None] * len(self.latency)

    @property
    def devices(self) -> int:
        return len(self.latency)

    def incoming(self) -> list[list[Edge]]:
        """Return for each operation (producer, crossings, bytes) of its inputs."""
        sources: list[list[Edge]] = [[] for _ in self.costs]
        for producer, out in enumerate(self.edges):
            for consumer, crossings, size in out:
                sources[consumer].append((producer, crossings, size))
        return sources

    def topological(self) -> list[int]:
        """Return every operation after its inputs; ready ones in the order of their index.

        Raises ValueError if the edges have a cycle.
        """
        waiting = [0] * len(self.costs)
        for out in self.edges:
            for consumer, _, _ in out:
                waiting[consumer] += 1
        order = [op for op, count in enumerate(waiting) if not count]
        for op in order:  # grows while it is walked
            for consumer, _, _ in self.edges[op]:
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    order.append(consumer)
        if len(order) != len(self.costs):
            raise ValueError("the edges of a placement problem have a cycle")
        return order

    def fits(self, places: Sequence[int]) -> bool:
        """Return whether every device can hold what its groups keep (`places`: device by group)."""
        if all(limit is None for limit in self.limits):
            return True
        held = [0] * self.devices
        for group, device in enumerate(places):
            held[device] += self.resident[group]
        return all(limit is None or size <= limit for size, limit in zip(held, self.limits, strict=True))


def link_tables(offers: Sequence[Offer], links: DeviceLinks) -> tuple[list[list[float]], list[list[float]]]:
    """Return (latency, microseconds a byte) between any two of the devices; 0 from a device to itself."""
    latency = [[0.0 if a is b else links.latency(a, b) for b in offers] for a in offers]
    per_byte = [[0.0 if a is b else 1.0 / links.bandwidth(a, b) for b in offers] for a in offers]
    return latency, per_byte
