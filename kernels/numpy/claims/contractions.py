"""Fuse a product with what follows it: they work in place, block by block, on its result, or with it.

    Conv2D -> BiasAdd -> Relu         ->  _FusedContraction{Conv2D, then BiasAdd and Relu in place}
    Conv2D -> FusedBatchNorm -> Relu  ->  _FusedContraction{all in one call}, where a provider can

A convolution, matrix product or normalisation that was seen to be heavy, and whose result only the group
takes, needs one tensor instead of three. Its own kernel computes it, a provider's where there is one; the
elementwise steps are those of `chains`. What a kernel offers to compute along with its product
(`fused.EpilogueKernel`) it does. Linear time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from flowengine.core.errors import OpError
from flowengine.ir import traverse
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.kernels.numpy.claims.chains import ChainGroups
from flowengine.kernels.numpy.fused import Chain, ChainStep, Contraction, Follower
from flowengine.kernels.provider import LARGE_MICROSECONDS, ClaimContext, claimed_node, outside
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.internal import FUSED_CONTRACTION

_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
#: What may be followed by a normalisation that is computed with it.
CONVOLUTIONS: Final = frozenset({"Conv2D", "DepthwiseConv2dNative"})
#: What makes a large result that is its own: the first output, where there are several.
PRODUCTS: Final = (
    frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul", "BatchMatMul", "BatchMatMulV2"})
    | frozenset({"Conv2DBackpropInput", "_MaxPoolGradAtPlaces"})
    | _NORMS
)

#: A convolution may compute what follows it for nothing: less than this is no library's.
_CONVOLUTION_MICROSECONDS: Final = 5.0


def fuse_contractions(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with heavy products and what follows them fused; the same graph if there is none."""
    heavy = context.large | _convolutions(graph, context.costs)
    if not any(graph[name].op in PRODUCTS for name in heavy if name in graph):
        return graph
    groups = ChainGroups(graph, context)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for name in reversed(traverse.topological_order(graph.nodes)):
        node = graph[name]
        if name in dropped:
            continue
        if groups.is_elementwise(node):
            members = groups.grown(node, lambda node: True)
            products = _products(outside(members), node, groups, heavy)
        else:
            # A normalisation whose result several take, or none that is elementwise.
            members = []
            products = _products((OutputPort(name, 0),), node, groups, heavy)
            if len(products) < 2 or not groups.gives_first(name):
                continue
        if not products:
            continue
        members = _depending(members, products[-1])
        fused = _fused(products, members, groups, context.kernels, heavy)
        if fused is not None:
            made[name] = fused
            dropped.update(fused.attrs["program"].names - {name})
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph if node.name not in dropped)


def _convolutions(graph: NodeGraph, costs: Mapping[str, float]) -> set[str]:
    """Those that may be worth fusing, if what follows can be computed along: few are always measured."""
    return {
        node.name
        for node in graph
        if node.op in CONVOLUTIONS and costs.get(node.name, LARGE_MICROSECONDS) >= _CONVOLUTION_MICROSECONDS
    }


def _depending(members: Sequence[Node], product: Node) -> list[Node]:
    """The members that take the product's result, or each other's: what they take besides is made before."""
    names = {product.name}
    found = []
    for node in members:
        if any(port.node in names for port in node.inputs):
            names.add(node.name)
            found.append(node)
    return found


def _products(
    ports: Sequence[OutputPort], root: Node, groups: ChainGroups, heavy: Collection[str]
) -> list[Node]:
    """The heavy product that gives one of these to the group of `root` and to nobody else.

    Or a convolution, which is heavy, and the normalisation by given statistics of what it gives, which need
    not be.
    """
    for port in ports:
        node = groups.graph.nodes.get(port.node)
        if node is None or port.slot or node.op not in PRODUCTS or node.device != root.device:
            continue
        if node is not root and not groups.is_inner(node.name):
            continue
        if node.op in _NORMS and not node.attrs["is_training"]:
            behind = groups.graph.nodes.get(node.inputs[0].node)
            if (
                behind is not None
                and behind.op in CONVOLUTIONS
                and behind.name in heavy
                and behind.device == node.device
                and groups.is_inner(behind.name)
            ):
                return [behind, node]
        if node.name in heavy:
            return [node]
    return []


