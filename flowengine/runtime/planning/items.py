"""Items: a plan's units of scheduling, and the static frames that hold them.

Everything here is made once for a plan and never changes while steps run, except `Item.times`, which learns
from measurements (`learned.py`). Indices are local to a static frame, so that an iteration of a small loop
needs small tables however large the graph around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Node
from flowengine.runtime.planning.timings import ItemTimes
from flowengine.transport.tensors.routes import Route


class Kind:
    """The kinds of items for the executor. Plain integers: an enumeration compares three times slower."""

    #: A synchronous kernel of one or two plain tensor inputs and one output.
    UNARY: Final = 0
    BINARY: Final = 1
    #: Any other synchronous kernel.
    GENERAL: Final = 2
    SWITCH: Final = 3
    MERGE: Final = 4
    #: Identity and similar ops: the output is the input.
    FORWARD: Final = 5
    NEXT_ITERATION: Final = 6
    ENTER: Final = 7
    EXIT: Final = 8
    #: A coroutine.
    ASYNC: Final = 9
    #: Nothing to compute: NoOp, ControlTrigger.
    TRIGGER: Final = 10
    #: The output is known: a Const inside a loop, or one that waits for control inputs.
    CONSTANT: Final = 11
    #: A function call: its body runs as child items.
    CALL: Final = 12
    #: Many nodes compiled into one function.
    REGION: Final = 13
    #: To another partition of the step and from one; kinds from here on run dead, too.
    SEND: Final = 14
    RECEIVE: Final = 15


#: A count that is never counted down to zero.
NEVER: Final = 1 << 40

KIND_NAMES: Final = {number: name.lower() for name, number in vars(Kind).items() if isinstance(number, int)}


class Item:
    """One node of a plan.

    order          place in construction order: of ready items the lowest runs first
    local          index of its count in the frame's tables
    start, stop    its inputs in the frame's entries; a Merge has two: value and index
    edges          for each output slot: (local, entry, consumer) of each plain data edge
    merge_edges    for each output slot: (Merge, its input, whether the edge comes from an Enter)
    passing        for each output slot: the NextIterations and Exits that wait for nothing else, which
                   forward the value
                   on arrival instead of being scheduled
    control        (local, consumer) of each control edge to an item that is not a Merge
    control_merges the Merges that wait for it
    groups         lengths of the list arguments (None for a single one), or None if all are single
    dereference    positions of inputs whose producer gives a reference if this item needs the value
    times          its learned times
    """

    __slots__ = (
        "arity",
        "call",
        "control",
        "control_merges",
        "cost",
        "dereference",
        "edges",
        "follows",
        "frame",
        "function",
        "groups",
        "has_rare_edges",
        "is_constant_enter",
        "is_immediate",
        "is_product",
        "is_pure",
        "keeps_thread",
        "kind",
        "lends_memory",
        "local",
        "merge_edges",
        "merge_inputs",
        "mutates",
        "name",
        "node",
        "nowait",
        "num_outputs",
        "order",
        "passing",
        "region",
        "route",
        "runs_dead",
        "single",
        "start",
        "stop",
        "takes_context",
        "target_frame",
        "times",
        "value",
    )

    def __init__(self, node: Node, order: int, frame: StaticFrame) -> None:
        self.node = node
        self.name = node.name
        self.order = order
        self.frame = frame
        self.kind: int = Kind.GENERAL
        self.local = -1
        self.start = self.stop = 0
        self.arity = 0
        self.function: Callable[..., Any] = _unbound
        self.nowait: Callable[..., Any] | None = None
        self.takes_context = False
        self.cost: Callable[..., float] | None = None
        self.mutates = False
        #: Whether its kernel takes the same time for inputs of any size: it makes views of them.
        self.lends_memory = False
        self.groups: tuple[int | None, ...] | None = None
        self.dereference: tuple[int, ...] = ()
        #: Of a CALL: its maker, a `functions.Call`.
        self.call: Any = None
        #: Of a SEND or a RECEIVE: the edge of the step that it is an end of.
        self.route: Route = _NO_ROUTE
        #: Of a REGION: its `compiled_regions.CompiledRegion`.
        self.region: Any = None
        #: Whether its kernel is a BLAS call, which uses several cores by itself.
        self.is_product = False
        #: Of a REGION: whether its members only touch their inputs, so that a thread may run it.
        self.is_pure = False
        #: Of a REGION: whether a member needs the event loop's thread.
        self.keeps_thread = False
        self.times = ItemTimes(1 << 62)
        #: A control flow item that must follow a reference first.
        self.follows = False
        self.num_outputs = 0
        self.single = False
        #: A ControlTrigger runs even if its inputs are dead.
        self.runs_dead = False
        self.value: Any = None
        self.edges: Sequence[Sequence[Edge]] = ()
        self.merge_edges: tuple[tuple[MergeEdge, ...], ...] | None = None
        self.passing: tuple[tuple[Item, ...], ...] | None = None
        #: Of a Merge: it waits for no control input, so the first live value goes through at once.
        self.is_immediate = False
        #: Whether any of merge_edges, passing, control and control_merges
        #: is set: few items have such edges.
        self.has_rare_edges = False
        self.control: tuple[tuple[int, Item], ...] | None = None
        self.control_merges: tuple[Item, ...] | None = None
        #: Of a Merge: the number of its data inputs.
        self.merge_inputs = 0
        self.is_constant_enter = False
        #: Of an Enter: the frame that it enters.
        self.target_frame: StaticFrame | None = None

    def part(self) -> None:
        """Forget the other items, for good, because the plan is gone."""
        self.edges = ()
        self.merge_edges = self.passing = self.control = self.control_merges = None
        self.call = None

    def __repr__(self) -> str:
        return f"<Item {self.order} {self.node.op} '{self.name}'>"


def grouped(item: Item, args: list[Any]) -> list[Any]:
    """Return the arguments as the kernel takes them: list arguments as one tuple each."""
    if item.groups is None:
        return args
    result: list[Any] = []
    position = 0
    for length in item.groups:
        if length is None:
            result.append(args[position])
            position += 1
        else:
            result.append(tuple(args[position : position + length]))
            position += length
    return result


Edge: TypeAlias = tuple[int, int, Item]
MergeEdge: TypeAlias = tuple[Item, int, bool]


def _unbound(*_: Any) -> Any:
    raise AssertionError("an item ran before its kernel was bound")


_NO_ROUTE: Final[Route] = ("", 0, "", "")


class StaticFrame:
    """The facts of a frame that are known before any execution of it.

    pending    template: inputs awaited by each item, by local index
    entries    template: values of the inputs that are known beforehand
    enters     the number of Enters into it: all of them must have arrived before iteration 0 is done
    root_state the common state of all steps for a frame without a parent; see `frames.root_frame`
    start      the prepared start of steps with these templates; see `prepared_start.py`
    edge_start the same for steps whose Recvs wait at edges, all at once
    """

    __slots__ = (
        "edge_start",
        "enters",
        "entries",
        "items",
        "parallel_iterations",
        "parent",
        "path",
        "pending",
        "root_state",
        "start",
    )

    def __init__(self, path: FramePath, parent: StaticFrame | None) -> None:
        self.path = path
        self.parent = parent
        self.items: list[Item] = []
        self.pending: list[int] = []
        self.entries: list[Any] = []
        self.enters = 0
        self.parallel_iterations = 10
        self.root_state: Any = None
        self.start: Any = None
        self.edge_start: Any = None

    def part(self) -> None:
        """Forget the items, for good, because the plan is gone."""
        self.items = []
        self.root_state = self.start = self.edge_start = None
