"""Providers: libraries that take over parts of a graph, and their interface.

A provider has kernels for single nodes, which come before ours (`registry`), and *claims*. A claim searches a
graph for connected nodes and replaces them by one node. Its attribute `program` is a body, by which the
library, or NumPy block by block, computes all of them.

    Conv2D -> BiasAdd -> Relu        ->  _FusedContraction, program = Contraction{Conv2D, BiasAdd, Relu}

A claim declares whether it keeps the bits. If it does, it may use measured times, and applies to hot plans.
If it does not, a hot plan would compute other values than a cold one, so it applies to every plan, and
depends only on facts that are the same in every process: ops, attributes, known shapes and the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.opdef import OpDef

if TYPE_CHECKING:
    from flowengine.devices.device import Device
    from flowengine.kernels.registry import KernelRegistry

#: Microseconds: a node that takes less has small tensors, for which a pass over memory does not matter.
LARGE_MICROSECONDS: Final = 15.0


@runtime_checkable
class ClaimedBody(Protocol):
    """The `program` of a claimed node."""

    #: Whether its nodes share one pass over memory, so that all of them take about the time of one.
    is_one_pass: ClassVar[bool]

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it computes."""


class MemberRun(NamedTuple):
    """A run of one member of a claim by itself.

    inputs    as they were before it ran; of a variable, its value
    outputs   its results; a variable that it changed
    """

    node: Node
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


class MemberwiseBody(Protocol):
    """A `program` that can run its members by themselves: a guard names the one that makes a bad value."""

    def one_by_one(self, *arguments: Any) -> Iterator[MemberRun]:
        """Run the members in order, each by its own kernel.

        arguments   those of the claim's kernel; variables among them are changed
        """


def run_alone(node: Node, function: Callable[..., Any], arguments: Sequence[Any]) -> MemberRun:
    """Run a member by its bound kernel. An error of the engine is that of the member."""
    flat = [each for value in arguments for each in (value if isinstance(value, tuple) else (value,))]
    inputs = tuple([each.read() if hasattr(each, "is_initialized") else each for each in flat])
    try:
        made = function(*arguments)
    except OpError as error:
        raise located(error, node) from None
    return MemberRun(node, inputs, made if isinstance(made, tuple) else (made,))


def every_member(body: ClaimedBody) -> frozenset[str]:
    """Return the names of the nodes that a claim computes, those of the claims among its members too."""
    inner: Sequence[ClaimedBody] = getattr(body, "inner", ())
    return body.names.union(*map(every_member, inner))


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """The facts that a claim may use, beside the graph.

    feeds, fetches, targets   of the request: ports that the caller supplies, ports and nodes that it requests
    kernels   the kernels of nodes without a claim
    waits     (graph) -> {node: a key of the events for which it waits}: a claim takes nodes of one key only
    large     nodes with tensors so large that a pass over memory matters; empty before times are measured
    costs     {node: microseconds} of the nodes that were measured to take long
    """

    feeds: tuple[OutputPort, ...]
    fetches: tuple[OutputPort, ...]
    targets: tuple[str, ...]
    kernels: KernelRegistry
    waits: Callable[[NodeGraph], Mapping[str, Hashable]]
    large: frozenset[str] = frozenset()
    costs: Mapping[str, float] = field(default_factory=dict)

    @property
    def kept(self) -> frozenset[str]:
        """The nodes that the caller sees, which no claim may replace."""
        return frozenset(port.node for port in (*self.fetches, *self.feeds)) | frozenset(self.targets)


@dataclass(frozen=True, slots=True)
class Claim:
    """One kind of part that a provider takes over.

    name         its name in the output of `explain`
    take         returns the graph with each such part as one node; the same graph without such a part
    keeps_bits   whether every value equals that of the single nodes to the last bit, except for signs of
                 zeros and for values computed from infinities
    option       the setting of a request that turns it off: "fuse_contractions" or "fuse_elementwise"
    """

    name: str
    take: Callable[[NodeGraph, ClaimContext], NodeGraph]
    keeps_bits: bool
    option: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A library's claims, in the order in which they are made.

    arrange   orders nodes to suit the library, after all claims; no value changes
    kernels   of a device's own provider: its kernels of single nodes for the device, which come before those
              over the device's arrays (`Kernel.maker`); None for none
    left_out  lists the requested libraries that the device does not use, a text with the reason for each;
              None for a provider that always computes by all of its libraries
    """

    name: str
    claims: tuple[Claim, ...]
    arrange: Callable[[NodeGraph], NodeGraph] | None = None
    kernels: Callable[[Device], KernelRegistry] | None = None
    left_out: Callable[[Device], Sequence[str]] | None = None


def outside(members: Sequence[Node]) -> tuple[OutputPort, ...]:
    """Return the outputs that members take from others, each once, in the order in which they are needed."""
    own = {node.name for node in members}
    return tuple(dict.fromkeys(p for node in members for p in node.inputs if p.node not in own))


def claimed_node(
    op_def: OpDef, members: Sequence[Node], inputs: tuple[OutputPort, ...], program: object
) -> Node:
    """A node with the name, the output and the type of the last member, and a program."""
    root = members[-1]
    # The types that the members declare: that of a variable's value, if its reference comes in.
    types = {port: dtype for node in members for port, dtype in _typed_inputs(node)}
    return Node(
        name=root.name,
        op=op_def.name,
        inputs=inputs,
        control_inputs=tuple(dict.fromkeys(c for node in members for c in node.control_inputs)),
        attrs={
            "Tin": tuple(types[port] for port in inputs),
            "T": root.output_types[0],
            "program": program,
        },
        device=root.device,
        op_def=op_def,
        output_types=root.output_types[:1],
        creation_site=root.creation_site,
    )


def _typed_inputs(node: Node) -> Iterator[tuple[OutputPort, DType]]:
    assert node.op_def is not None
    types = [dtype for arg in node.op_def.inputs for dtype in arg.types(node.attrs)]
    return zip(node.inputs, types, strict=True)


def located(error: OpError, node: Node) -> OpError:
    """The error, told to be of a node that a fused one stands for."""
    return error.locate(
        node_name=node.name,
        op_type=node.op,
        device=node.device,
        creation_site=node.creation_site or None,
    )


def program_of(attrs: Mapping[str, Any]) -> ClaimedBody | None:
    """The body that a node's attributes hold; None for a node that stands for itself."""
    program = attrs.get("program")
    # Few nodes have one, and looking at a protocol takes longer than all else here.
    return program if program is not None and isinstance(program, ClaimedBody) else None
