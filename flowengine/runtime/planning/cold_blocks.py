"""Plans in blocks: small plans without control flow, whose items wait for the same in groups.

A small partition of a step spends most of its time in what makes the state machine general: a count and a
place in the heap for every item, a callback for every Recv. Where no item is of a loop, a branch or a
function, it is known beforehand which items can run at the start, and which follow once certain tensors have
come: those with the same token sources (`passes/blocks/tokens.py`). So the plan is made anew once: its items
are Recvs and blocks, a block is a list of bound kernels (`list_body.py`), and a step counts what blocks wait
for.

The values lie where they would lie if each member were an item, in the entries of the root frame, and each
member has the edges that it would need. So a block can be *opened* at any member: what is left of it goes on
item by item, as it has to where a tensor is dead or a member turns out to be worth a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import Context
from copy import copy
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.ir.attrs import AttrValue
from flowengine.ir.graph import Node
from flowengine.ir.names import BLOCK
from flowengine.ir.traits import GivesVariable
from flowengine.passes.blocks.tokens import ADDS, PASSES, TokenSets, joined
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.items import NEVER, Edge, Item, Kind, StaticFrame
from flowengine.runtime.planning.plan import Plan, ReceiveEdge, ReceiveEdges
from flowengine.runtime.planning.signatures import ALWAYS_INLINE
from flowengine.transport.tensors.routes import Route

#: What a member is: its input passed on, sent, or given to a kernel; a region; a known value.
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
#: So often variables may be made or removed, or steps go on otherwise, before blocks are given up.
_CHANGES_MAX: Final = 64
_STOPS_MAX: Final = 8


class MemberDef(NamedTuple):
    """One member that does anything, as a body runs it.

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


class BlockMembers:
    """Items that can run as soon as the same tensors have come.

    members     in the order in which they run
    operations  those of them that do anything
    computes    whether a kernel is among them
    quiet       where NumPy warns of nothing, if all that compute are kernels that see only their inputs: that
                is cheaper to enter than to say so each time
    """

    __slots__ = ("computes", "members", "operations", "quiet")

    def __init__(self) -> None:
        self.members: list[Item] = []
        self.operations: list[MemberDef] = []
        self.computes = False
        self.quiet: Context | None = None

    def seal(self) -> None:
        """All members are known, with their edges."""
        self.operations = [_operation(item) for item in self.members if item.kind != Kind.TRIGGER]
        computing = [each.item for each in self.operations if each.code in (KERNEL, REGION)]
        self.computes = bool(computing)
        if computing and not any(item.kind == Kind.REGION or item.takes_context for item in computing):
            self.quiet = Context()
            self.quiet.run(np.seterr, all="ignore")


def in_blocks(plan: Plan, root: StaticFrame, sources: Sequence[Item]) -> Plan | None:
    """The plan in blocks; None for one with control flow, functions, or kernels that wait or are heavy.

    root, sources   what its steps start from, variables looked up: see `handles`
    Costs as much as a step of it.
    """
    if len(plan.items) > _ITEMS_MAX or plan.constants or any(merges for _, merges in plan.feeds):
        return None
    known = set(plan.sources).difference(sources)
    if not all(item in known or _is_straight(item, plan, root) for item in plan.items):
        return None
    waits = _run_dry(plan, root, sources)
    if len(waits) + len(known) != len(plan.items):
        return None
    return _BlockTables(plan, root, waits).make()


class BlockForm:
    """One partition's plan in blocks, made when it is first asked for, and anew when need be."""

    __slots__ = ("_changes_left", "_made", "_root", "_stops_left")

    def __init__(self) -> None:
        self._made: Plan | None = None
        #: What it was made from: templates with the variables of a certain moment in them.
        self._root: StaticFrame | None = None
        self._changes_left = _CHANGES_MAX
        self._stops_left = _STOPS_MAX

    def find(self, plan: Plan, resources: ResourceManager) -> Plan | None:
        """The plan in blocks as of now; None if it has no such form."""
        root, sources = plan.handles.start(plan.root, plan.sources, resources)
        if root is not self._root:
            self._root = root
            self._changes_left -= 1
            self._made = in_blocks(plan, root, sources) if self._changes_left > 0 else None
        return self._made if self._stops_left > 0 else None

    def stopped(self) -> None:
        """A step had to go on in an executor: after a few of these, all do so at once."""
        self._stops_left -= 1


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


def _run_dry(plan: Plan, root: StaticFrame, sources: Sequence[Item]) -> dict[Item, int]:
    """{item: the Recvs that it waits for, as a number}, in an order in which they can run."""
    pending = root.pending[:]
    for edges, _ in plan.feeds:
        for local, _, _ in edges:
            pending[local] -= 1
    tokens: TokenSets[Item] = TokenSets()
    #: {local of an item: what is before it}
    before: dict[int, list[Item]] = {}
    waits: dict[Item, int] = {}
    begin = {item for item in plan.items if not pending[item.local] and root.pending[item.local]}
    ready = [(item.order, item) for item in begin.union(sources)]
    heapify(ready)
    while ready:
        _, item = heappop(ready)
        waits[item] = 0
        for source in before.get(item.local, ()):
            waits[item] = joined(waits[item], tokens.behind(source) or 0)
        tokens.add(item, waits[item], ADDS if item.kind == Kind.RECEIVE else PASSES)
        for local, consumer in consumers_of(item):
            before.setdefault(local, []).append(item)
            pending[local] -= 1
            if not pending[local]:
                heappush(ready, (consumer.order, consumer))
    return waits


