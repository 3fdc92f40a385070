"""The reason why no device takes a group of nodes: the one node, or the two, that cannot be together."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from flowengine.passes.place.colocate import Bond, Groups

#: The number of nodes, demands or bonds that an error names.
_NAMED_MAX: Final = 6


class PlacementClaim(NamedTuple):
    """A restriction of the devices of a node: in words, and the mask of the devices that are left."""

    node: str
    text: str
    mask: int


def refusal(
    groups: Groups, representative: int, members: Sequence[str], claims: Sequence[PlacementClaim]
) -> tuple[str, str]:
    """Return the node to blame, and what is wrong.

    members   the names of the group's nodes
    claims    all that restricts the group, which together leave no device; also of nodes that passes removed
    """
    for each in claims:
        if not each.mask:
            return each.node, f"'{each.node}' cannot be placed: {each.text}"
    for one, other in itertools.combinations(claims, 2):
        if not one.mask & other.mask:
            return other.node, _disagreement(groups, representative, one, other)
    texts = [each.text for each in claims]
    shown = "; ".join(texts[:_NAMED_MAX])
    if len(texts) > _NAMED_MAX:
        shown += f"; {len(texts) - _NAMED_MAX} more demands"
    if len(members) == 1:
        return members[0], f"'{members[0]}' cannot be placed: {shown}"
    listed = ", ".join(f"'{name}'" for name in members[:_NAMED_MAX])
    more = f" and {len(members) - _NAMED_MAX} more" if len(members) > _NAMED_MAX else ""
    return members[0], f"nodes that must be on one device cannot be placed: {listed}{more}: {shown}"


def _disagreement(groups: Groups, representative: int, one: PlacementClaim, other: PlacementClaim) -> str:
    """Name two nodes whose claims leave no device for both, and why they are together."""
    if one.node == other.node:
        return f"'{one.node}' cannot be placed: {one.text}; {other.text}"
    bonds = [str(each) for each in _way(groups.bonds_of(representative), one.node, other.node)]
    between = f" and {len(bonds) - _NAMED_MAX} more" if len(bonds) > _NAMED_MAX else ""
    because = "; ".join(bonds[:_NAMED_MAX]) + between
    return f"{one.text} and {other.text}, but they must be on one device, because {because}"


def _way(bonds: Sequence[Bond], start: str, end: str) -> list[Bond]:
    """Return a shortest chain of bonds between two nodes of one group."""
    beside: dict[str, list[tuple[str, Bond]]] = {}
    for each in bonds:
        beside.setdefault(each.node, []).append((each.other, each))
        beside.setdefault(each.other, []).append((each.node, each))
    came: dict[str, tuple[str, Bond] | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came:
        here = waiting.popleft()
        for there, bond in beside.get(here, ()):
            if there not in came:
                came[there] = here, bond
                waiting.append(there)
    found: list[Bond] = []
    step = came.get(end)
    while step is not None:
        found.append(step[1])
        step = came[step[0]]
    return found[::-1]


__all__ = ["PlacementClaim", "refusal"]
