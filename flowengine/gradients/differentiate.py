"""`flowengine.gradients`: the derivatives of some tensors of a graph by others, as tensors of that graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.aggregate import METHODS
from flowengine.gradients.backprop import Sweep, waiting_for_each_other
from flowengine.gradients.backward import Backward
from flowengine.gradients.called_gradients import DifferentiableLowering
from flowengine.gradients.control.functional import FunctionRules
from flowengine.gradients.control_structure import Structure, structure_of
from flowengine.gradients.errors import GradientTypeError, GradientValueError
from flowengine.gradients.paths import Reach, can_have_gradient, has_no_gradient
from flowengine.gradients.regions import GradientCall, GradientRegion, common_frame
from flowengine.gradients.values import Gradient, IndexedSlices, dense
from flowengine.graphs.conversion import TensorLike, is_symbolic, plain, standing_for
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import FramePath, describe_frame
from flowengine.ir.graph import OutputPort


def gradients(
    ys: TensorLike | Sequence[TensorLike],
    xs: TensorLike | Sequence[TensorLike],
    grad_ys: Any = None,
    *,
    stop_gradients: TensorLike = (),
    unconnected: str = "none",
    aggregation: str = "add",
    gate: str = "none",
    colocate: bool = False,
    history_every: int = 1,
    name: str | None = None,
) -> list[Gradient | None]:
    """Extend the graph by the derivative of the sum of all ys by each x.

    ys               one tensor or several of one graph
    xs               one or several: tensors, or variables, for which their handle or reference stands;
                     of one in parts the gradients by its parts are joined
    grad_ys          what each derivative is multiplied by: for each y a Tensor, an array or None, which is
                     ones of its shape; one of as many elements is given the shape of y
    stop_gradients   tensors that are taken for constants
    unconnected      what an x on which no y depends gets: "none" None, "zero" zeros of its shape
    aggregation      how several gradients of one tensor are added: "add" at once, "tree" two at a time (less
                     memory), "accumulate" into one buffer where the shape is known
    gate             "op" lets the gradients of an op's inputs wait for each other, "graph" those of all xs
    colocate         whether the gradient of an op asks for the op's device
    history_every    of how many iterations of a loop one has its variables kept: the others are computed
                     again, so many at a time. Loops whose body has a state (random numbers, TensorArrays,
                     variables that it reads) keep all of their history
    name             of the scope that holds the new nodes: "gradients" unless it is given

    Returns one for each x: a Tensor of its shape and type, `IndexedSlices` where only some rows have a
    gradient, or None. Conditionals and loops are read from the graph, however it came to be; the graph is
    only added to. Raises LookupError (as MissingGradientError) for an op without a gradient, ValueError and
    TypeError (as InvalidArgumentError) for arguments that do not fit.

    >>> graph = fe.Graph()
    >>> x = graph.variable(3.0, name="x")
    >>> dx, = fe.gradients(x * x, x)
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     print(session.run(dx))
    6.0
    """
    wanted = several(xs)
    found = differentiate(
        ys,
        [part for x in wanted for part in _parts(x)],
        grad_ys,
        [stop_gradients] if is_symbolic(stop_gradients) else list(stop_gradients),
        unconnected,
        aggregation,
        gate,
        colocate,
        name,
        history_every=history_every,
    )
    each = iter(found)
    return [_joined(x, [next(each) for _ in _parts(x)]) for x in wanted]


def several(given: Any) -> Sequence[Any]:
    """Return a list as it is, and anything else as a list of one; a string is not split."""
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _parts(x: Any) -> Sequence[Any]:
    """The parts of a variable that is cut into some; of anything else, itself."""
    return x.parts if hasattr(x, "of_parts") else [x]


def _joined(x: Any, gradients: Sequence[Gradient | None]) -> Gradient | None:
    """The derivative by the whole of a variable, of those by its parts."""
    if len(gradients) == 1:
        return gradients[0]
    if all(gradient is None for gradient in gradients):
        return None
    graph = x.graph
    with graph.name_scope("gradients"):
        rows = []
        for part, gradient in zip(x.parts, gradients, strict=True):
            if isinstance(gradient, IndexedSlices):
                gradient = dense(graph, graph.ops, gradient)
            shape = part.shape.as_list()
            rows.append(graph.constant(0, part.dtype, shape) if gradient is None else gradient)
        whole: Tensor = graph.ops.ConcatV2(rows, x.axis)
    return whole


def differentiate(
    ys: Tensor | IndexedSlices | Sequence[Tensor | IndexedSlices],
    xs: Tensor | Sequence[Tensor],
    grad_ys: Any,
    stops: Sequence[Tensor] = (),
    unconnected: str = "none",
    aggregation: str = "add",
    gate: str = "none",
    colocate: bool = False,
    name: str | None = None,
    own: frozenset[str] = frozenset(),
    frame: FramePath | None = None,
    history_every: int = 1,
) -> list[Gradient | None]:
    """As `gradients`, in a graph that may be the body of a function.

    own     the functions whose body it is: calls of these stay calls
    frame   of a loop beside the ys that computes the gradients in each of its iterations; None is that of ys
    """
    targets = [_target(each) for each in several(ys)]
    sources = [_source(each) for each in several(xs)]
    stops = [_source(each) for each in stops]
    graph = _graph_of(targets, sources, stops)
    _check_words(unconnected, aggregation, gate)
    if history_every < 1:
        raise GradientValueError(f"history_every is a number of iterations from 1, not {history_every}")
    if not targets or not sources:
        return [None] * len(sources)
    dense_ys = [_one(graph, y) for y in targets]
    connected = _open_calls(DifferentiableLowering(graph, own), graph, dense_ys, sources, stops)
    with graph.scopes.name_scope(name or "gradients") as scope:
        structure = structure_of(graph)
        source, functions = scope.rstrip("/"), FunctionRules(graph)
        call = GradientCall(graph, structure, source, functions, aggregation, gate, colocate, history_every)
        region = GradientRegion(call, common_frame(structure, dense_ys) if frame is None else frame)
        call.places[region.frame] = region
        with region.building():
            found = _swept(region, dense_ys, sources, stops, grad_ys)
            if unconnected == "zero":
                connected = {x.port for x in sources}
            return _finished(region, sources, found, connected, gate)


def _open_calls(
    lowering: DifferentiableLowering,
    graph: Graph,
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    stops: Sequence[Tensor],
) -> set[OutputPort]:
    """Write out the functions that are called between ys and xs, and those called in them.

    Returns the xs that a call connects with a y: it counts as a connection whatever its body does.
    """
    if graph.library is None:
        return set()
    connected: set[OutputPort] | None = None
    while True:
        structure = structure_of(graph)
        reach = _reach(graph, structure, ys, xs, stops)
        calls = [name for name, ports in reach.nodes.items() if ports and lowering.can_lower(graph[name])]
        if connected is None:
            connected = _connected(graph, structure, ys, xs, stops) if calls else set()
        if not calls:
            return connected
        with graph.name_scope(None):
            for name in calls:
                is_tied = bool(structure.frame(name) or structure.node_guard(name))
                lowering.lower(graph[name], is_tied)


def _connected(
    graph: Graph, structure: Structure, ys: Sequence[Tensor], xs: Sequence[Tensor], stops: Sequence[Tensor]
) -> set[OutputPort]:
    """The xs on which a y depends by ops that have a derivative, taking calls for such."""
    ends = {node.name for node in graph if has_no_gradient(node)}
    reach = _reach(graph, structure, ys, xs, stops, ends)
    taken = {port for ports in reach.nodes.values() for port in ports}
    return {x.port for x in xs if x.port in taken}


def _reach(
    graph: Graph,
    structure: Structure,
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    stops: Sequence[Tensor],
    ends: Collection[str] = (),
) -> Reach:
    """Compute the ports and nodes between xs and ys; no path leads through the ends."""
    return Reach(
        graph,
        [y.port for y in ys],
        [x.port for x in xs],
        {each.port for each in stops},
        structure.stack_edges,
        _merges_around(structure, common_frame(structure, ys)).union(ends),
    )


def _swept(
    region: GradientRegion, ys: Sequence[Tensor], xs: Sequence[Tensor], stops: Sequence[Tensor], grad_ys: Any
) -> list[Gradient | None]:
    graph = region.graph
    reach = _reach(graph, region.structure, ys, xs, stops)
    _check_frames(region, xs)
    seeds = _seeds(graph, ys, grad_ys)
    order = {name: position for position, name in enumerate(graph.nodes)}
    sweep = Sweep(region, reach, reach.nodes, order)
    for y, seed in zip(ys, seeds, strict=True):
        if seed is not None and y.port in reach.reached:
            sweep.gradients.add(y.port, seed)
    sweep.run()
    return [sweep.gradients.total(x.port) for x in xs]


def _merges_around(structure: Structure, frame: FramePath) -> set[str]:
    """The Merges of loops that enclose the ys: leaves, where the code of the iteration begins."""
    around = [structure.loops[frame[: depth + 1]] for depth in range(len(frame))]
    return {variable.merge for loop in around for variable in loop.variables}


def _check_frames(region: GradientRegion, xs: Sequence[Tensor]) -> None:
    """An x may be where the ys are, or outside of the loops that are around them."""
    for x in xs:
        frame = region.structure.value_frame(x.node_name)
        if region.frame[: len(frame)] != frame:
            raise GradientValueError(
                f"x '{x.name}' is in {describe_frame(frame)}, the ys are in {describe_frame(region.frame)}: "
                "it has a value for each iteration; differentiate by what enters the loop"
            )


def _finished(
    region: GradientRegion,
    xs: Sequence[Tensor],
    found: list[Gradient | None],
    zeroed: Collection[OutputPort],
    gate: str,
) -> list[Gradient | None]:
    """Replace some absent gradients by zeros, and let all wait for each other if `gate` says so."""
    results = [
        Backward(region, x.op).zeros_like(x)
        if each is None and x.port in zeroed and can_have_gradient(x.dtype)
        else each
        for x, each in zip(xs, found, strict=True)
    ]
    if gate == "graph" and any(each is not None for each in results):
        results = list(waiting_for_each_other(Backward(region, xs[0].op), results))
    return results


def _target(y: Any) -> Any:
    """A y as a tensor or as slices, whatever stands for it."""
    found = y if isinstance(y, IndexedSlices) else standing_for(getattr(y, "graph", None), y)
    return y if found is None else found


def _source(x: Any) -> Any:
    """An x as the tensor whose derivative is meant: of a variable its handle, or the reference to it."""
    if not isinstance(x, Tensor):
        for name in ("handle", "ref"):
            if isinstance(getattr(x, name, None), Tensor):
                return plain(getattr(x, name))
    found = standing_for(getattr(x, "graph", None), x)
    return x if found is None else found


def _graph_of(*groups: Sequence[Any]) -> Graph:
    """The graph of all these tensors."""
    graph: Graph | None = None
    for group in groups:
        for each in group:
            tensor = each.values if isinstance(each, IndexedSlices) else each
            if not isinstance(tensor, Tensor):
                raise GradientTypeError(
                    f"{each!r} is not a Tensor of a graph; graph.tensor('name:0') finds one by its name"
                )
            if graph is None:
                graph = tensor.graph
            elif graph is not tensor.graph:
                raise GradientValueError(f"'{tensor.name}' belongs to another graph than the first y")
    if graph is None:
        raise GradientValueError("ys is empty: give at least one tensor to differentiate")
    return graph


def _check_words(unconnected: str, aggregation: str, gate: str) -> None:
    for what, word, known in (
        ("unconnected", unconnected, ("none", "zero")),
        ("aggregation", aggregation, METHODS),
        ("gate", gate, ("none", "op", "graph")),
    ):
        if word not in known:
            raise GradientValueError(f"{what} is one of {', '.join(known)}, not {word!r}")


def _one(graph: Graph, y: Tensor | IndexedSlices) -> Tensor:
    return y if isinstance(y, Tensor) else dense(graph, graph.ops, y)


def _seeds(graph: Graph, ys: Sequence[Tensor], grad_ys: Any) -> list[Gradient | None]:
    """The gradient of each y: as given, or ones; None for one that can have none."""
    if grad_ys is None:
        given: list[Any] = [None] * len(ys)
    else:
        given = list(grad_ys) if isinstance(grad_ys, list | tuple) else [grad_ys]
    if len(given) != len(ys):
        raise GradientValueError(
            f"there are {len(ys)} ys and {len(given)} grad_ys: give one for each y, or None"
        )
    return [_seed(graph, index, y, each) for index, (y, each) in enumerate(zip(ys, given, strict=True))]


def _seed(graph: Graph, index: int, y: Tensor, given: Any) -> Gradient | None:
    dtype = y.dtype.base
    if given is None:
        if dtype.is_complex:
            raise GradientTypeError(
                f"'{y.name}' is {dtype}: the gradient of a complex tensor is only defined for a given grad_ys"
            )
        if not can_have_gradient(dtype) or not dtype.size:
            return None
        known = y.shape.as_tuple()
        shape = (
            graph.ops.Shape(y) if known is None else graph.constant(np.array(known, np.int32), name="Shape")
        )
        one = graph.constant(np.ones((), dtype.as_numpy_dtype), dtype, name=f"grad_ys_{index}")
        ones: Tensor = graph.ops.Fill(shape, one)
        return ones
    if isinstance(given, IndexedSlices):
        found: Gradient = given
    elif isinstance(given, Tensor):
        found = given
    else:
        try:
            found = graph.constant(given, dtype, name=f"grad_ys_{index}")
        except InvalidArgumentError as error:
            raise GradientTypeError(f"grad_ys[{index}], for '{y.name}': {error.message}") from None
    if found.dtype.base is not dtype:
        raise GradientTypeError(f"grad_ys[{index}] is {found.dtype.base}; '{y.name}' is {dtype}")
    if isinstance(found, Tensor) and not found.shape.is_compatible_with(y.shape):
        found = _of_shape(graph, index, y, found)
    return found if can_have_gradient(dtype) else None


def _of_shape(graph: Graph, index: int, y: Tensor, given: Tensor) -> Tensor:
    """A gradient of as many elements as `y`, such as [1] for a number, in the shape of `y`."""
    wanted, known = y.shape.num_elements(), y.shape.as_tuple()
    if wanted is None or wanted != given.shape.num_elements():
        raise GradientValueError(f"grad_ys[{index}] is of shape {given.shape}; '{y.name}' is {y.shape}")
    reshaped: Tensor = graph.ops.Reshape(given, np.array(known, np.int32))
    return reshaped
