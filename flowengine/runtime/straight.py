"""Plans without control flow, cut into runs of items that wait for the same tensors.

A small partition of a step spends most of its time in what makes the executor general: counts, heaps, frames
and tags for every item, a callback for every Recv. Where no item is of a loop, a branch or a function, all of
that is known beforehand: which items can run at the start, and which follow once certain tensors have come.
So the plan is cut once, and a step is a few lists of operations (`straight_step` runs them).

The values lie where the executor keeps them, in the entries of the root frame. A step that turns out to need
more than this goes on in an executor from where it stands: see `standing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from flowengine.ir.attrs import AttrValue
from flowengine.ir.traits import GivesVariable
from flowengine.passes.blocks.tokens import ADDS, PASSES, TokenSets, joined
from flowengine.resources.container import ResourceManager
from flowengine.runtime.items import Item, Kind, StaticFrame
from flowengine.runtime.plan import Plan
from flowengine.runtime.signatures import ALWAYS_INLINE
from flowengine.runtime.state import ExecutorState
from flowengine.transport.tensors.routes import Route

#: What an operation is: its item's input passed on, sent, or given to a kernel; a region; a known value.
FORWARD, SEND, KERNEL, REGION, CONSTANT = range(5)

_CODES: Final = {
    Kind.UNARY: KERNEL,
    Kind.BINARY: KERNEL,
    Kind.GENERAL: KERNEL,
    Kind.FORWARD: FORWARD,
    Kind.REGION: REGION,
    Kind.CONSTANT: CONSTANT,
    Kind.SEND: SEND,
}

#: A plan of more items than this takes longer than a slice; what is saved matters less then.
_ITEMS_MAX: Final = 256
#: So often variables may be made or removed, or steps go on otherwise, before cutting is given up.
_CHANGES_MAX: Final = 64
_FAILURES_MAX: Final = 8


class Operation(NamedTuple):
    """One item, as a step runs it.

    start, stop   its inputs among the entries
    writes        where its output goes; of several outputs, where each goes
    route         of a Send: the edge that its value takes
    keeps_size    whether its kernel takes as long whatever the size of its inputs
    """

    code: int
    item: Item
    start: int
    stop: int
    writes: tuple[Any, ...]
    route: Route | None
    keeps_size: bool


class Segment:
    """Items that can run as soon as the same tensors have come.

    items       in the order in which they run
    operations  those of them that do anything
    computes    whether a kernel is among them
    is_plain    whether all that compute are kernels that see nothing but their inputs
    followers   positions of the segments that wait for this one
    """

    __slots__ = ("computes", "followers", "is_plain", "items", "operations")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.operations: list[Operation] = []
        self.computes = False
        self.is_plain = False
        self.followers: tuple[int, ...] = ()


class Receive(NamedTuple):
    """A Recv: where its value goes, and positions of the segments that wait for it."""

    item: Item
    writes: tuple[int, ...]
    followers: tuple[int, ...]


class Straight:
    """A plan without control flow, cut.

    root       the templates that it is made from
    entries    what a step's entries are at first
    feeds      for each feed, where its value goes
    segments   the first of them, if any, that wait for nothing are `first`
    waits      for each segment: how many Recvs and other segments it waits for
    receives   the Recvs
    routes     {edge: position among the Recvs}
    ready      `first`, the next at the end
    size       how many segments and Recvs there are
    """

    __slots__ = (
        "entries",
        "feeds",
        "first",
        "plan",
        "ready",
        "receives",
        "root",
        "routes",
        "segments",
        "size",
        "waits",
    )

    def __init__(self, plan: Plan, root: StaticFrame) -> None:
        self.plan = plan
        self.root = root
        self.entries = root.entries[:]
        for edges, _, value in plan.constants:
            for _, entry, _ in edges:
                self.entries[entry] = value
        self.feeds = [tuple(entry for _, entry, _ in edges) for edges, _ in plan.feeds]
        self.segments: list[Segment] = []
        self.waits: list[int] = []
        self.first: list[int] = []
        self.receives: list[Receive] = []
        self.routes: dict[Route, int] = {}
        self.ready: list[int] = []
        self.size = 0

    def standing(self, entries: list[Any], finished: Collection[Item]) -> ExecutorState:
        """What an executor goes on from, where these items have run and left these entries."""
        state = ExecutorState(self.root)
        iteration = state.root
        iteration.entries = entries
        pending = iteration.pending
        _count_supplied(self.plan, pending)
        for item in finished:
            for edges in item.edges:
                for local, _, _ in edges:
                    pending[local] -= 1
            for local, _ in item.control or ():
                pending[local] -= 1
        rest = [item for segment in self.segments for item in segment.items if item not in finished]
        rest += [each.item for each in self.receives if each.item not in finished]
        for item in rest:
            if not pending[item.local]:
                heappush(state.ready, (item.order, iteration.serial, item, iteration))
        iteration.outstanding = len(state.ready)
        state.done = not state.ready
        return state


def straighten(plan: Plan, root: StaticFrame, sources: Sequence[Item]) -> Straight | None:
    """The plan, cut; None for one with control flow, functions, or kernels that wait or are heavy.

    root, sources   what its steps start from, variables looked up: see `handles`
    Costs as much as a step of it in the executor.
    """
    if len(plan.items) > _ITEMS_MAX or any(merges for _, merges in plan.feeds):
        return None
    if any(merges for _, merges, _ in plan.constants):
        return None
    known = set(plan.sources).difference(sources)
    if not all(item in known or _is_straight(item, plan, root) for item in plan.items):
        return None
    made = Straight(plan, root)
    waits = _run_dry(made, sources)
    if waits is None or len(waits) + len(known) != len(plan.items):
        return None
    _link(made, waits)
    return made


class Cut:
    """The straight form of one partition's plan, made when it is first asked for, and anew when need be."""

    __slots__ = ("_changes_left", "_failures_left", "_made", "_root")

    def __init__(self) -> None:
        self._made: Straight | None = None
        #: What it was made from: templates with the variables of a certain moment in them.
        self._root: StaticFrame | None = None
        self._changes_left = _CHANGES_MAX
        self._failures_left = _FAILURES_MAX

    def find(self, plan: Plan, resources: ResourceManager) -> Straight | None:
        """The plan's straight form as of now; None if it has none."""
        root, sources = plan.handles.start(plan.root, plan.sources, resources)
        if root is not self._root:
            self._root = root
            self._changes_left -= 1
            self._made = straighten(plan, root, sources) if self._changes_left > 0 else None
        return self._made if self._failures_left > 0 else None

    def failed(self) -> None:
        """A step had to go on in an executor: after a few of these, all do so at once."""
        self._failures_left -= 1


