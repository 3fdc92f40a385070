"""The functions of a SavedModel of TensorFlow 2: what was a method there is called by its name here.

    y = await model.functions["add"]([1.0, 2.0], twice=True)

TensorFlow saves a function as it was traced: one body for each kind of arguments it was called with. A call
here takes the first body whose arguments fit. The call becomes nodes of the model's graph, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.proto.saved_object_graph_pb2 import SavedFunction
from flowengine.saved_model.object_graph import ObjectGraph
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.saved_model.structured import TensorSpec, alike, decode, leaves, packed, values_for

if TYPE_CHECKING:
    from flowengine.saved_model.reading import SavedGraph


@dataclass(frozen=True, slots=True)
class ConcreteFunction:
    """A body of a function: for which arguments it was traced, and what it returns."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    returns: Any
    captures: tuple[int, ...]

    def __str__(self) -> str:
        parts = [_shown(each) for each in self.arguments]
        parts += [f"{key}={_shown(each)}" for key, each in self.keywords.items()]
        return f"({', '.join(parts)})"


class ModelFunction:
    """A function of a loaded model: `model.functions["add"]([1.0, 2.0], twice=True)`.

    name   the names of the attributes that lead to it, joined by points
    proto, objects, graph, run   the function in the export, its objects, the model's graph, and the call that
           runs a step

    A call takes the arguments that the Python function took, and returns its results, with arrays for
    tensors; await it, except for a blocking model. It raises InvalidArgumentError, with the traced arguments,
    if none of the bodies fits, and the errors of a step.

    >>> model = fe.blocking.load_saved_model("export")              # doctest: +SKIP
    >>> model.functions["add"]([1.0, 2.0])                          # doctest: +SKIP
    >>> model.functions["add"].signature()                          # doctest: +SKIP
    <SignatureFacts 'add' (x float32 [?] -> output_0 float32 <unknown>)>
    """

    def __init__(
        self,
        name: str,
        proto: SavedFunction,
        objects: ObjectGraph,
        graph: Graph,
        run: Callable[..., Any],
    ) -> None:
        self.name = name
        self._objects = objects
        self._graph = graph
        self._run = run
        self._names, self._defaults = _parameters(proto)
        #: The bodies, in the order in which they were traced.
        self.concrete = [_concrete(each, objects) for each in proto.concrete_functions]
        #: {body: (tensors to feed, what to fetch)} of the calls that are nodes of the graph.
        self._calls: dict[str, tuple[list[str], Any]] = {}

    def __repr__(self) -> str:
        return f"<ModelFunction '{self.name}' {' or '.join(map(str, self.concrete))}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it."""
        for concrete in self.concrete:
            given = self._bound(concrete, arguments, keywords)
            if given is not None and alike(given, (concrete.arguments, concrete.keywords)):
                feeds, fetches = self._call_of(concrete)
                values = values_for(given, (concrete.arguments, concrete.keywords))
                return self._run(fetches, dict(zip(feeds, values, strict=True)))
        traced = "; ".join(map(str, self.concrete)) or "nothing"
        raise InvalidArgumentError(
            f"'{self.name}' was not traced with arguments like these; it was with {traced}"
        )

    def signature(self) -> SignatureFacts:
        """Describe a call of the body that was traced first, as a signature of its tensors by name.

        An input has the name of its argument; an output the key under which the function returns it, or
        `output_0`, `output_1` and so on. The call becomes nodes of the model's graph. Raises
        InvalidArgumentError for a function that was never traced, NotFoundError for an object that it uses
        and the graph does not have.
        """
        if not self.concrete:
            raise InvalidArgumentError(f"'{self.name}' was never traced: the SavedModel has no body of it")
        concrete = self.concrete[0]
        feeds, fetches = self._call_of(concrete)
        names = iter(feeds)
        inputs = {}
        for name, spec in self._named_specs(concrete):
            tensors = tuple(next(names) for _ in range(spec.components))
            inputs[name] = SignatureTensor(tensors, spec.dtype, spec.shape, is_composite=spec.components > 1)
        returned = fetches if isinstance(fetches, dict) else dict(_numbered(fetches))
        outputs = {
            str(name): SignatureTensor((tensor,), *self._facts_of(tensor))
            for key, value in returned.items()
            for name, tensor in _leaves_of(str(key), value)
        }
        return SignatureFacts(self.name, inputs, outputs)

    def _named_specs(self, concrete: ConcreteFunction) -> Iterator[tuple[str, TensorSpec]]:
        """Each tensor that a body takes, with a name of its own."""
        taken: set[str] = set()
        # Arguments beyond the named ones came in through *args.
        names = [*self._names, *(f"argument_{n}" for n in range(len(concrete.arguments)))]
        positional = zip(names, concrete.arguments, strict=False)
        for name, argument in (*positional, *concrete.keywords.items()):
            specs = [each for each in leaves(argument) if _is_spec(each)]
            for number, spec in enumerate(specs):
                own = name if len(specs) == 1 else spec.name or f"{name}_{number}"
                while own in taken:
                    own += "_"
                taken.add(own)
                yield own, spec

    def _facts_of(self, name: str) -> tuple[DType, TensorShape]:
        """The type and shape of a tensor; those of a node without outputs are nobody's."""
        if ":" not in name:
            return dtypes.variant, TensorShape(None)
        tensor = self._graph.tensor(name)
        return tensor.dtype, tensor.shape

    def _bound(
        self, concrete: ConcreteFunction, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments in the places that the body has for them; None where they have none."""
        left = dict(keywords)
        placed = list(arguments)
        for name in self._names[len(placed) : len(concrete.arguments)]:
            if name in left:
                placed.append(left.pop(name))
            elif name in self._defaults:
                placed.append(self._defaults[name])
            else:
                return None
        for name in concrete.keywords:
            if name not in left and name in self._defaults:
                left[name] = self._defaults[name]
        return tuple(placed), left

    def _call_of(self, concrete: ConcreteFunction) -> tuple[list[str], Any]:
        """The tensors to feed and the structure to fetch of the nodes that call a body."""
        if concrete.name not in self._calls:
            self._calls[concrete.name] = self._make_call(concrete)
        return self._calls[concrete.name]

    def _make_call(self, concrete: ConcreteFunction) -> tuple[list[str], Any]:
        graph = self._graph
        library = FunctionLibrary(graph.library, graph.registry, graph.producer)
        signature = library.signature(concrete.name)
        types = [each for arg in signature.inputs for each in arg.types({})]
        results = [each for arg in signature.outputs for each in arg.types({})]
        specs = [each for each in leaves((concrete.arguments, concrete.keywords)) if _is_spec(each)]
        shapes = [
            each.shape if each.components == 1 else None for each in specs for _ in range(each.components)
        ]
        if len(shapes) + len(concrete.captures) != len(types):
            raise InvalidArgumentError(
                f"'{concrete.name}' takes {len(types)} tensors, but the SavedModel says of {len(shapes)} "
                f"arguments and {len(concrete.captures)} captures"
            )
        captured = list(self._captured(graph, concrete))
        with graph.name_scope(f"calls/{concrete.name}"):
            fed = [
                graph.placeholder(dtype, shape, name=f"argument_{index}")
                for index, (dtype, shape) in enumerate(zip(types, shapes, strict=False))
            ]
            operation = graph.create_op(
                "StatefulPartitionedCall",
                [[*fed, *captured]],
                {"Tin": tuple(types), "Tout": tuple(results), "f": FuncAttr(concrete.name)},
                name="call",
            )
        outputs = iter([f"{operation.name}:{slot}" for slot in range(len(results))])
        fetches = packed(concrete.returns, outputs) if results else operation.name
        return [each.name for each in fed], fetches

    def _captured(self, graph: Graph, concrete: ConcreteFunction) -> Iterator[Any]:
        for place in concrete.captures:
            port = self._objects.ports.get(place)
            if port is None:
                path = ".".join(self._objects.paths.get(place, ())) or f"object {place}"
                raise NotFoundError(f"'{self.name}' uses '{path}', for which the graph has no node")
            yield graph.tensor(str(port))


def _numbered(returned: Any) -> Iterator[tuple[str, Any]]:
    """Name the results of a function that returns no dictionary, under TensorFlow's names for outputs."""
    values = returned if isinstance(returned, tuple | list) else (returned,)
    for number, value in enumerate(values):
        yield f"output_{number}", value


def _leaves_of(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The tensors of a returned value, by the names of the structures that they are in."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves_of(f"{name}.{key}", each)
    elif isinstance(value, tuple | list):
        for number, each in enumerate(value):
            yield from _leaves_of(f"{name}.{number}", each)


def functions_of(saved: SavedGraph, run: Callable[..., Any]) -> dict[str, ModelFunction]:
    """{name: function} of what the export's objects have, the nearest to the root first.

    run   runs a step of the model's session
    """
    objects = saved.objects
    if objects is None:
        return {}
    return {
        name: ModelFunction(name, proto, objects, saved.graph, run)
        for name, proto in objects.functions
        if not _is_private(name.rpartition(".")[2])
    }


def _is_private(name: str) -> bool:
    """Whether it is TensorFlow's own: how a table is made, initialized and let go of."""
    return name.startswith("_") and name != "__call__"


def _is_spec(value: Any) -> bool:
    return isinstance(value, TensorSpec)


def _shown(spec: Any) -> str:
    if isinstance(spec, dict):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in spec.items()) + "}"
    if isinstance(spec, tuple | list):
        return "(" + ", ".join(map(_shown, spec)) + ")"
    return str(spec) if isinstance(spec, TensorSpec) else repr(spec)


def _concrete(name: str, objects: ObjectGraph) -> ConcreteFunction:
    if name not in objects.proto.concrete_functions:
        raise InvalidArgumentError(f"the SavedModel's object graph does not describe '{name}'")
    proto = objects.proto.concrete_functions[name]
    arguments, keywords = decode(proto.canonicalized_input_signature)
    return ConcreteFunction(
        name, tuple(arguments), keywords, decode(proto.output_signature), tuple(proto.bound_inputs)
    )


def _parameters(proto: SavedFunction) -> tuple[list[str], dict[str, Any]]:
    """The names of the positional parameters without `self`, and the defaults of all."""
    spec = decode(proto.function_spec.fullargspec)
    if spec is None:
        return [], {}
    names = list(spec.args)
    values = list(spec.defaults or ())
    defaults = dict(zip(names[len(names) - len(values) :], values, strict=True)) | (spec.kwonlydefaults or {})
    return names[1:] if proto.function_spec.is_method else names, defaults
