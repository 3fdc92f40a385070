"""Ops that ask for another device than that of the resource they work on: the resource's device counts.

TensorFlow 1 places them so: a queue, table or accumulator of a parameter server may be used within a worker's
device scope, and so may the variables there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Final, NamedTuple

from flowengine.core.names import DeviceName
from flowengine.passes.place.colocate import Groups

logger: Final = logging.getLogger("flowengine.placement")


class OverruledDemand(NamedTuple):
    """A demand that does not count as it is.

    asked              what the node asked for
    resource, device   the resource that it works on, the last one that disagrees, and what that asks for
    counts             the demand that counts instead
    """

    asked: DeviceName
    resource: str
    device: DeviceName
    counts: DeviceName

    def __str__(self) -> str:
        return f"asked for {self.asked}, but works on '{self.resource}', which asks for {self.device}"


def overruled(groups: Groups, demands: Mapping[str, DeviceName]) -> dict[str, OverruledDemand]:
    """Return {node: its demand that does not count}, of nodes whose resource asks for another device.

    demands   {node name: its constraint}

    A part that the resource leaves open counts as the node asks.
    """
    found: dict[str, OverruledDemand] = {}
    for name in groups.givers:
        asked = demands.get(name)
        if asked is None:
            continue
        counts = asked
        for resource in _resources(groups, name):
            device = demands.get(resource)
            if device is not None and _disagree(device, counts):
                counts = device.merge_with(counts)
                found[name] = OverruledDemand(asked, resource, device, counts)
    return found


def followed(
    demands: Mapping[str, DeviceName], dropped: Mapping[str, OverruledDemand]
) -> dict[str, DeviceName]:
    """Return the demands as they count, and log those that do not."""
    for name, each in dropped.items():
        logger.info("'%s' %s: it goes there", name, each)
    return {**demands, **{name: each.counts for name, each in dropped.items()}}


def _resources(groups: Groups, name: str) -> Iterator[str]:
    """Yield the nodes that make the resources which a node takes, through those that pass them on."""
    seen = {name}
    waiting = list(reversed(groups.givers[name]))
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        further = groups.givers.get(each)
        if further:
            waiting.extend(reversed(further))
        else:
            yield each


def _disagree(one: DeviceName, other: DeviceName) -> bool:
    pairs = zip(astuple(one), astuple(other), strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


__all__ = ["OverruledDemand", "followed", "overruled"]
