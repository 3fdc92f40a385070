"""Make a plan of a pruned graph: items with bound kernels, counts of inputs, consumers and static frames.

Values known beforehand (a Const of the root frame) are written into the templates that every step copies, so
they cost nothing at run time. Time and memory are linear in nodes and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowengine.core.arrays import DEAD
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.frames import FramePath, assign_frames, describe_frame, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import ENTER_OPS, FETCH, MERGE_OPS, REFERENCE_CARRIERS, REGION, SWITCH_OPS
from flowengine.ir.traits import Constant, HandsOn
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime.planning.binding import Binder, Functions
from flowengine.runtime.planning.implied_controls import drop_implied_controls
from flowengine.runtime.planning.items import NEVER, Edge, Item, Kind, MergeEdge, StaticFrame
from flowengine.runtime.planning.plan import Plan

#: Nodes that are processed before planning may be interrupted: some 3 us each.
_NODES_A_PIECE: Final = 128


def make_plan(
    graph: NodeGraph,
    *,
    feeds: Sequence[OutputPort] = (),
    fetches: Sequence[OutputPort] = (),
    registry: KernelRegistry,
    functions: Functions | None = None,
    names: Sequence[OutputPort] | None = None,
) -> Plan:
    """Make a plan for one device. `graph` is pruned: every node of it runs.

    `registry` has the kernels of that device: see `runtime.hardware.kernels_on`.
    `names` are the names of fetches in errors, if passes have moved them.

    Raises InvalidArgumentError for a feed or fetch inside a loop, NotFoundError with `missing_op` for an
    op that is unknown or has no kernel, each naming the node.
    """
    return at_once(making_plan(*(graph, feeds, fetches), registry=registry, functions=functions, names=names))


def making_plan(
    graph: NodeGraph,
    feeds: Sequence[OutputPort],
    fetches: Sequence[OutputPort],
    *,
    registry: KernelRegistry,
    functions: Functions | None = None,
    names: Sequence[OutputPort] | None = None,
) -> Pieces[Plan]:
    """Make a plan as `make_plan` does, in pieces."""
    planner = _Planner(graph, feeds, fetches, Binder(registry, functions))
    yield
    plan = yield from planner.making()
    plan.caller = None if functions is None else functions.caller
    if names is not None:
        plan.fetches = [(*place[:2], name) for place, name in zip(plan.fetches, names, strict=True)]
    return plan


class _Planner:
    """The tables that only exist while a plan is made."""

    def __init__(
        self,
        graph: NodeGraph,
        feeds: Sequence[OutputPort],
        fetches: Sequence[OutputPort],
        binder: Binder,
    ) -> None:
        self.graph = graph
        self.feeds = {port: index for index, port in enumerate(feeds)}
        self.fetches = fetches
        self.binder = binder
        self.frame_of = assign_frames(graph, self.feeds)
        self.frames: dict[FramePath, StaticFrame] = {}
        self.items: dict[str, Item] = {}
        #: Items that only follow a reference, by a key that no node has.
        self.readers: dict[str, Item] = {}
        #: {name of a baked Const: its value}
        self.baked: dict[str, Any] = {}
        self.merges: dict[str, list[list[MergeEdge]]] = {}
        self.control: dict[str, list[tuple[int, Item]]] = {}
        self.control_merges: dict[str, list[Item]] = {}
        self.passing: dict[str, list[list[Item]]] = {}
        #: The nodes that return a reference.
        self.references = {node.name for node in graph for dtype in node.output_types if dtype.is_ref}
        #: {a node that only forwards its input: that input}
        self.handed_on = {
            node.name: node.inputs[0] for node in graph if node.has(HandsOn) and self._forwards(node)
        }
        #: The nodes that return a constant.
        self.consts = {node.name for node in graph if node.has(Constant)}
        self.fed_nodes = frozenset(port.node for port in feeds)
        #: Forwarding nodes and Consts whose consumers take the value from elsewhere.
        self.needed = self._nodes_that_must_run()
        self.feed_edges: list[tuple[list[Edge], list[MergeEdge]]] = [([], []) for _ in feeds]
        self.baked_merges: dict[str, list[MergeEdge]] = {}

    def making(self) -> Pieces[Plan]:
        root = self.frames[()] = StaticFrame((), None)
        for order, node in enumerate(self.graph):
            if node.op == REGION:
                yield from self.binder.compiling(node)
            self._add_item(node, order)
            if not order % _NODES_A_PIECE:
                yield
        for number, item in enumerate(self.items.values()):
            self._connect(item)
            if not number % _NODES_A_PIECE:
                yield
        places = [self._place_fetch(index, port) for index, port in enumerate(self.fetches)]
        self.items.update(self.readers)
        yield
        for number, (key, item) in enumerate(self.items.items()):
            self._seal(key, item)
            if not number % _NODES_A_PIECE:
                yield
        drop_implied_controls(self.items.values())
        return Plan(
            root=root,
            items=list(self.items.values()),
            sources=[item for item in root.items if not root.pending[item.local]],
            feeds=[(tuple(edges), tuple(merges)) for edges, merges in self.feed_edges],
            constants=[((), tuple(m), self.baked[name]) for name, m in self.baked_merges.items()],
            fetches=places,
            graph=self.graph,
            frames=self.frames,
        )

    # -- nodes that need not run ---------------------------------------------------------------------

    def _nodes_that_must_run(self) -> set[str]:
        """Return the Consts and Identities with a consumer that only an item can serve.

        A control edge needs an item to come from, a Merge needs a token to arrive. Any other consumer of
        a Const finds the value in its entries, and of an Identity takes the Identity's own input.
        """
        dropped = self._consts_without_item()
        needed = self.consts - dropped
        for node in self.graph:
            if node.name not in dropped:
                needed.update(node.control_inputs)
            for port in node.inputs:
                if port.node in dropped and port not in self.feeds:
                    controls = self.graph[port.node].control_inputs
                    needed.update(name for name in controls if not self._depends_on(node, name))
        return needed

    def _consts_without_item(self) -> set[str]:
        """Return the Consts whose every consumer can find the value in its entries."""
        consts = self.consts
        kept = {port.node for port in self.fetches if self._is_controlled_const(port)}
        for node in self.graph:
            kept.update(name for name in node.control_inputs if name in consts)
            if node.op in MERGE_OPS:
                kept.update(port.node for port in node.inputs)
        uncontrolled = {name for name in consts if not self.graph[name].control_inputs}
        return (consts - kept) | uncontrolled

    def _is_controlled_const(self, port: OutputPort) -> bool:
        return port.node in self.consts and bool(self.graph[port.node].control_inputs)

    def _forwards(self, node: Node) -> bool:
        """Return whether the node's output is its input, at the same time and as dead, without computing."""
        return (
            node.has(HandsOn)
            and not node.control_inputs
            and (node.output_types[0].is_ref or not self._is_reference(node.inputs[0]))
        )

    def _resolve(self, port: OutputPort) -> OutputPort:
        """Return the port that a value comes from, through Identities that wait for nothing else."""
        while (source := self.handed_on.get(port.node)) is not None and port not in self.feeds:
            port = source
        return port

    # -- items --------------------------------------------------------------------------------------

    def _add_item(self, node: Node, order: int) -> None:
        path = self.frame_of.get(node.name)
        if path is None:
            raise InvalidArgumentError(
                f"'{node.name}' can never run: it is part of a cycle that no Enter leads into"
            )
        if node.name in self.consts:
            self.baked[node.name] = self.binder.constant(node)
            if node.name not in self.needed:
                return
        elif node.name in self.handed_on and node.name not in self.needed:
            return
        frame = self._frame(path)
        item = Item(node, order, frame)
        item.num_outputs = len(node.output_types)
        self.items[node.name] = item
        self.binder.classify(item, self._frame)
        if item.kind == Kind.CONSTANT:
            item.value = self.baked[node.name]

    def _frame(self, path: FramePath) -> StaticFrame:
        frame = self.frames.get(path)
        if frame is None:
            frame = self.frames[path] = StaticFrame(path, self._frame(path[:-1]))
        return frame

    # -- edges --------------------------------------------------------------------------------------

    def _connect(self, item: Item) -> None:
        """Give the item its places in its frame's tables and its producers an edge to each."""
        frame = item.frame
        item.local = len(frame.pending)
        frame.items.append(item)
        frame.pending.append(0)
        item.start = len(frame.entries)
        if item.kind == Kind.MERGE:
            item.arity = 2
            frame.entries += [DEAD, None]
            frame.pending[item.local] = 1
            for slot, port in enumerate(item.node.inputs):
                self._connect_merge(item, slot, port)
        else:
            inputs = item.node.inputs
            item.arity = len(inputs)
            frame.entries += [None] * len(inputs)
            for slot, port in enumerate(inputs):
                self._connect_data(item, item.start + slot, port)
            if self.references:
                self._find_references(item)
        item.stop = item.start + item.arity
        if item.kind in (Kind.FORWARD, Kind.SWITCH, Kind.NEXT_ITERATION, Kind.EXIT, Kind.ENTER):
            item.follows = bool(item.dereference)
        for name in item.node.control_inputs:
            self._connect_control(item, name)
        if item.kind == Kind.MERGE:
            item.is_immediate = frame.pending[item.local] == 1

    def _find_references(self, item: Item) -> None:
        """Record the inputs that are given as references and needed as values."""
        given = [slot for slot, port in enumerate(item.node.inputs) if self._is_reference(port)]
        if not given:
            return
        wanted = item.node.input_types()
        item.dereference = tuple(slot for slot in given if not wanted[slot].is_ref)
        if item.dereference and item.kind in (Kind.UNARY, Kind.BINARY):
            item.kind = Kind.GENERAL

    def _connect_data(self, item: Item, entry: int, port: OutputPort) -> None:
        if port.node in self.handed_on:
            port = self._resolve(port)
        frame = item.frame
        feed = self.feeds.get(port) if port.node in self.fed_nodes else None
        if feed is not None:
            self.feed_edges[feed][0].append((item.local, entry, item))
        elif port.node in self.baked:
            frame.entries[entry] = self.baked[port.node]
            self._inherit_control(item, self.graph[port.node])
            return
        elif item.kind in (Kind.NEXT_ITERATION, Kind.EXIT) and self._only_passes(item, port):
            self._outputs(self.passing, port).append(item)
        else:
            self._edges(port).append((item.local, entry, item))
        frame.pending[item.local] += 1

    def _only_passes(self, item: Item, port: OutputPort) -> bool:
        """Return whether a NextIteration or Exit waits for one value only: then it forwards it on arrival."""
        return not item.node.control_inputs and (
            item.node.op in REFERENCE_CARRIERS or not self._is_reference(port)
        )

    def _inherit_control(self, item: Item, constant: Node) -> None:
        """Apply a Const's control inputs to its consumer: the item waits for them, and dies with them."""
        for name in constant.control_inputs:
            if not self._depends_on(item.node, name):
                self._connect_control(item, name)

    def _depends_on(self, node: Node, name: str) -> bool:
        """Return whether a node has an input that is as late and as dead as control input `name` would be."""
        if name in node.control_inputs:
            return True
        source = self.graph[name]
        origin = self._resolve(OutputPort(name, 0)) if self._forwards(source) else None
        for port in node.inputs:
            if port.node == name and source.op not in SWITCH_OPS and port not in self.feeds:
                return True
            if origin is not None and self._resolve(port) == origin:
                return True
        return False

    def _connect_merge(self, item: Item, slot: int, port: OutputPort) -> None:
        # A fed node need not be in the graph any more.
        from_enter = port not in self.feeds and self.graph[port.node].op in ENTER_OPS
        port = self._resolve(port)
        feed = self.feeds.get(port)
        if feed is not None:
            self.feed_edges[feed][1].append((item, slot, False))
        elif port.node in self.baked and port.node not in self.items:
            self.baked_merges.setdefault(port.node, []).append((item, slot, False))
        else:
            if item.node.op not in REFERENCE_CARRIERS and self._is_reference(port):
                key = f"{port} (input {slot} of {item.name})"
                self._follow(key, port, item.frame)
                self.merges[key] = [[(item, slot, from_enter)]]
            else:
                self._outputs(self.merges, port).append((item, slot, from_enter))

    def _edges(self, port: OutputPort) -> list[Edge]:
        """Return the list that collects the plain edges out of a port; `_seal` makes tuples of them."""
        item = self.items[port.node]
        if not item.edges:
            item.edges = [[] for _ in range(item.num_outputs)]
        collected = item.edges[port.slot]
        assert isinstance(collected, list)
        return collected

    def _outputs(self, table: dict[str, list[list[Any]]], port: OutputPort) -> list[Any]:
        slots = table.get(port.node)
        if slots is None:
            count = self.items[port.node].num_outputs
            slots = table[port.node] = [[] for _ in range(count)]
        return slots[port.slot]

    def _connect_control(self, item: Item, name: str) -> None:
        if name not in self.items:
            return  # a Const that waits for nothing: it has always run
        item.frame.pending[item.local] += 1
        if item.kind == Kind.MERGE:
            self.control_merges.setdefault(name, []).append(item)
        else:
            self.control.setdefault(name, []).append((item.local, item))

    def _is_reference(self, port: OutputPort) -> bool:
        if port.node not in self.references or port in self.feeds:
            return False
        types = self.graph[port.node].output_types
        return port.slot < len(types) and types[port.slot].is_ref

    # -- fetches ------------------------------------------------------------------------------------

    def _place_fetch(self, index: int, port: OutputPort) -> tuple[int, int, OutputPort]:
        """Return a place among the root's entries for the fetched value."""
        root = self.frames[()]
        local, entry = len(root.pending), len(root.entries)
        root.pending.append(NEVER)  # it is not an item and never runs
        root.entries.append(DEAD)
        origin = self._resolve(port)
        if origin in self.feeds:
            self.feed_edges[self.feeds[origin]][0].append((local, entry, _nobody(root)))
            return local, entry, port
        if origin.node in self.baked and origin.node not in self.items:
            root.entries[entry] = self.baked[origin.node]
            return local, entry, port
        producer = self.items[origin.node]
        delivered = output_frame(producer.node, producer.frame.path)
        if delivered:
            raise InvalidArgumentError(
                f"'{port}' cannot be fetched: it belongs to {describe_frame(delivered)}, "
                "where it has one value an iteration; fetch what an Exit of the loop gives"
            )
        if not self._is_reference(origin):
            self._edges(origin).append((local, entry, _nobody(root)))
            return local, entry, port
        reader = self._follow(f"{port} (fetch {index})", origin, root)
        reader.edges = (((local, entry, _nobody(root)),),)
        return local, entry, port

    def _follow(self, key: str, port: OutputPort, frame: StaticFrame) -> Item:
        """Add an item that follows a reference, for a consumer that is not one that could.

        A reference is followed when its consumer runs. `key` is the key of the item.
        """
        reader = Item(self.graph[port.node], len(self.graph) + len(self.readers), frame)
        reader.kind = Kind.FORWARD
        reader.num_outputs = 1
        reader.arity = 1
        reader.dereference = (0,)
        reader.follows = True
        reader.local, reader.start = len(frame.pending), len(frame.entries)
        reader.stop = reader.start + 1
        frame.pending.append(1)
        frame.entries.append(None)
        frame.items.append(reader)
        self.readers[key] = reader
        self._edges(port).append((reader.local, reader.start, reader))
        return reader

    def _seal(self, key: str, item: Item) -> None:
        """Freeze the edges that were collected for the item of this key."""
        edges = item.edges
        item.edges = tuple(map(tuple, edges)) if edges else ((),) * max(item.num_outputs, 1)
        merges = self.merges.get(key)
        item.merge_edges = None if merges is None else tuple(map(tuple, merges))
        passing = self.passing.get(key)
        item.passing = None if passing is None else tuple(map(tuple, passing))
        control = self.control.get(key)
        item.control = None if control is None else tuple(control)
        control_merges = self.control_merges.get(key)
        item.control_merges = None if control_merges is None else tuple(control_merges)
        item.has_rare_edges = bool(merges or passing or control or control_merges)
        item.single = item.num_outputs == 1


def _nobody(root: StaticFrame) -> Item:
    """Return the consumer that stands for a fetch's place: its count never reaches zero."""
    return Item(_NOBODY, 1 << 40, root)


_NOBODY: Final = Node("", FETCH)


__all__ = ["make_plan"]
