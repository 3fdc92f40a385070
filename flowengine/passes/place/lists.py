"""First placements: all nodes on one device, groups in turn, and list scheduling.

List scheduling takes operations in an order that respects the edges and puts each group on the device where
its first operation would end first, with transfers. It tries two orders: by upward rank (the longest path
from an operation to the end of the step, at mean costs), and the executor's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from flowengine.passes.place.problem import Edge, Problem

#: An operation without inputs that costs no more than this goes to the device of its first consumer.
FREE_MICROSECONDS: Final = 2.0


def all_on(problem: Problem, device: int) -> list[int]:
    """Put every group on one device; groups that may not be there go to their first one."""
    return [device if device in allowed else allowed[0] for allowed in problem.allowed]


def round_robin(problem: Problem) -> list[int]:
    """Put the groups in the order of their first operations on one device after another."""
    places = [-1] * len(problem.allowed)
    turn = 0
    for group in problem.group_of:
        if places[group] < 0:
            allowed = problem.allowed[group]
            places[group] = allowed[turn % len(allowed)]
            turn += 1
    return [
        allowed[0] if place < 0 else place for place, allowed in zip(places, problem.allowed, strict=True)
    ]


def packed(problem: Problem) -> list[int]:
    """Put the groups that keep most bytes first, each on the device with most room."""
    room = [float("inf") if limit is None else float(limit) for limit in problem.limits]
    places = [0] * len(problem.allowed)
    for group in sorted(range(len(places)), key=lambda group: -problem.resident[group]):
        device = max(problem.allowed[group], key=lambda each: room[each])
        places[group] = device
        room[device] -= problem.resident[group]
    return places


def upward_ranks(problem: Problem, order: Sequence[int]) -> list[float]:
    """Return for each operation the microseconds from its start to the end of the step, at mean costs."""
    devices = problem.devices
    pairs = max(devices * (devices - 1), 1)
    latency = sum(map(sum, problem.latency)) / pairs
    per_byte = sum(map(sum, problem.per_byte)) / pairs
    ranks = [0.0] * len(problem.costs)
    for op in reversed(order):
        behind = 0.0
        for consumer, crossings, size in problem.edges[op]:
            way = ranks[consumer] + crossings * latency + size * per_byte
            if way > behind:
                behind = way
        ranks[op] = behind + sum(problem.costs[op]) / devices
    return ranks


def by_rank(problem: Problem) -> list[int]:
    """Return the operations, longest path to the end first; an order that respects the edges."""
    order = problem.topological()
    ranks = upward_ranks(problem, order)
    position = {op: index for index, op in enumerate(order)}
    return sorted(order, key=lambda op: (-ranks[op], position[op]))


def by_executor(problem: Problem) -> list[int]:
    """Return the operations in the order of one device: always the first of the ready ones."""
    waiting = [0] * len(problem.costs)
    for out in problem.edges:
        for consumer, _, _ in out:
            waiting[consumer] += 1
    ready = [op for op, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        op = heappop(ready)
        order.append(op)
        for consumer, _, _ in problem.edges[op]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                heappush(ready, consumer)
    return order


class ListScheduler:
    """One run of list scheduling.

    chosen   {group: (device, microseconds at which its deciding operation ends there, the same for every
             device that
             it was compared with)}, for explanations
    """

    def __init__(self, problem: Problem, incoming: list[list[Edge]]) -> None:
        self.problem = problem
        self.incoming = incoming
        self.chosen: dict[int, tuple[int, dict[int, float]]] = {}
        self._places = [-1] * len(problem.allowed)
        self._finish = [0.0] * len(problem.costs)
        self._free = [0.0] * problem.devices
        self._room = [float("inf") if limit is None else float(limit) for limit in problem.limits]

    def run(self, order: Sequence[int], fixed: Sequence[int] | None = None) -> list[int]:
        """Place every group; `fixed` gives a device to groups decided before, -1 to the others."""
        problem = self.problem
        places, finish, free = self._places, self._finish, self._free
        if fixed is not None:
            for group, device in enumerate(fixed):
                if device >= 0:
                    self._put(group, device)
        for op in order:
            group = problem.group_of[op]
            costs = problem.costs[op]
            sources = self.incoming[op]
            device = places[group]
            if device < 0:
                if not sources and max(costs) <= FREE_MICROSECONDS:
                    continue  # its first consumer determines its device
                device = self._choose(op, group)
            ended = max(self._arrival(sources, device), free[device]) + costs[device]
            finish[op] = free[device] = ended
            for source, _, _ in sources:
                if places[problem.group_of[source]] < 0:
                    self._draw(problem.group_of[source], device)
        for group, device in enumerate(places):
            if device < 0:
                self._draw(group, problem.allowed[group][0])
        return places

    def _arrival(self, sources: Sequence[Edge], device: int) -> float:
        """Return when the last input is on the device; floating operations count as present."""
        problem = self.problem
        places, group_of, finish = self._places, problem.group_of, self._finish
        arrival = 0.0
        for source, crossings, size in sources:
            place = places[group_of[source]]
            if place < 0:
                continue
            when = finish[source]
            if place != device:
                when += crossings * problem.latency[place][device] + size * problem.per_byte[place][device]
            if when > arrival:
                arrival = when
        return arrival

    def _choose(self, op: int, group: int) -> int:
        """Return the device, of those with room, on which the operation ends first."""
        problem = self.problem
        allowed = problem.allowed[group]
        if len(allowed) == 1:
            self._put(group, allowed[0])
            return allowed[0]
        sources, costs = self.incoming[op], problem.costs[op]
        ends: dict[int, float] = {}
        need = problem.resident[group]
        for device in allowed:
            if need <= self._room[device]:
                ends[device] = max(self._arrival(sources, device), self._free[device]) + costs[device]
        if not ends:  # no room anywhere: the caller sees that the placement does not fit
            ends = {allowed[0]: 0.0}
        best = min(ends, key=lambda device: (ends[device], device))
        self.chosen[group] = (best, ends)
        self._put(group, best)
        return best

    def _draw(self, group: int, device: int) -> None:
        """Put a floating group on its consumer's device, if allowed there with room, else elsewhere."""
        allowed, need = self.problem.allowed[group], self.problem.resident[group]
        if device not in allowed or need > self._room[device]:
            device = max(allowed, key=lambda each: self._room[each])
        self._put(group, device)

    def _put(self, group: int, device: int) -> None:
        self._places[group] = device
        self._room[device] -= self.problem.resident[group]
