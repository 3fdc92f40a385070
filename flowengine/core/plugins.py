"""Plugins of other distributions: ops and device types that are unknown here, found by their names.

    [project.entry-points."flowengine.ops"]
    Halve = "my_package.ops"

The name is that of the op (or device type), the value a module that registers it when it is imported. Nothing
is looked for until a graph names something that is unknown; what is loaded is named on standard error.
FLOWENGINE_PLUGINS=0 turns it off.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPS: Final = "flowengine.ops"
DEVICES: Final = "flowengine.devices"

#: {group: {name: who offers it}}; read from the environment's metadata once.
_offers: Final[dict[str, dict[str, list[EntryPoint]]]] = {}
#: What was asked for: it is loaded, or not, once.
_asked: Final[set[tuple[str, str]]] = set()


def load(group: str, name: str) -> bool:
    """Import what is offered under this name, if exactly one distribution does; whether that was done."""
    if os.environ.get("FLOWENGINE_PLUGINS") == "0" or (group, name) in _asked:
        return False
    _asked.add((group, name))
    offers = _offers_of(group).get(name, [])
    if not offers:
        return False
    if len(offers) > 1:
        _say(f"{len(offers)} offer {name!r}, so none is loaded: {', '.join(map(_described, offers))}")
        return False
    try:
        offers[0].load()
    except Exception as error:
        _say(f"{name!r} of {_described(offers[0])} cannot be loaded: {type(error).__name__}: {error}")
        return False
    _say(f"{name!r} comes from {_described(offers[0])}")
    return True


def _offers_of(group: str) -> dict[str, list[EntryPoint]]:
    if group not in _offers:
        from importlib.metadata import entry_points

        found: dict[str, list[EntryPoint]] = {}
        for each in entry_points(group=group):
            found.setdefault(each.name, []).append(each)
        _offers[group] = found
    return _offers[group]


def _described(offer: EntryPoint) -> str:
    distribution = offer.dist
    whose = "" if distribution is None else f"{distribution.name} {distribution.version}: "
    return f"{whose}{offer.value}"


def _say(text: str) -> None:
    print(f"flowengine: {text}", file=sys.stderr)
