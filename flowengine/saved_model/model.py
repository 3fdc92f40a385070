"""A loaded SavedModel: its variables have values, and its signatures can be called."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.reading import readers_of, value_of
from flowengine.saved_model.functions import ModelFunction, functions_of
from flowengine.saved_model.model_signature import ModelSignature
from flowengine.saved_model.reading import SavedGraph, StoredVariable
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE


class _Readers:
    """The tensors that have the values of a model's variables.

    The model and its variables share it: if the variables referred to the model, a cycle would keep it alive.
    """

    def __init__(self, saved: SavedGraph) -> None:
        self._saved = saved
        self._known: dict[str, str] | None = None

    def of(self, variable: str) -> str:
        """Return the tensor that has a variable's value; add one to the graph if it has none."""
        graph, facts = self._saved.graph, self._saved.variables[variable]
        if self._known is None:
            self._known = readers_of(graph)
        return value_of(graph, facts.node, facts.dtype, self._known)


class ModelVariable:
    """A variable of a loaded model: `await model.variables["dense/kernel"].read()`.

    facts       its name, type and shape in the export
    readers     the tensors that have the values of the model's variables
    session     runs the steps that read it
    name        that of its node
    trainable   whether training changes it

    Raises FailedPreconditionError if it has no value.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [], name="x")
    >>> y = x * graph.variable(2.0, name="w")
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     session.call(fe.saved_model.save, "export", signatures={"scale": ({"x": x}, {"y": y})})
    >>> with fe.blocking.load_saved_model("export") as model:
    ...     print(model.variables["w"], model.variables["w"].read())
    <ModelVariable 'w' float32 []> 2.0
    """

    def __init__(self, facts: StoredVariable, readers: _Readers, session: Any) -> None:
        self.name: str = facts.name
        self.dtype: DType = facts.dtype
        self.shape: TensorShape = facts.shape
        self.trainable: bool = facts.trainable
        self._readers = readers
        self._session = session

    def __repr__(self) -> str:
        return f"<ModelVariable '{self.name}' {self.dtype.name} {self.shape}>"

    def read(self) -> Any:
        """Return its present value as a step returns it; await it, except in a blocking program.

        Raises FailedPreconditionError if it has none.
        """
        return self._session.run(self._readers.of(self.name))


class Model:
    """A SavedModel in a session.

    saved        the content of its directory
    session      the session that runs it; if its calls are awaited, those of the model are, too
    signatures   {name: ModelSignature}
    variables    {name: ModelVariable}

    Use it with `async with` (a blocking one with `with`), or call `close`, which closes the session. Calls
    raise NotFoundError for an unknown name, InvalidArgumentError for inputs that do not fit, and the errors
    of a step. Cancelled, they leave the model usable.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> model = fe.blocking.load_saved_model("export")  # or `with ... as model:`
    >>> print(model, model([1.0, 2.0])["y"], model.signatures["double"](x=[3.0])["y"])
    <Model 'export' with double> [2. 4.] [6.]
    >>> model.close()
    """

    def __init__(self, saved: SavedGraph, session: Any) -> None:
        self.saved = saved
        self.session = session
        self.signatures: Mapping[str, ModelSignature] = _NamedEntries(
            "signature", {name: ModelSignature(each, session) for name, each in saved.signatures.items()}
        )
        self._readers = _Readers(saved)
        self.variables: Mapping[str, ModelVariable] = _NamedEntries(
            "variable",
            {name: ModelVariable(each, self._readers, session) for name, each in saved.variables.items()},
        )
        self._functions: Mapping[str, ModelFunction] | None = None

    def __repr__(self) -> str:
        return f"<Model '{self.saved.path}' with {', '.join(self.signatures) or 'no signatures'}>"

    def _repr_html_(self) -> str:
        from flowengine.core import html  # only for notebooks

        rows = [("tags", ", ".join(self.saved.tags) or "none"), ("variables", len(self.variables))]
        rows += [(f"signature {name}", each.facts.sides()) for name, each in self.signatures.items()]
        return f"<div>{html.code(f'Model {self.saved.path}')}{html.table(rows)}</div>"

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self.saved.graph

    @property
    def signature(self) -> ModelSignature:
        """The default signature: `serving_default`, or the only one.

        Raises InvalidArgumentError, with the names of all, if there is neither.
        """
        return self.signatures[default_signature(self.signatures)]

    @property
    def functions(self) -> Mapping[str, ModelFunction]:
        """{name: ModelFunction} of the functions that TensorFlow 2 saved; empty for other exports."""
        if self._functions is None:
            self._functions = _NamedEntries("function", functions_of(self.saved, self.session.run))
        return self._functions

    def __call__(self, *values: Any, **inputs: Any) -> Any:
        """Call the default signature."""
        return self.signature(*values, **inputs)

    def train(self, signature: str = "train", /, **inputs: Any) -> Any:
        """Run a training step: run the node that changes the variables, and return a signature's outputs.

        signature   the name of the signature whose inputs and outputs the step has
        inputs      its inputs by name

        Raises InvalidArgumentError if the export has no training node.

        >>> graph = fe.Graph()
        >>> x, w = graph.placeholder("float32", [], name="x"), graph.variable(1.0, name="w")
        >>> loss = fe.square(w - x)
        >>> step, signatures = fe.optimizers.SGD(0.5).minimize(loss), {"train": ({"x": x}, {"loss": loss})}
        >>> with fe.blocking.Session(graph) as session:
        ...     initialized = session.initialize()
        ...     session.call(fe.saved_model.save, "export", signatures=signatures, training=step)
        >>> with fe.blocking.load_saved_model("export") as model:
        ...     print(model.train(x=3.0)["loss"], model.variables["w"].read())
        4.0 3.0
        """
        if self.saved.training is None:
            raise InvalidArgumentError(
                f"{self.saved.path} has no training node: it was saved without training="
            )
        return self.signatures[signature].call(inputs, targets=[self.saved.training])

    def close(self) -> Any:
        """Close the session; await it, except for a blocking model. Closing twice does nothing."""
        return self.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        if getattr(self.session, "_await", "") != "":
            raise TypeError(
                "this model's calls are awaited: use `async with`; fe.blocking.load_saved_model(path) opens "
                "one for `with`"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AwaitedModel(Model):
    """A model of a trio or asyncio program: its calls are awaited."""

    if TYPE_CHECKING:

        def __call__(self, *values: Any, **inputs: Any) -> Awaitable[dict[str, Any]]: ...

        def close(self) -> Awaitable[None]: ...


class BlockingModel(Model):
    """A model of a script or notebook: its calls return the values."""

    if TYPE_CHECKING:

        def __call__(self, *values: Any, **inputs: Any) -> dict[str, Any]: ...

        def close(self) -> None: ...


class _NamedEntries(dict[str, Any]):
    """A mapping whose error for a name that is not there says which there are."""

    def __init__(self, what: str, held: Mapping[str, Any]) -> None:
        super().__init__(held)
        self._what = what

    def __missing__(self, name: str) -> Any:
        known = ", ".join(list(self)[:20]) or "none"
        raise NotFoundError(f"the model has no {self._what} '{name}' (it has: {known})")


def default_signature(signatures: Mapping[str, Any]) -> str:
    """The name of the one to call where none is named; InvalidArgumentError where that is not clear."""
    if DEFAULT_SIGNATURE in signatures:
        return DEFAULT_SIGNATURE
    if len(signatures) == 1:
        return next(iter(signatures))
    known = ", ".join(signatures) or "none"
    raise InvalidArgumentError(f"the model has no '{DEFAULT_SIGNATURE}': name a signature (it has: {known})")