def _fused(
    products: list[Node],
    members: list[Node],
    groups: ChainGroups,
    kernels: KernelRegistry,
    heavy: Collection[str],
) -> Node | None:
    inputs = outside([*products, *members])
    numbers = {port: i for i, port in enumerate(inputs)}
    steps = []
    for node in products:
        try:
            kernel = kernels.find(node)
        except OpError:
            return None  # the plan says what is wrong
        if not kernel.fresh or kernel.is_async or kernel.takes_context:
            return None
        steps.append(ChainStep(node, kernel.bind(node), tuple(numbers[port] for port in node.inputs)))
        numbers[OutputPort(node.name, 0)] = len(numbers)
    program = _program(steps, members, groups, numbers)
    absorbs = _absorb(program, steps, members, groups, inputs)
    if not absorbs and not any(node.name in heavy for node in members):
        return None  # in a region of small nodes they cost less
    return claimed_node(FUSED_CONTRACTION, [*products, *members], inputs, program)


def _program(
    steps: Sequence[ChainStep], members: Sequence[Node], groups: ChainGroups, numbers: dict[OutputPort, int]
) -> Contraction:
    """The steps, then the members as a chain in place; `numbers` are those of what is known by then."""
    if not members:
        return Contraction(steps, None, ())
    taken = outside(members)
    chain = Chain(
        groups.steps(members, {port: i for i, port in enumerate(taken)}),
        members[-1].output_types[0].as_numpy_dtype,
    )
    return Contraction(steps, chain, [numbers[port] for port in taken])


def _absorb(
    program: Contraction,
    steps: Sequence[ChainStep],
    members: Sequence[Node],
    groups: ChainGroups,
    inputs: Sequence[OutputPort],
) -> bool:
    """Let the kernel of the first step compute what follows it as well, if it can."""
    absorb = getattr(steps[0].function, "absorb", None)
    if absorb is None:
        return False
    product = steps[0].node
    followers = _followers([*(step.node for step in steps[1:]), *members], product)
    variables = {place for place, port in enumerate(product.inputs) if groups.is_held(port)}
    found = absorb(followers, variables)
    # A normalisation that stays behind would have to run between the convolution and the chain.
    if found is None or found[0] < len(steps) - 1:
        return False
    count, compute = found
    others = [
        port
        for node, position in followers[:count]
        for place, port in enumerate(node.inputs)
        if place != position
    ]
    numbers = {port: i for i, port in enumerate(inputs)}
    whole = ChainStep(product, compute, tuple(numbers[port] for port in (*product.inputs, *others)))
    rest = members[count - len(steps) + 1 :]
    if not rest:
        program.absorb(whole, None)
        return True
    numbers[OutputPort(followers[count - 1][0].name, 0)] = len(inputs)
    program.absorb(whole, _program((), rest, groups, numbers))
    return True


def _followers(nodes: Sequence[Node], product: Node) -> list[Follower]:
    """Those that take the result of the one before, and nobody else does, from the product on."""
    found: list[Follower] = []
    result = OutputPort(product.name, 0)
    for number, node in enumerate(nodes):
        places = [place for place, port in enumerate(node.inputs) if port == result]
        others = [port for later in nodes[number + 1 :] for port in later.inputs]
        if len(places) != 1 or result in others:
            break
        inner = {later.name for later in nodes}
        if any(port.node in inner for place, port in enumerate(node.inputs) if place != places[0]):
            break
        found.append((node, places[0]))
        result = OutputPort(node.name, 0)
    return found
