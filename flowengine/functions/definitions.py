"""Functions of a graph, made of the nodes that a Python function builds.

The Python function runs once, on tensors of a graph of the body's own. Tensors of another graph that it uses
are *captured*: each becomes one more argument, which every call passes; so a variable that is captured is the
same variable in all of them. A graph with such functions is written as a GraphDef that TensorFlow reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.functions.bodies import functions_in
from flowengine.functions.writing import fitting_names, function_def
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.importing import take_library
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.names import ARGUMENT
from flowengine.ir.proto import FunctionDefLibrary

#: What an argument is: a dtype, (dtype, shape), or a tensor of that dtype and shape.
ArgumentSpec = Any


def function(
    graph: Graph,
    inputs: Sequence[ArgumentSpec] = (),
    outputs: Sequence[Any] | None = None,
    *,
    stateful: bool = True,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], LibraryFunction]:
    """Make a function of a graph of a Python function that builds nodes.

    graph      whose library holds it
    inputs     one each: a dtype, (dtype, shape), or a tensor of that dtype and shape
    outputs    dtypes of the results: needed of a function that calls itself, else found out
    stateful   of a function that calls itself: whether it has effects; of another that is found out
    name       in the library; that of the Python function if it is free

    The Python function takes a Tensor for each input, or the body's Graph if there are none, and returns a
    Tensor, several in a list, or None. It is called when the function is first called or named by `attr`, and
    its errors are raised there: InvalidArgumentError for results of other types.

    >>> graph = fe.Graph()
    >>> @fe.function(graph, ["float32"])
    ... def scaled(x):
    ...     return x * 2.0
    >>> y = scaled(graph.constant(3.0))
    >>> with fe.blocking.Session(graph) as session:
    ...     print(y.op.type, session.run(y))
    PartitionedCall 6.0
    """
    need_graph(graph, '@fe.function(graph, ["float32"])')
    types = tuple(_spec(each) for each in inputs)
    declared = None if outputs is None else tuple(as_dtype(each) for each in outputs)

    def defined(build: Callable[..., Any]) -> LibraryFunction:
        wanted = name or getattr(build, "__name__", "function").strip("<>")
        return LibraryFunction(graph, build, wanted, types, declared, stateful)

    return defined


def _spec(given: ArgumentSpec) -> tuple[DType, TensorShape]:
    if isinstance(given, Tensor):
        return given.dtype.base, given.shape
    if isinstance(given, tuple) and len(given) == 2:
        return as_dtype(given[0]), TensorShape(given[1])
    return as_dtype(given), UNKNOWN_SHAPE


class LibraryFunction:
    """A function of a graph's library: call it with tensors to add a call. `fe.function` makes it.

    graph      whose library holds it
    build      the Python function
    name       in the library
    inputs     (dtype, shape) of each argument
    outputs    dtypes of the results, or None to find them out
    stateful   whether it has effects, if it calls itself

    Raises InvalidArgumentError for inputs that do not fit.

    >>> graph = fe.Graph()
    >>> @fe.function(graph, ["float32"])
    ... def double(x):
    ...     return x + x
    >>> double
    <function 'double' of float32>
    >>> with fe.blocking.Session(graph) as session:
    ...     print(session.run(double(graph.constant(4.0))))
    8.0
    """

    def __init__(
        self,
        graph: Graph,
        build: Callable[..., Any],
        name: str,
        inputs: tuple[tuple[DType, TensorShape], ...],
        outputs: tuple[DType, ...] | None,
        stateful: bool,
    ) -> None:
        self._graph = graph
        self._build = build
        self._inputs = inputs
        self._declared = outputs
        self._declared_stateful = stateful
        self.name = _free_name(graph, name)
        self._built: _BuiltBody | None = None
        self._is_building = False

    def __repr__(self) -> str:
        given = ", ".join(str(dtype) for dtype, _ in self._inputs)
        return f"<function '{self.name}' of {given or 'nothing'}>"

    @property
    def attr(self) -> FuncAttr:
        """The attribute value that names the function: of a `While`, of an `If`, of a dataset."""
        if not self._is_building:
            self._body()
        return FuncAttr(self.name)

    @property
    def captures(self) -> list[Tensor]:
        """The tensors of other graphs that the body uses, in the order of the arguments after its own."""
        return list(self._body().captured.values())

    @property
    def is_stateful(self) -> bool:
        """Whether something in the body has an effect, or depends on one."""
        return self._body().is_stateful

    def __call__(self, *inputs: Any, graph: Graph | None = None, name: str | None = None) -> Any:
        """Add a call; a Tensor, a list of several, or the Operation of a function that gives nothing.

        inputs   tensors, or what can be made one, for each input
        graph    where the call stands; None is the graph of the first tensor, or else that whose function
                 it is

        Raises InvalidArgumentError for inputs that do not fit, or where the function calls itself and does
        not say what it gives.
        """
        if len(inputs) != len(self._inputs):
            raise InvalidArgumentError(
                f"function '{self.name}' takes {len(self._inputs)} inputs; {len(inputs)} are given"
            )
        first = next((each.graph for each in inputs if isinstance(each, Tensor)), self._graph)
        target = first if graph is None else graph
        given = [
            each if isinstance(each, Tensor) else target.constant(each, dtype)
            for each, (dtype, _) in zip(inputs, self._inputs, strict=True)
        ]
        for number, (each, (dtype, _)) in enumerate(zip(given, self._inputs, strict=True)):
            if each.dtype.base is not dtype:
                raise InvalidArgumentError(
                    f"function '{self.name}' takes {dtype} as input {number}, "
                    f"not '{each.name}' ({each.dtype})"
                )
        if self._is_building:
            return self._called_within(target, given, name)
        body = self._body()
        given += body.captured.values()
        shapes = [result.shape for result in body.results]
        types = [result.dtype.base for result in body.results]
        return self._call(target, given, types, shapes, body.is_stateful, body.is_single, name)

    def _called_within(self, target: Graph, given: list[Tensor], name: str | None) -> Any:
        """A call of the function that is being built: from its own body, or that of one it calls."""
        types = self._declared
        if types is None:
            raise InvalidArgumentError(
                f"function '{self.name}' calls itself: declare its results by function(..., outputs=[dtype])"
            )
        # What the body holds is not known yet: else the call must not be left out, nor merged with another.
        stateful, shapes = self._declared_stateful, [UNKNOWN_SHAPE] * len(types)
        return self._call(target, given, types, shapes, stateful, len(types) == 1, name)

    def _call(
        self,
        target: Graph,
        given: list[Tensor],
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
        is_stateful: bool,
        is_single: bool,
        name: str | None,
    ) -> Any:
        op = "StatefulPartitionedCall" if is_stateful else "PartitionedCall"
        attrs = {"Tout": list(types), "f": FuncAttr(self.name)}
        node: Operation = target.create_op(op, [given], attrs, name or self.name)
        outputs = list(node.outputs)
        for output, shape in zip(outputs, shapes, strict=True):
            output.set_shape(shape)
        if not outputs:
            return node
        return outputs[0] if is_single else outputs

    def _body(self) -> _BuiltBody:
        if self._built is None:
            if self._is_building:
                raise InvalidArgumentError(
                    f"function '{self.name}' is still being built: its captures are not known yet"
                )
            self._is_building = True
            try:
                body = _BuiltBody(self._graph, self._build, self._inputs)
            finally:
                self._is_building = False
            if body.captured and body.calls(self.name):
                raise InvalidArgumentError(
                    f"function '{self.name}' calls itself and uses "
                    f"'{next(iter(body.captured.values())).name}' of another graph: give it as an input"
                )
            self._check_declared(body)
            body.define(self._graph, self.name)
            self._built = body
        return self._built

    def _check_declared(self, body: _BuiltBody) -> None:
        found = tuple(result.dtype.base for result in body.results)
        if self._declared is not None and found != self._declared:
            raise InvalidArgumentError(
                f"function '{self.name}' returns {list(map(str, found))}; "
                f"outputs= declares {list(map(str, self._declared))}"
            )
        if self._declared is not None and body.is_stateful and not self._declared_stateful:
            raise InvalidArgumentError(
                f"function '{self.name}' is declared stateless, but '{body.effect()}' has effects: leave out "
                "stateful=False"
            )


class _BuiltBody:
    """The body that a Python function has built."""

    def __init__(
        self, graph: Graph, build: Callable[..., Any], inputs: Sequence[tuple[DType, TensorShape]]
    ) -> None:
        self.graph = Graph(registry=graph.registry, producer=graph.producer, min_consumer=graph.min_consumer)
        #: {argument of the body: the tensor of another graph that it stands for}, in order.
        self.captured: dict[Tensor, Tensor] = {}
        self._standing: dict[tuple[int, Any], Tensor] = {}
        names = _parameter_names(build, len(inputs))
        self.arguments = [
            self._argument(index, name, dtype, shape)
            for index, (name, (dtype, shape)) in enumerate(zip(names, inputs, strict=True))
        ]
        with self.graph.scopes.bringing(self._bring):
            made = build(*self.arguments) if self.arguments else build(self.graph)
        self.is_single = not isinstance(made, list | tuple)
        given = [made] if self.is_single else list(made)
        if isinstance(made, Operation | None):
            given = []
        self.results = [self._result(each) for each in given]

    @property
    def is_stateful(self) -> bool:
        return any(node.is_stateful for node in self.graph if node.op != ARGUMENT)

    def effect(self) -> str:
        """A node that has an effect."""
        return next(node.name for node in self.graph if node.op != ARGUMENT and node.is_stateful)

    def calls(self, name: str) -> bool:
        """Whether something in the body names a function."""
        return any(each.name == name for node in self.graph for each in functions_in(node))

    def define(self, graph: Graph, name: str) -> None:
        """Put the function into a graph's library."""
        arguments = [*self.arguments, *self.captured]
        taken = fitting_names([each.node_name for each in arguments])
        results = fitting_names(["output"] * len(self.results), taken)
        definition = function_def(
            name,
            self.graph,
            dict(zip(taken, (each.port for each in arguments), strict=True)),
            dict(zip(results, (each.port for each in self.results), strict=True)),
            self.is_stateful,
        )
        take_library(graph, self.graph)  # of functions that were defined for the body alone
        library = FunctionDefLibrary()
        if isinstance(graph.library, FunctionDefLibrary):
            library.CopyFrom(graph.library)
        library.function.append(definition)
        graph.library = library

    def _argument(self, index: int, name: str, dtype: DType, shape: TensorShape) -> Tensor:
        made = self.graph.create_op(ARGUMENT, (), {"T": dtype, "index": index}, name).outputs[0]
        made.set_shape(shape)
        return made

    def _bring(self, tensor: Tensor) -> Tensor:
        """The argument that stands for a tensor of another graph."""
        if tensor.graph is self.graph:
            return tensor
        key = id(tensor.graph), tensor.port
        standing = self._standing.get(key)
        if standing is None:
            index = len(self.arguments) + len(self.captured)
            name = "captured_" + tensor.op.name.replace("/", "_")
            scopes = self.graph.scopes
            with scopes.name_scope(None), scopes.control_dependencies(None), scopes.bringing(_as_it_is):
                standing = self._argument(index, name, tensor.dtype.base, tensor.shape)
            self._standing[key] = standing
            self.captured[standing] = tensor
        return standing

    def _result(self, given: Any) -> Tensor:
        if isinstance(given, Tensor):
            return self._bring(given)
        if isinstance(given, Operation):
            raise InvalidArgumentError(
                f"'{given.name}' is an operation without a value: return tensors, or None"
            )
        return self.graph.constant(given)


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _parameter_names(build: Callable[..., Any], count: int) -> list[str]:
    try:
        names = list(inspect.signature(build).parameters)
    except (TypeError, ValueError):
        names = []
    names = names[:count] if len(names) >= count else [f"arg_{index}" for index in range(count)]
    return fitting_names(names)


#: {graph: the names of its functions, those that are not built yet included}
_NAMES: Final[WeakKeyDictionary[Graph, set[str]]] = WeakKeyDictionary()


def _free_name(graph: Graph, wanted: str) -> str:
    """A name that no other function of a graph has, kept for this one."""
    taken = _NAMES.setdefault(graph, set())
    library = FunctionLibrary(graph.library, graph.registry)
    name, number = wanted, 0
    while name in taken or name in library or name in graph.registry:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
