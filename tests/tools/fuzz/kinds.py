"""Kinds of inputs that can be damaged: how a seed's input is made, and how it is played."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.tools.fuzz import bases, frames, requests
from tests.tools.fuzz.chance import chance_of, damaged
from tests.tools.fuzz.files import pack, unpack
from tests.tools.fuzz.graph_changes import changed_graph, changed_values, light_values


@dataclass(frozen=True)
class DamagedKind:
    """One kind of input.

    make   a damaged input, from good ones and a seed's choices
    good   good ones to begin with where the caller gives none
    """

    make: Callable[[bytes, random.Random], bytes]
    good: Callable[[], tuple[bytes, ...]]


def _changed_files(data: bytes, chance: random.Random) -> bytes:
    contents = unpack(data)
    name = chance.choice(sorted(contents))
    contents[name] = damaged(contents[name], chance)
    if chance.random() < 0.1:
        del contents[chance.choice(sorted(contents))]
    return pack(contents)


def _checkpoints() -> tuple[bytes, ...]:
    return tuple(pack(dict(files)) for files in bases.checkpoints())


def _frame(data: bytes, chance: random.Random) -> bytes:
    return frames.nonsense(chance)


KINDS: Final[dict[str, DamagedKind]] = {
    "graphs": DamagedKind(changed_graph, bases.graphs),
    "calls": DamagedKind(changed_values, bases.graphs),
    "records": DamagedKind(damaged, bases.records),
    "checkpoints": DamagedKind(_changed_files, _checkpoints),
    "images": DamagedKind(damaged, bases.images),
    "frames": DamagedKind(_frame, lambda: (b"",)),
    "requests": DamagedKind(requests.changed, requests.good),
}


def made(kind: str, seed: int, good: tuple[bytes, ...] = (), *, lightly: bool = False) -> bytes:
    """The input of a seed: the same bytes in every process.

    good      what to begin with, in place of the kind's own
    lightly   op calls are changed so little that their arguments are accepted as before
    """
    chance = chance_of(kind, seed)
    found = KINDS[kind]
    make = light_values if lightly and kind == "calls" else found.make
    return make(chance.choice(good or found.good()), chance)
