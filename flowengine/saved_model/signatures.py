"""Signatures: the ways to call an exported graph, by names of their own for inputs and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto import SignatureDef, TensorInfo, TensorProto
from flowengine.ir.tensorproto import decode_tensor, shape_from_proto

if TYPE_CHECKING:
    from flowengine.saved_model.batching import BatchedSignature

#: The signature that a server answers where none is named, by convention.
DEFAULT_SIGNATURE: Final = "serving_default"


class SparseValue(NamedTuple):
    """A sparse tensor as three arrays: (n, rank) indices int64, (n,) values, (rank,) dense_shape int64.

    >>> value = fe.saved_model.SparseValue([[0, 1]], [2.0], [1, 3])  # [[0, 2.0, 0]]
    """

    indices: Any
    values: Any
    dense_shape: Any


@dataclass(frozen=True, slots=True, repr=False)
class SignatureTensor:
    """An input or output of a signature, under one name.

    tensors        the graph's tensors: one; for a sparse tensor those of indices, values and dense shape; for
                   another composite one its components
    dtype, shape   of a composite one: of its values, as far as the export says
    is_sparse, is_composite   whether it is fed as three arrays, or as a tuple of components
    default        the value to feed if the caller gives none; None if it must

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None, 2], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> saved = fe.saved_model.read_saved_model("export")
    >>> saved.signatures["double"].inputs["x"], saved.checkpoint
    (<SignatureTensor float32 [?,2]>, None)
    """

    tensors: tuple[str, ...]
    dtype: DType
    shape: TensorShape
    is_sparse: bool = False
    is_composite: bool = False
    default: Any = None

    def __str__(self) -> str:
        kind = "sparse " if self.is_sparse else "composite " if self.is_composite else ""
        return f"{kind}{self.dtype.name} {self.shape}"

    def __repr__(self) -> str:
        optional = "" if self.default is None else ", optional"
        return f"<SignatureTensor {self}{optional}>"

    def pairs(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Return (tensor, value to feed) for a caller's `value`; InvalidArgumentError if parts are missing.

        `name` is that of the input, for the message.

        >>> from flowengine.saved_model.signatures import SignatureTensor
        >>> x = SignatureTensor(("x:0",), fe.dtypes.float32, fe.TensorShape([None]))
        >>> x.pairs("x", [1.0, 2.0])
        [('x:0', [1.0, 2.0])]
        """
        if not (self.is_sparse or self.is_composite):
            return [(self.tensors[0], value)]
        if all(hasattr(value, part) for part in SparseValue._fields):
            value = [getattr(value, part) for part in SparseValue._fields]
        if not isinstance(value, Sequence) or len(value) != len(self.tensors):
            parts = ", ".join(SparseValue._fields) if self.is_sparse else f"{len(self.tensors)} components"
            raise InvalidArgumentError(f"input '{name}' is a {self}: give it a tuple of {parts}")
        return list(zip(self.tensors, value, strict=True))

    @property
    def fetches(self) -> Any:
        """The fetches for the value: one tensor, or several for a sparse or composite one."""
        if self.is_sparse:
            return SparseValue(*self.tensors)
        return tuple(self.tensors) if self.is_composite else self.tensors[0]


@dataclass(frozen=True, slots=True, repr=False)
class SignatureFacts:
    """A signature as the export describes it; `method` is its purpose, in TensorFlow's words."""

    name: str
    inputs: Mapping[str, SignatureTensor]
    outputs: Mapping[str, SignatureTensor]
    method: str = ""

    def feeds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return {tensor: value} for these inputs; InvalidArgumentError naming missing or unknown ones."""
        unknown = [name for name in values if name not in self.inputs]
        missing = [name for name, each in self.inputs.items() if name not in values and each.default is None]
        if unknown or missing:
            faults = [f"it has no input {', '.join(map(repr, unknown))}"] if unknown else []
            faults += [f"input {', '.join(map(repr, missing))} is missing"] if missing else []
            raise InvalidArgumentError(f"{self.described()}: {'; '.join(faults)}")
        fed: dict[str, Any] = {}
        for name, each in self.inputs.items():
            fed.update(each.pairs(name, values.get(name, each.default)))
        return fed

    def inputs_of(self, values: Sequence[Any], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs by name; InvalidArgumentError if `values` are not those of the only input."""
        if not values:
            return inputs
        if len(values) > 1 or len(self.inputs) != 1:
            raise InvalidArgumentError(f"{self.described()}: give its inputs by name")
        return {next(iter(self.inputs)): values[0]} | dict(inputs)

    def name_inputs(self, error: OpError) -> None:
        """Put the caller's names into an error that names the tensors that were fed."""
        for name, each in self.inputs.items():
            for tensor in each.tensors:
                error.message = error.message.replace(f"'{tensor}'", f"input '{name}'")

    def fetches(self) -> dict[str, Any]:
        """Return the fetches for the outputs, by name; a node without outputs is run, and gives None."""
        return {name: each.fetches for name, each in self.outputs.items()}

    def __repr__(self) -> str:
        return f"<SignatureFacts '{self.name}' ({self.sides()})>"

    def described(self) -> str:
        """Return its name, inputs and outputs in a line, with dtypes and shapes."""
        return f"signature '{self.name}' ({self.sides()})"

    def sides(self) -> str:
        """Return its inputs and outputs in a line, with dtypes and shapes."""
        return " -> ".join(
            ", ".join(f"{name} {each}" for name, each in side.items()) or "nothing"
            for side in (self.inputs, self.outputs)
        )