def consumers_of(item: Item) -> list[tuple[int, Item]]:
    """(local, consumer) at the end of each edge of an item that is not one to a Merge."""
    found = [(local, consumer) for edges in item.edges for local, _, consumer in edges]
    return found + list(item.control or ())


class _BlockTables:
    """The tables that only exist while a plan is put into blocks."""

    def __init__(self, plan: Plan, root: StaticFrame, waits: Mapping[Item, int]) -> None:
        self._plan = plan
        self._waits = waits
        self._frame = frame = StaticFrame(root.path, root.parent)
        frame.entries = root.entries[:]
        # Of a member nothing is counted, unless its block is opened. Nor of a Recv, which waits for nothing.
        frame.pending = [NEVER] * len(root.pending)
        #: {item of the plan: its copy here}, and {copy: its block}
        self._copies: dict[Item, Item] = {}
        self._block_of: dict[Item, Item] = {}
        #: {sources that are waited for: the block of those that do}
        self._blocks: dict[int, Item] = {}

    def make(self) -> Plan | None:
        for item, awaited in self._waits.items():
            self._add(item, awaited)
        for item, made in self._copies.items():
            self._connect(item, made)
        blocks = list(self._blocks.values())
        for block in blocks:
            self._seal(block)
        receives = [item for item in self._copies.values() if item.kind == Kind.RECEIVE]
        routes = {_route_of(item.node.attrs): number for number, item in enumerate(receives)}
        if len(routes) < len(receives):
            return None  # two of them would wait for one tensor
        plan, frame = self._plan, self._frame
        whole = Plan(
            root=frame,
            items=[*self._copies.values(), *blocks],
            sources=[block for block in blocks if not frame.pending[block.local]],
            # What is fed is there from the start: nothing waits for it.
            feeds=plan.feeds,
            constants=[],
            fetches=plan.fetches,
            graph=plan.graph,
            unfused=plan.unfused,
        )
        whole.times = plan.times
        waiting = tuple(self._awaited(item) for item in receives)
        whole.awaited = ReceiveEdges(routes, waiting, len(blocks) + len(receives))
        return whole

    def _add(self, item: Item, awaited: int) -> None:
        made = self._copies[item] = copy(item)
        made.frame = self._frame
        self._frame.items.append(made)
        if item.kind == Kind.RECEIVE:
            return
        block = self._blocks.get(awaited)
        if block is None:
            block = self._blocks[awaited] = self._new_block(item)
        block.block.members.append(made)
        self._block_of[made] = block

    def _new_block(self, first: Item) -> Item:
        """A block takes its place in the order of construction from the first of its members."""
        frame = self._frame
        block = Item(Node(f"_block/{first.name}", BLOCK), first.order, frame)
        block.kind = Kind.BLOCK
        block.block = BlockMembers()
        # Whoever runs it sees whether it is dead: then it is opened.
        block.runs_dead = True
        block.local = len(frame.pending)
        frame.pending.append(0)
        frame.items.append(block)
        return block

    def _connect(self, item: Item, made: Item) -> None:
        """Give an item the edges that it has here: to its own block's members, other blocks, fetches."""
        own = self._block_of.get(made)
        made.edges = tuple(tuple(self._edge(own, *edge) for edge in edges) for edges in item.edges)
        if item.control is not None:
            edges = (self._edge(own, local, -1, consumer) for local, consumer in item.control)
            made.control = tuple((local, target) for local, _, target in edges)

    def _edge(self, own: Item | None, local: int, entry: int, consumer: Item) -> Edge:
        target = self._copies.get(consumer)
        if target is None:
            return local, entry, consumer  # a fetch: nobody's input
        block = self._block_of[target]
        if block is own:
            return local, entry, target
        self._frame.pending[block.local] += 1
        return block.local, entry, block

    def _awaited(self, item: Item) -> ReceiveEdge:
        return ReceiveEdge(item, tuple(entry for _, entry, _ in item.edges[0]), tuple(self._followers(item)))

    def _followers(self, item: Item) -> Iterator[tuple[int, Item]]:
        """(local, block) of each edge from an item to a block."""
        for local, consumer in consumers_of(item):
            if self._frame.pending[local] < NEVER:
                yield local, consumer

    def _seal(self, block: Item) -> None:
        followers = [each for member in block.block.members for each in self._followers(member)]
        if followers:
            block.control = tuple(followers)
            block.has_rare_edges = True
        block.block.seal()


def _route_of(attrs: Mapping[str, AttrValue]) -> Route:
    """The edge of a Send or a Recv, as both ends name it."""
    device, edge, target = (
        text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else ""
        for text in (attrs["send_device"], attrs["tensor_name"], attrs["recv_device"])
    )
    incarnation = attrs["send_device_incarnation"]
    return device, incarnation if isinstance(incarnation, int) else 0, edge, target


def _operation(item: Item) -> MemberDef:
    outputs = [tuple(entry for _, entry, _ in edges) for edges in item.edges]
    is_single = item.single or item.kind in (Kind.FORWARD, Kind.CONSTANT)
    return MemberDef(
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
    "BlockForm",
    "BlockMembers",
    "MemberDef",
    "consumers_of",
    "in_blocks",
]
