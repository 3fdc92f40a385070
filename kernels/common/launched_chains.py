"""Chains of elementwise nodes that a device computes in one launch.

    Mul -> Add -> Relu on a GPU  ->  _FusedElementwise, program = LaunchedChain{Mul, Add, Relu}

A launch costs the host about as much as a small kernel costs the device, so nodes join whatever the size of
their tensors. A group is grown from its last node towards the inputs; a node joins if nothing but the group
takes its result. The last node's name stays. Which nodes can be members, and what computes them, is the
device's: a `ChainLauncher`. It gives the bits that its nodes have by themselves. Linear time.

A group has one result. What cuts groups in the training steps of AlexNet and GoogLeNet are activations that
their gradients want again, behind all layers between: groups of several results would save no launch there.

    PROVIDER = Provider("mine", (launch_claim(MyLauncher()),))      # in a module `claims`; see `provider.py`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from flowengine.devices.device import Device
from flowengine.ir import traverse
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.kernels.provider import Claim, ClaimContext, MemberRun, claimed_node, outside, run_alone
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.ops.internal import FUSED_ELEMENTWISE

#: Values that lie between steps are in registers: of so many most are over before the last one begins.
_MEMBERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """One node of a chain.

    kernel    that of the node by itself, for any array module
    sources   what it takes: numbers of inputs, or behind those of the results of earlier steps
    """

    node: Node
    kernel: Kernel
    sources: tuple[int, ...]


class ChainLauncher(Protocol):
    """A launcher of chains on devices of one kind."""

    def takes(self, node: Node) -> bool:
        """Whether a node of one output can be a step: elementwise, with the bits that it has by itself, and
        nothing to refuse."""

    def launching(self, device: Device, steps: Sequence[LaunchedStep]) -> Callable[..., Any]:
        """Return the function that computes the last result from the chain's inputs in one launch.

        It takes the inputs as one sequence.

        It is called as a kernel is, with arrays of the device and within its `computing()`. An error of
        shapes is raised at once, as the error of the step (`provider.located`).
        """


class LaunchedChain:
    """Steps after one another, computed by one launch; the last one's result is the chain's."""

    is_one_pass: ClassVar[bool] = True

    def __init__(
        self,
        steps: Sequence[LaunchedStep],
        run: Callable[..., Any],
        xp: Any,
    ) -> None:
        """`xp`: the array module of the device, for steps by themselves."""
        self.steps = tuple(steps)
        #: (inputs) -> result
        self.run = run
        self._xp = xp

    def __repr__(self) -> str:
        return " -> ".join(step.node.op for step in self.steps)

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it replaces."""
        return frozenset(step.node.name for step in self.steps)

    def one_by_one(self, values: Sequence[Any]) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        known = list(values)
        for step in self.steps:
            arguments = grouped([known[number] for number in step.sources], step.node)
            function = step.kernel.over(self._xp).bind(step.node)
            found = run_alone(step.node, function, arguments)
            known.append(found.outputs[0])
            yield found


def grouped(values: Sequence[Any], node: Node) -> list[Any]:
    """Return the inputs of a node as its kernel takes them: those of a list as one tuple."""
    assert node.op_def is not None
    rest = iter(values)
    found: list[Any] = []
    for argument in node.op_def.inputs:
        taken = tuple(next(rest) for _ in argument.types(node.attrs))
        found.append(taken if argument.is_list else taken[0])
    return found


def launch_claim(launcher: ChainLauncher) -> Claim:
    """The claim of a provider whose devices compute chains."""
    return Claim(
        "fuse_launches",
        partial(_fuse_launches, launcher=launcher),
        keeps_bits=True,
        option="fuse_elementwise",
    )


def _fuse_launches(graph: NodeGraph, context: ClaimContext, *, launcher: ChainLauncher) -> NodeGraph:
    """The graph with groups of two or more elementwise nodes as one; the same graph if there is none."""
    device = context.kernels.hardware
    if device is None:
        return graph
    groups = _LaunchGroups(graph, context, launcher)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for name in reversed(traverse.topological_order(graph.nodes)):
        if name in dropped or groups.kernel(graph[name]) is None:
            continue
        members = groups.grown(graph[name])
        if len(members) > 1:
            made[name] = groups.fused(members, device)
            dropped.update(node.name for node in members[:-1])
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph if node.name not in dropped)


class _LaunchGroups:
    """The nodes of a graph that one launch may compute, for one device."""

    def __init__(self, graph: NodeGraph, context: ClaimContext, launcher: ChainLauncher) -> None:
        self._graph = graph
        self._kept = context.kept
        self._kernels: KernelRegistry = context.kernels
        self._launcher = launcher
        #: {node: how many edges lead from it}; control edges count twice, so that they keep it.
        self._edges: dict[str, int] = {}
        for node in graph:
            for port in node.inputs:
                self._edges[port.node] = self._edges.get(port.node, 0) + 1
            for name in node.control_inputs:
                self._edges[name] = self._edges.get(name, 0) + 2
        self._found: dict[str, Kernel | None] = {}

    def kernel(self, node: Node) -> Kernel | None:
        """The kernel of a node that can be a member, for any array module."""
        if node.name not in self._found:
            self._found[node.name] = self._plain_kernel(node)
        return self._found[node.name]

    def _plain_kernel(self, node: Node) -> Kernel | None:
        types = (*node.input_types(), *node.output_types) if node.op_def is not None else ()
        if len(node.output_types) != 1 or any(dtype.is_ref for dtype in types):
            return None
        if not self._launcher.takes(node):
            return None
        kernel = self._kernels.unbound(node)
        if kernel is None or kernel.is_foreign or kernel.is_async or kernel.takes_context or kernel.looks:
            return None
        return None if kernel.host or kernel.maker is not None else kernel

    def grown(self, root: Node) -> list[Node]:
        """The members of a group that ends in `root`, in the order in which they run."""
        members = [root]
        taken = {root.name: 0}
        # How often members take each node that is none, so far.
        uses: dict[str, int] = {}
        for member in members:
            for port in member.inputs:
                uses[port.node] = uses.get(port.node, 0) + 1
                node = self._graph.nodes.get(port.node)
                if (
                    node is not None
                    and len(members) < _MEMBERS_MAX
                    and node.name not in taken
                    and node.name not in self._kept
                    and node.device == root.device
                    and uses[port.node] == self._edges.get(node.name, 0)
                    and self.kernel(node) is not None
                ):
                    taken[node.name] = len(members)
                    members.append(node)
        # A node is found behind all that take its result: backwards every input comes first.
        return members[::-1]

    def fused(self, members: Sequence[Node], device: Device) -> Node:
        """Return the node that replaces a group, under the name of its last node."""
        inputs = outside(members)
        places = {port: i for i, port in enumerate(inputs)}
        steps = []
        for node in members:
            kernel = self.kernel(node)
            assert kernel is not None
            steps.append(LaunchedStep(node, kernel, tuple(places[port] for port in node.inputs)))
            places[OutputPort(node.name, 0)] = len(inputs) + len(steps) - 1
        program = LaunchedChain(steps, self._launcher.launching(device, steps), device.xp)
        return claimed_node(FUSED_ELEMENTWISE, members, inputs, program)


__all__ = ["ChainLauncher", "LaunchedChain", "LaunchedStep", "grouped", "launch_claim"]