@dataclass(frozen=True, slots=True, repr=False)
class ModelSignature:
    """A signature of a loaded model: call it with its inputs by name.

    facts   its name, inputs and outputs

    A call returns {name: value} of the outputs, as `Session.run` returns values; await it, except for a
    blocking model. It raises the errors of a step, and InvalidArgumentError for inputs that are missing or
    unknown. Cancelled, it leaves the model usable.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> with fe.blocking.load_saved_model("export") as model:
    ...     signature = model.signatures["double"]
    ...     print(signature, signature(x=[1.0, 2.0])["y"], signature.call({"x": [3.0]})["y"])
    <ModelSignature 'double' (x float32 [?] -> y float32 [?])> [2. 4.] [6.]
    """

    facts: SignatureFacts
    _session: Any

    def __repr__(self) -> str:
        return f"<ModelSignature '{self.name}' ({self.facts.sides()})>"

    def _repr_html_(self) -> str:
        from flowengine.core import html  # only for notebooks

        rows = [
            *((f"input {name}", each) for name, each in self.inputs.items()),
            *((f"output {name}", each) for name, each in self.outputs.items()),
        ]
        return f"<div>{html.code(f'ModelSignature {self.name}')}{html.table(rows)}</div>"

    @property
    def name(self) -> str:
        """The name of the signature in the model."""
        return self.facts.name

    @property
    def inputs(self) -> Mapping[str, SignatureTensor]:
        """{name: SignatureTensor} of the inputs, sorted."""
        return self.facts.inputs

    @property
    def outputs(self) -> Mapping[str, SignatureTensor]:
        """{name: SignatureTensor} of the outputs, sorted."""
        return self.facts.outputs

    def __call__(self, *values: Any, **inputs: Any) -> Any:
        """Run one step. If the signature has one input, its value may come without the name."""
        return self.call(self.facts.inputs_of(values, inputs))

    def call(self, inputs: Mapping[str, Any], *, targets: Sequence[str] = (), options: Any = None) -> Any:
        """Run one step with `inputs` of any names, more nodes to run as `targets`, and `RunOptions`.

        `options` are those of the step; errors are those of a call.
        """
        feeds = self.facts.feeds(inputs)
        try:
            running = self._session.run(self.facts.fetches(), feeds, targets=targets, options=options)
        except OpError as error:
            self.facts.name_inputs(error)
            raise
        return self._awaited(running) if inspect.isawaitable(running) else running

    async def _awaited(self, running: Awaitable[Any]) -> Any:
        try:
            return await running
        except OpError as error:
            self.facts.name_inputs(error)
            raise

    async def prepare(self) -> None:
        """Make the plan of a call before the first call, in a trio program; at a target do nothing."""
        feeds = [tensor for each in self.inputs.values() for tensor in each.tensors]
        await self._session.prepare(self.facts.fetches(), feeds)

    def batched(
        self,
        *,
        max_rows: int,
        allowed_rows: Sequence[int] = (),
        wait_seconds: float = 0.0,
        batches_at_once: int = 1,
        max_waiting_rows: int | None = None,
        pad: bool | Mapping[str, Any] = False,
        split: bool = True,
    ) -> BatchedSignature:
        """Return this signature with concurrent calls computed together, as one batch of rows.

        max_rows           most rows of a batch
        allowed_rows       rising up to `max_rows`: a batch is filled up to one of these sizes with copies of
                           a row, for models that are planned for each size; empty for any size
        wait_seconds       how long the first rows of a batch wait for others though nothing is computed
        batches_at_once    the number of batches that are computed at a time
        max_waiting_rows   most rows of all calls that wait or are computed; None for any number
        pad                True: rows of different lengths are filled up to the longest of their batch with
                           their first element, as TensorFlow Serving does; {input: value} for other values
        split              whether a call may have more rows than `max_rows`, in several batches

        Raises InvalidArgumentError if the first dimension of an input or output is fixed or unknown, and for
        values that cannot be. Outputs keep the length that padding has given to the rows.
        """
        from flowengine.saved_model.batching import BatchedSignature

        return BatchedSignature(
            self.facts,
            self._session,
            max_rows=max_rows,
            allowed_rows=allowed_rows,
            wait_seconds=wait_seconds,
            batches_at_once=batches_at_once,
            max_waiting_rows=max_waiting_rows,
            pad=pad,
            split=split,
        )


def signature_facts(name: str, definition: SignatureDef) -> SignatureFacts:
    """Read the facts of a SignatureDef; InvalidArgumentError for a tensor of an unknown encoding."""
    defaults = definition.defaults
    inputs = {key: _tensor(definition.inputs[key], defaults.get(key)) for key in sorted(definition.inputs)}
    outputs = {key: _tensor(definition.outputs[key], None) for key in sorted(definition.outputs)}
    return SignatureFacts(name, inputs, outputs, definition.method_name)


def _tensor(info: TensorInfo, default: TensorProto | None) -> SignatureTensor:
    dtype = dtypes.from_number(info.dtype).base if info.dtype else dtypes.variant
    shape = shape_from_proto(info.tensor_shape) if info.HasField("tensor_shape") else TensorShape(None)
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        parts = info.coo_sparse
        names = (parts.indices_tensor_name, parts.values_tensor_name, parts.dense_shape_tensor_name)
        return SignatureTensor(names, dtype, shape, is_sparse=True)
    if kind == "composite_tensor":
        components = tuple(each.name for each in info.composite_tensor.components)
        return SignatureTensor(components, dtype, shape, is_composite=True)
    value = None if default is None else decode_tensor(default)
    return SignatureTensor((info.name,), dtype, shape, default=value)