def _is_straight(item: Item, plan: Plan, root: StaticFrame) -> bool:
    if item.frame is not plan.root or item.times.was_heavy or item.control_merges is not None:
        return False
    if any(item.merge_edges or ()) or any(item.passing or ()) or item.node.has(GivesVariable):
        return False
    if item.kind == Kind.RECEIVE:
        return not root.pending[item.local]
    if item.kind == Kind.REGION and item.region.is_generator:
        return False
    return item.kind in _CODES or (item.kind == Kind.TRIGGER and not item.runs_dead)


def _count_supplied(plan: Plan, pending: list[int]) -> None:
    for edges, _ in plan.feeds:
        for local, _, _ in edges:
            pending[local] -= 1
    for edges, _, _ in plan.constants:
        for local, _, _ in edges:
            pending[local] -= 1


def _run_dry(made: Straight, sources: Sequence[Item]) -> dict[Item, int] | None:
    """{item: the Recvs that it waits for, as a number}, in an order in which they can run.

    None where two Recvs are of the same edge, which no plan has.
    """
    pending = made.root.pending[:]
    _count_supplied(made.plan, pending)
    tokens: TokenSets[Item] = TokenSets()
    #: {local of an item: what is before it}
    before: dict[int, list[Item]] = {}
    waits: dict[Item, int] = {}
    begin = {item for item in made.plan.items if not pending[item.local] and made.root.pending[item.local]}
    ready = [(item.order, item) for item in begin.union(sources)]
    heapify(ready)
    while ready:
        _, item = heappop(ready)
        waits[item] = 0
        for source in before.get(item.local, ()):
            waits[item] = joined(waits[item], tokens.behind(source) or 0)
        if item.kind == Kind.RECEIVE:
            route = _route_of(item.node.attrs)
            if route in made.routes:
                return None
            made.routes[route] = len(made.receives)
            made.receives.append(Receive(item, tuple(entry for _, entry, _ in item.edges[0]), ()))
        tokens.add(item, waits[item], ADDS if item.kind == Kind.RECEIVE else PASSES)
        for local, consumer in _consumers(item):
            before.setdefault(local, []).append(item)
            pending[local] -= 1
            if not pending[local]:
                heappush(ready, (consumer.order, consumer))
    return waits


