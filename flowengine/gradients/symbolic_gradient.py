"""The gradient of a function as a function: what `SymbolicGradient` calls.

    f(a, b) -> (y, z)     ->     its gradient(a, b, dy, dz) -> (da, db)

A library may say which function is the gradient of another; else the body is differentiated as any graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.differentiate import differentiate
from flowengine.gradients.values import Gradient, dense
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionBody, FunctionLibrary
from flowengine.ir.names import ARGUMENT


def gradient_body(
    library: FunctionLibrary, function: FuncAttr, types: Sequence[DType], result_count: int
) -> FunctionBody:
    """Return the body that computes argument gradients from the arguments and the result gradients.

    types          of the arguments of the function and of the gradients, in that order
    result_count   how many gradients the node gives

    Raises InvalidArgumentError where they do not fit, MissingGradientError for an op without a gradient.
    """
    given = library.gradient_of(function.name)
    if given is not None:
        body = library.instantiate(given, function.attrs)
        if len(body.results) != result_count:
            raise InvalidArgumentError(
                f"the gradient of '{function.name}', function '{given}', gives {len(body.results)} tensors "
                f"where {result_count} are expected"
            )
        return body
    graph, arguments, results = _forward(library, function, types)
    if len(arguments) + len(results) != len(types):
        raise InvalidArgumentError(
            f"the gradient of '{function.name}' takes {len(arguments)} arguments and {len(results)} "
            f"gradients; {len(types)} values are given"
        )
    seeds = [
        _argument(graph, dtype, index)
        for index, dtype in enumerate(types[len(arguments) :], start=len(arguments))
    ]
    found = differentiate(results, arguments, seeds, own=frozenset({function.name}))
    made = [
        graph.ops.ZerosLike(argument) if each is None else _one(graph, each)
        for argument, each in zip(arguments, found, strict=True)
    ]
    return FunctionBody(
        function.name,
        graph,
        tuple(each.port for each in (*arguments, *seeds)),
        tuple(each.port for each in made),
        (),
    )


def _forward(
    library: FunctionLibrary, function: FuncAttr, types: Sequence[DType]
) -> tuple[Graph, list[Tensor], list[Tensor]]:
    """A graph of the function's own, its arguments, its results; of an op of that name if there is none."""
    if function.name in library:
        body = library.instantiate(function.name, function.attrs)
        graph = Graph(body.graph, registry=library.registry, producer=body.graph.producer)
        graph.library = body.graph.library
        return (
            graph,
            [Tensor(graph, *port) for port in body.arguments],
            [Tensor(graph, *port) for port in body.results],
        )
    graph = Graph(registry=library.registry)
    definition = library.registry[function.name]
    attrs = definition.with_defaults(function.attrs)
    arguments = [
        _argument(graph, dtype, index)
        for index, dtype in enumerate(types[: len(definition.input_types(attrs))])
    ]
    graph.append(definition, "op", tuple(each.port for each in arguments), attrs)
    return graph, arguments, list(graph.operation("op").outputs)


def _one(graph: Graph, gradient: Gradient) -> Tensor:
    return gradient if isinstance(gradient, Tensor) else dense(graph, graph.ops, gradient)


def _argument(graph: Graph, dtype: DType, index: int) -> Tensor:
    operation = graph.create_op(ARGUMENT, (), {"T": dtype, "index": index}, f"gradient/argument_{index}")
    return operation.outputs[0]
