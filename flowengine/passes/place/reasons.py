"""The reasons for the places of nodes, in words; computed on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flowengine.core.names import DeviceName
from flowengine.ir.graph import NodeGraph
from flowengine.passes.place.colocate import Bond, Groups
from flowengine.passes.place.device_profiles import Offer
from flowengine.passes.place.search import SearchOutcome

if TYPE_CHECKING:
    from flowengine.passes.place.feasible import Feasible


class Reasons(Mapping[str, str]):
    """The reasons for the places: {node name: the reason for its device}."""

    def __init__(
        self,
        graph: NodeGraph,
        groups: Groups,
        feasible: Feasible,
        offers: Sequence[Offer],
        pinned: Mapping[str, str],
        found: SearchOutcome,
        group_of: Sequence[int],
        because: str = "",
    ) -> None:
        self._graph = graph
        self._groups = groups
        self._feasible = feasible
        self._offers = offers
        self._pinned = pinned
        self._found = found
        self._group_of = group_of
        self._because = because or "the device is tried out, to learn how fast it is"
        self._bonds: dict[str, Bond] | None = None
        self._leaders: dict[int, int] = {}
        for index, group in enumerate(group_of):
            self._leaders.setdefault(group, index)

    def __getitem__(self, name: str) -> str:
        groups = self._groups
        index = groups.index[name]
        if name in self._feasible.relaxed:
            return f"asked for {self._feasible.demands[name]}: {self._feasible.relaxed[name]}; soft placement"
        if self._pinned.get(name) == str(self._offers[self._found.places[self._group_of[index]]].name):
            return "its state is there"
        if name in self._feasible.overruled:
            return str(self._feasible.overruled[name])
        demand = self._feasible.demands.get(name)
        if demand is not None:
            asked = f"asked for {demand}"
            if self._matches_one(index, demand):
                return asked
            return f"{asked}; {self._by_cost(index)}"
        bond = self._bond(name)
        if bond is not None:
            return f"{bond.reason} '{bond.other}'"
        if self._only_one(index):
            why = self._feasible.why_not(index)
            return f"the only device that it can be on: {why}" if why else "the only device that it can be on"
        return self._by_cost(index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups.names)

    def __len__(self) -> int:
        return len(self._groups.names)

    def _bond(self, name: str) -> Bond | None:
        if self._bonds is None:
            self._bonds = {}
            for bond in self._groups.bonds:
                self._bonds.setdefault(bond.node, bond)
        return self._bonds.get(name)

    def _only_one(self, index: int) -> bool:
        return self._feasible.allowed(index).bit_count() == 1

    def _matches_one(self, index: int, demand: DeviceName) -> bool:
        return self._only_one(index) or sum(demand.matches(offer.name) for offer in self._offers) == 1

    def _by_cost(self, index: int) -> str:
        """Return the simulation's reason for the place of the group."""
        if len(self._offers) == 1:
            return "the only device"
        found, group = self._found, self._group_of[index]
        if found.origin == "trial":
            return self._because
        if found.origin == "packed":
            return "where there is memory for it"
        if group in found.moved:
            return f"moved there: the step shortens from {microseconds(found.moved[group])}"
        if found.origin == "one device" and not found.moved:
            return "the step ends first with everything on one device"
        ends = found.compared.get(group)
        if not ends:
            return "where what takes its output is"
        here = found.places[group]
        others = [(time, device) for device, time in ends.items() if device != here]
        text = f"ends first there, at {microseconds(ends.get(here, 0.0))}"
        if others:
            time, device = min(others)
            text += f" ({short(self._offers[device])}: {microseconds(time)})"
        return text


def microseconds(time: float) -> str:
    """Format a time for people: `850 us`, `12.4 ms`."""
    return f"{time:.3g} us" if time < 1000 else f"{time / 1000:.3g} ms"


def short(offer: Offer) -> str:
    """Return a device's name without its task: `CPU:1`."""
    return f"{offer.type}:{offer.name.index}"