def _consumers(item: Item) -> list[tuple[int, Item]]:
    found = [(local, consumer) for edges in item.edges for local, _, consumer in edges]
    return found + list(item.control or ())


def _link(made: Straight, tokens: dict[Item, int]) -> None:
    """Put the items into segments, each of those that wait for the same Recvs; note which wait for which."""
    places: dict[int, int] = {}
    of: dict[Item, int] = {}
    for item, awaited in tokens.items():
        if item.kind == Kind.RECEIVE:
            continue
        place = places.setdefault(awaited, len(places))
        if place == len(made.segments):
            made.segments.append(Segment())
        of[item] = place
        segment = made.segments[place]
        segment.items.append(item)
        if item.kind != Kind.TRIGGER:
            segment.operations.append(_operation(item))
            segment.computes = segment.computes or item.kind in (
                Kind.UNARY,
                Kind.BINARY,
                Kind.GENERAL,
                Kind.REGION,
            )
    for segment in made.segments:
        computing = [each.item for each in segment.operations if each.code in (KERNEL, REGION)]
        segment.is_plain = bool(computing) and all(map(_sees_inputs_only, computing))
    waits: list[set[Any]] = [set() for _ in made.segments]
    for item in tokens:
        for _, consumer in _consumers(item):
            place = of.get(consumer, -1)
            if place >= 0 and of.get(item) != place:
                waits[place].add(of.get(item, item))
    made.waits = [len(each) for each in waits]
    made.first = [place for place, each in enumerate(waits) if not each]
    for place, segment in enumerate(made.segments):
        segment.followers = tuple(other for other, each in enumerate(waits) if place in each)
    made.receives = [
        each._replace(followers=tuple(other for other, items in enumerate(waits) if each.item in items))
        for each in made.receives
    ]
    made.ready = made.first[::-1]
    made.size = len(made.segments) + len(made.receives)


def _sees_inputs_only(item: Item) -> bool:
    return item.kind != Kind.REGION and not item.takes_context


def _route_of(attrs: Mapping[str, AttrValue]) -> Route:
    """The edge of a Send or a Recv, as both ends name it."""
    device, edge, target = (
        text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else ""
        for text in (attrs["send_device"], attrs["tensor_name"], attrs["recv_device"])
    )
    incarnation = attrs["send_device_incarnation"]
    return device, incarnation if isinstance(incarnation, int) else 0, edge, target


def _operation(item: Item) -> Operation:
    outputs = [tuple(entry for _, entry, _ in edges) for edges in item.edges]
    is_single = item.single or item.kind in (Kind.FORWARD, Kind.CONSTANT)
    return Operation(
        _CODES[item.kind],
        item,
        item.start,
        item.stop,
        (outputs[0] if outputs else ()) if is_single else tuple(outputs),
        _route_of(item.node.attrs) if item.kind == Kind.SEND else None,
        item.kind == Kind.GENERAL and item.times.inline_bytes >= ALWAYS_INLINE,
    )


__all__ = [
    "CONSTANT",
    "FORWARD",
    "KERNEL",
    "REGION",
    "SEND",
    "Cut",
    "Operation",
    "Receive",
    "Segment",
    "Straight",
    "straighten",
]
