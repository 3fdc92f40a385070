"""A bias, and maybe a Relu, computed along with the convolution before them: cuDNN's epilogue.

    Conv2D -> BiasAdd -> Relu  ->  _FusedContraction, program = CardEpilogue{Conv2D, BiasAdd, Relu}

What lies between the nodes stays in the type of the sums and is not rounded, and another engine may compute
it: bits change, so the claim is made of every plan. Nothing else may take what lies between. By which way a
node is computed is found by shapes, when its plan is made: in one call, or, where cuDNN has but its generic
engine for that, by a usual convolution and one launch for what follows, with the bits of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.common.windows import Windows, is_channels_first
from flowengine.kernels.cuda.bias import bias_add
from flowengine.kernels.cuda.convolutions import CardConvolutions
from flowengine.kernels.cuda.overrides.convolutions import convolutions_of
from flowengine.kernels.cuda.serving import PROVIDER_NAME, dense, is_compiled_here
from flowengine.kernels.cuda.session_launcher import SessionLauncher, modules_of
from flowengine.kernels.nn.convolution import convolve
from flowengine.kernels.provider import ClaimContext, MemberRun, claimed_node, located, outside, run_alone
from flowengine.ops.internal import FUSED_CONTRACTION

_BIASES: Final = frozenset({"BiasAdd", "BiasAddV1"})


class _CudaConvolution:
    """Keeps `conv_products.Convolver` forward: with what follows the convolution, where cuDNN has that.

    is_whole   whether the last call was so
    """

    def __init__(self, convolutions: CardConvolutions, bias: Array, has_relu: bool) -> None:
        self._convolutions = convolutions
        self._bias = bias
        self._has_relu = has_relu
        self.is_whole = False

    def forward(self, x: Array, filters: Array, geometry: Windows) -> Any:
        """See `Convolver`."""
        made = self._convolutions.with_epilogue(x, filters, self._bias, geometry, has_relu=self._has_relu)
        self.is_whole = made is not None
        return self._convolutions.forward(x, filters, geometry) if made is None else made


class CardEpilogue:
    """A convolution and what follows it, in one call of cuDNN where it has a plan for that."""

    is_one_pass: ClassVar[bool] = True

    def __init__(
        self, launcher: SessionLauncher, nodes: Sequence[Node], functions: Sequence[Callable[..., Any]]
    ) -> None:
        """
        launcher    of the family `bias`
        nodes       the convolution, the bias, maybe the Relu
        functions   what computes the nodes behind the convolution, for values that do not fit
        """
        self._launcher = launcher
        self._nodes = tuple(nodes)
        self._functions = tuple(functions)
        self._activation = "Relu" if len(nodes) > 2 else None
        self._is_first = is_channels_first(nodes[0].attrs.get("data_format", b"NHWC"))

    def __repr__(self) -> str:
        return " -> ".join(node.op for node in self._nodes)

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(node.name for node in self._nodes)

    def run(self, inputs: Sequence[Any]) -> Any:
        """The last node's result for x, filters and bias. An error is told as that of its node."""
        x, filters, bias = inputs
        launcher, products = self._launcher, convolutions_of(self._launcher)
        fits = bias.shape == filters.shape[-1:] and self._is_one_group(x, filters)
        joined = (
            _CudaConvolution(products, dense(launcher, bias), self._activation is not None) if fits else None
        )
        try:
            y = convolve(launcher.xp, joined or products, x, filters, node=self._nodes[0])
        except OpError as error:
            raise located(error, self._nodes[0]) from None
        if joined is not None and joined.is_whole:
            return y
        if bias.shape == filters.shape[-1:]:
            whole = dense(launcher, y)
            return bias_add(
                launcher, whole, dense(launcher, bias), self._activation, channels_first=self._is_first
            )
        return self._behind(y, bias)

    def one_by_one(self, inputs: Sequence[Any]) -> Iterator[MemberRun]:
        """See `MemberwiseBody`."""
        x, filters, bias = inputs
        products = convolutions_of(self._launcher)
        node = self._nodes[0]
        found = run_alone(
            node,
            lambda x, filters: convolve(self._launcher.xp, products, x, filters, node=node),
            [x, filters],
        )
        yield found
        for node, function in zip(self._nodes[1:], self._functions, strict=True):
            arguments = [*found.outputs, bias] if node is self._nodes[1] else found.outputs
            found = run_alone(node, function, arguments)
            yield found

    def _is_one_group(self, x: Array, filters: Array) -> bool:
        """Whether all filters see all channels: of parts each would have its own part of the bias."""
        return x.ndim == filters.ndim == 4 and x.shape[1 if self._is_first else -1] == filters.shape[-2]

    def _behind(self, y: Array, bias: Array) -> Any:
        """Run the nodes behind the convolution, and raise an error as that of its node."""
        made = y
        for node, function in zip(self._nodes[1:], self._functions, strict=True):
            try:
                made = function(made, bias) if node is self._nodes[1] else function(made)
            except OpError as error:
                raise located(error, node) from None
        return made


def join_epilogues(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with convolutions that take bias and Relu along; the same graph if there is none."""
    device = context.kernels.hardware
    if not isinstance(device, CudaDevice) or not is_compiled_here():
        return graph
    takers: dict[str, list[Node]] = {}
    for node in graph:
        for name in dict.fromkeys([port.node for port in node.inputs] + list(node.control_inputs)):
            takers.setdefault(name, []).append(node)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for node in graph:
        if node.op != "Conv2D":
            continue
        members = _members(node, takers, context)
        functions = _functions(members[1:], device, context) if members else None
        if functions is None:
            continue
        program = CardEpilogue(modules_of(device).launcher("bias"), members, functions)
        made[members[-1].name] = claimed_node(FUSED_CONTRACTION, members, outside(members), program)
        dropped.update(member.name for member in members[:-1])
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph if node.name not in dropped)


def _members(product: Node, takers: dict[str, list[Node]], context: ClaimContext) -> tuple[Node, ...]:
    """A convolution by cuDNN, the bias and maybe the Relu that alone take it; () where there is no bias."""
    kernel = context.kernels.serving(product)
    if kernel is None or kernel.provider != PROVIDER_NAME:
        return ()
    bias = _only_taker(product, takers, context, _BIASES)
    if bias is None or bias.inputs[1].node == product.name:
        return ()
    formats = [node.attrs.get("data_format", b"NHWC") for node in (product, bias)]
    if is_channels_first(formats[0]) != is_channels_first(formats[1]):
        return ()
    last = _only_taker(bias, takers, context, frozenset({"Relu"}))
    return (product, bias) if last is None else (product, bias, last)


def _only_taker(
    node: Node, takers: dict[str, list[Node]], context: ClaimContext, ops: frozenset[str]
) -> Node | None:
    """The node of these ops that alone takes another one's result, and runs as soon as that is there."""
    behind = takers.get(node.name, [])
    if len(behind) != 1 or node.name in context.kept:
        return None
    (found,) = behind
    takes = [port.node for port in found.inputs]
    belongs = found.op in ops and takes[:1] == [node.name] and takes.count(node.name) == 1
    return found if belongs and not found.control_inputs and found.device == node.device else None


def _functions(
    nodes: Sequence[Node], device: CudaDevice, context: ClaimContext
) -> list[Callable[..., Any]] | None:
    """Return the functions that compute nodes over CuPy's arrays; None if one is computed elsewhere."""
    functions = []
    for node in nodes:
        kernel = context.kernels.unbound(node)
        if kernel is None:
            return None
        functions.append(kernel.over(device.xp).bind(node))
    return functions


__all__ = ["CardEpilogue", "join_epilogues"]
