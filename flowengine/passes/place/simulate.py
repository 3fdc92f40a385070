"""The time that a placement would take: a simulated step, device by device.

Each device runs one operation at a time, always the first ready one in the executor's order, and is never
idle while one is ready. A tensor for another device takes the link's latency and the time of its bytes;
transfers do not delay each other. O((n + e) log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from flowengine.passes.place.problem import Problem


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of a simulated step.

    makespan     microseconds until the last operation ended
    finish       for each operation the time of its end
    blame        for each operation the one whose end it waited for last: a producer, or the one before it on
                 its device; -1 for one that could start at once
    """

    makespan: float
    finish: list[float]
    blame: list[int]

    def critical_path(self) -> list[int]:
        """Return the operations that the makespan consists of, last first."""
        if not self.finish:
            return []
        op = max(range(len(self.finish)), key=self.finish.__getitem__)
        path = []
        while op >= 0:
            path.append(op)
            op = self.blame[op]
        return path


def simulate(problem: Problem, places: Sequence[int]) -> Schedule:
    """Run the problem with each group on a device (`places`: device by group)."""
    costs, edges, group_of = problem.costs, problem.edges, problem.group_of
    latency, per_byte = problem.latency, problem.per_byte
    count = len(costs)
    device_of = [places[group] for group in group_of]
    waiting = [0] * count
    for out in edges:
        for consumer, _, _ in out:
            waiting[consumer] += 1
    arrival = [0.0] * count
    blame = [-1] * count
    finish = [0.0] * count
    ready: list[list[int]] = [[] for _ in range(problem.devices)]
    running = [-1] * problem.devices
    for op in range(count):
        if not waiting[op]:
            ready[device_of[op]].append(op)
    #: (time, operation) for an end, (time, count + operation) for the arrival of a last input.
    events: list[tuple[float, int]] = []
    for device, queue in enumerate(ready):
        heapify(queue)
        if queue:
            op = running[device] = heappop(queue)
            heappush(events, (costs[op][device], op))
    now = 0.0
    while events:
        now, code = heappop(events)
        if code >= count:
            op = code - count
            device = device_of[op]
            if running[device] < 0:
                running[device] = op
                heappush(events, (now + costs[op][device], op))
            else:
                heappush(ready[device], op)
            continue
        device = device_of[code]
        finish[code] = now
        away, byte = latency[device], per_byte[device]
        queue = ready[device]
        for consumer, crossings, size in edges[code]:
            target = device_of[consumer]
            when = now if target == device else now + crossings * away[target] + size * byte[target]
            if when >= arrival[consumer]:
                arrival[consumer] = when
                blame[consumer] = code
            waiting[consumer] -= 1
            if not waiting[consumer]:
                if arrival[consumer] <= now and target == device:
                    heappush(queue, consumer)
                else:
                    heappush(events, (arrival[consumer], count + consumer))
        if queue:
            op = running[device] = heappop(queue)
            if arrival[op] < now:
                blame[op] = code
            heappush(events, (now + costs[op][device], op))
        else:
            running[device] = -1
    return Schedule(now, finish, blame)
