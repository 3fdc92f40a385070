"""Signatures: the ways to call an exported graph, by names of their own for inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto import SignatureDef, TensorInfo, TensorProto
from flowengine.ir.tensorproto import decode_tensor, shape_from_proto

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
