"""Providers: libraries that take over parts of a graph, and the only way in which they do.

A provider has kernels for single nodes, which stand in front of ours (`registry`), and *claims*. A claim
looks at a graph, takes connected nodes of it, and puts one node in their place whose attribute `program` is
a body: what the library, or NumPy block by block, computes for all of them.

    Conv2D -> BiasAdd -> Relu        ->  _FusedContraction, program = Contraction{Conv2D, BiasAdd, Relu}

A claim says whether it keeps the bits. One that does may go by what a plan has measured of times, and is made
when the plan is hot. One that does not would give other values hot than cold, so it is made of every plan,
from what every process sees alike: ops, attributes, known shapes and the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.opdef import OpDef

if TYPE_CHECKING:
    from flowengine.devices.device import Device
    from flowengine.kernels.registry import KernelRegistry

#: Microseconds: what takes less is not over tensors so large that a pass over memory matters.
LARGE_MICROSECONDS: Final = 15.0


@runtime_checkable
class ClaimedBody(Protocol):
    """The `program` of a claimed node."""

    #: Whether the nodes that it stands for share one pass over memory, so that all take about what one took.
    is_one_pass: ClassVar[bool]

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """The facts that a claim may ask for, beside the graph.

    feeds, fetches, targets   of the request: ports that the caller supplies, ports and nodes that it wants
    kernels   what computes each node that nobody claims
    waits     (graph) -> {node: what it waits for}: nodes of which one waits for more are never claimed as one
    large     nodes over tensors so large that a pass over memory matters; none before anything was measured
    costs     {node: microseconds} of what was measured to take long
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
        """Nodes that the caller sees: they stay what they are."""
        return frozenset(port.node for port in (*self.fetches, *self.feeds)) | frozenset(self.targets)


@dataclass(frozen=True, slots=True)
class Claim:
    """One kind of part that a provider takes over.

    name         as `explain` prints it
    take         the graph with such parts as one node each; the same graph if there is none
    keeps_bits   whether every value is that of the nodes by themselves, to the last bit; signs of zeros, and
                 what comes of infinities, aside
    option       the setting of a request that turns it off: "fuse_contractions" or "fuse_elementwise"
    """

    name: str
    take: Callable[[NodeGraph, ClaimContext], NodeGraph]
    keeps_bits: bool
    option: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A library's claims, in the order in which they are made.

    arrange   puts nodes into an order that suits the library, once all have claimed; no value changes
    kernels   of a device's own provider: the kernels of single nodes that it has for the device, which stand
              in front of those over the device's arrays (`Kernel.maker`); None for none
    left_out  what of its libraries was wanted on a device and is not computed so, a text each with the
              reason; None for a provider that computes all it offers
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
    """A node that gives what the last of the members gives, under its name, with a program."""
    root = members[-1]
    # As the takers declare them: a variable's value, where its reference comes in.
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
