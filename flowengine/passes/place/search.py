"""The search for a placement: it improves the best of several first placements move by move.

In the simulation, the result is never worse than all nodes on one device or groups in turn. The number of
simulated operations is bounded, so that a graph of 36,000 nodes takes seconds and a small one milliseconds.
The same problem always gives the same placement.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from flowengine.passes.place.lists import (
    ListScheduler,
    all_on,
    by_executor,
    by_rank,
    packed,
    round_robin,
)
from flowengine.passes.place.problem import Problem
from flowengine.passes.place.simulate import Schedule, simulate

#: Operations simulated while improving, at about 2 us each; and no more simulations than that.
OPERATIONS_MAX: Final = 400_000
SIMULATIONS_MAX: Final = 600
#: A problem of so few possible moves is searched move by move, not only along its critical path.
SMALL_MOVES: Final = 64
#: All nodes stay on one device if spreading shortens the step by less than this share: estimates are not
#: better than that, and a step on one device cannot wait for another that is slower than assumed.
SPREADING_WORTH: Final = 0.1
#: But not if groups in turn would be better than one device by this share.
_IN_TURN_WORTH: Final = 0.04
#: An improvement below this share is not worth a move.
_WORTH: Final = 1e-6
#: The number of groups of the critical path that are tried before giving up.
_PATH_GROUPS_MAX: Final = 64


#: (makespan, number, origin, places)
_Candidate: TypeAlias = tuple[float, int, str, list[int]]


@dataclass(slots=True)
class SearchOutcome:
    """The outcome of a search.

    places      device by group
    makespan    of the simulated step
    origin      the first placement that it was improved from: "rank", "order", "one device", "in turn";
                "packed" if
                memory leaves no choice, or "trial"
    baselines   {"one device" or "in turn": makespan}
    moved       groups that were moved from that first placement, with the makespan before
    compared    {group: {device: the end of its deciding operation there}}
    """

    places: list[int]
    makespan: float
    origin: str
    baselines: dict[str, float]
    moved: dict[int, float] = field(default_factory=dict)
    compared: dict[int, dict[int, float]] = field(default_factory=dict)
    simulations: int = 0


def search(
    problem: Problem, *, seed: int = 0, effort: float = 1.0, trial: int | None = None
) -> SearchOutcome | None:
    """Return the best placement found; None if none fits the devices' memory.

    effort   share of the usual number of simulations
    trial    a device for all nodes that may be there, instead of a search
    """
    if trial is not None:
        places = all_on(problem, trial)
        if problem.fits(places):
            makespan = simulate(problem, places).makespan
            return SearchOutcome(places, makespan, "trial", {"one device": makespan}, simulations=1)
    return _PlacementSearch(problem, seed, effort).run()


def _together(candidates: Iterable[_Candidate]) -> _Candidate | None:
    """Return the best placement on one device: groups that cannot be there use as few others as possible."""
    single = [each for each in candidates if each[2] == "one device"]
    fewest = min((len(set(places)) for _, _, _, places in single), default=0)
    return min((each for each in single if len(set(each[3])) == fewest), default=None)


class _PlacementSearch:
    def __init__(self, problem: Problem, seed: int, effort: float) -> None:
        self.problem = problem
        self.random = random.Random(seed)
        self.simulations = 0
        count = max(len(problem.costs), 1)
        self.budget = int(effort * max(12, min(SIMULATIONS_MAX, OPERATIONS_MAX // count)))
        self.movable = [group for group, allowed in enumerate(problem.allowed) if len(allowed) > 1]

    def run(self) -> SearchOutcome | None:
        problem = self.problem
        candidates: list[_Candidate] = []
        compared: dict[str, dict[int, dict[int, float]]] = {}

        def consider(origin: str, places: list[int]) -> float:
            makespan = self._simulate(places).makespan
            if problem.fits(places):
                candidates.append((makespan, len(candidates), origin, places))
            return makespan

        single = min(consider("one device", all_on(problem, device)) for device in range(problem.devices))
        baselines = {"one device": single}
        if self.movable:
            baselines["in turn"] = consider("in turn", round_robin(problem))
            incoming = problem.incoming()
            for origin, order in (("rank", by_rank), ("order", by_executor)):
                scheduler = ListScheduler(problem, incoming)
                consider(origin, scheduler.run(order(problem)))
                compared[origin] = {group: ends for group, (_, ends) in scheduler.chosen.items()}
        if not candidates:
            consider("packed", packed(problem))
        if not candidates:
            return None
        makespan, _, origin, first = min(candidates)
        found = SearchOutcome(list(first), makespan, origin, baselines, compared=compared.get(origin, {}))
        if "in turn" in baselines and self.simulations < self.budget:
            self._improve(found, [places for _, _, _, places in sorted(candidates)[1:3]])
        together = _together(candidates)
        if together is not None and self._stays_together(found, together[0]):
            makespan, _, _, first = together
            found.places, found.makespan, found.origin = list(first), makespan, "one device"
        for group, device in enumerate(found.places):
            if device != first[group]:
                found.moved[group] = makespan
        found.simulations = self.simulations
        return found

    def _stays_together(self, found: SearchOutcome, single: float) -> bool:
        if found.makespan >= single:
            return True
        return found.makespan > single * (1 - SPREADING_WORTH) and single <= found.baselines.get(
            "in turn", single
        ) * (1 + _IN_TURN_WORTH)

    def _simulate(self, places: Sequence[int]) -> Schedule:
        self.simulations += 1
        return simulate(self.problem, places)

    # -- moves --------------------------------------------------------------------------------------

    def _improve(self, found: SearchOutcome, others: Sequence[list[int]]) -> None:
        """Descend from the best first placement and, while work is left, from others and from kicks."""
        starts: Iterator[list[int]] = self._starts(found, others)
        for places in starts:
            if not self.problem.fits(places):
                self.simulations += 1  # counted, so that this ends
                continue
            makespan, places = self._descend(places)
            if makespan < found.makespan * (1 - _WORTH):
                found.makespan, found.places = makespan, places
            if self.simulations >= self.budget:
                return

    def _starts(self, found: SearchOutcome, others: Sequence[list[int]]) -> Iterator[list[int]]:
        yield list(found.places)
        for places in others:
            yield list(places)
        while len(self.movable) > 1:
            kicked = list(found.places)
            for group in self.random.sample(self.movable, min(len(self.movable), self.random.randint(2, 4))):
                kicked[group] = self.random.choice(self.problem.allowed[group])
            yield kicked

    def _descend(self, places: list[int]) -> tuple[float, list[int]]:
        """Take the first improving move until there is none, or the budget is spent."""
        schedule = self._simulate(places)
        best = schedule.makespan
        improved = True
        while improved and self.simulations < self.budget:
            improved = False
            for move in self._moves(places, schedule):
                if self.simulations >= self.budget:
                    break
                before = [(group, places[group]) for group, _ in move]
                for group, device in move:
                    places[group] = device
                if self.problem.fits(places):
                    tried = self._simulate(places)
                    if tried.makespan < best * (1 - _WORTH):
                        best, schedule, improved = tried.makespan, tried, True
                        break
                for group, device in before:
                    places[group] = device
        return best, places

    def _moves(self, places: list[int], schedule: Schedule) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield groups to move: those of the critical path first, in a small problem all, and swaps."""
        path = self._path_groups(places, schedule)
        yield from self._single_moves(places, path)
        if len(self.movable) * (self.problem.devices - 1) > SMALL_MOVES:
            return
        rest = [group for group in self.movable if group not in set(path)]
        yield from self._single_moves(places, rest)
        for index, a in enumerate(self.movable):
            for b in self.movable[index + 1 :]:
                for device_a in self.problem.allowed[a]:
                    for device_b in self.problem.allowed[b]:
                        if device_a != places[a] and device_b != places[b]:
                            yield (a, device_a), (b, device_b)

    def _single_moves(
        self, places: list[int], groups: Sequence[int]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        for group in groups:
            for device in self.problem.allowed[group]:
                if device != places[group]:
                    yield ((group, device),)

    def _path_groups(self, places: list[int], schedule: Schedule) -> list[int]:
        """Return the movable groups of the critical path, the most expensive first."""
        weight: dict[int, float] = {}
        for op in schedule.critical_path():
            group = self.problem.group_of[op]
            if len(self.problem.allowed[group]) > 1:
                weight[group] = weight.get(group, 0.0) + self.problem.costs[op][places[group]]
        return sorted(weight, key=lambda group: -weight[group])[:_PATH_GROUPS_MAX]
