"""The values in which TensorFlow 2 says how a function is called: literals, structures, and specs of tensors.

decode(proto)      ((TensorSpec(float32 [?,2]), False), {})
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.values import to_value
from flowengine.ir.proto.saved_object_graph_pb2 import StructuredValue
from flowengine.ir.tensorproto import decode_tensor, shape_from_proto


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The requirements of a tensor argument; one of another kind than dense has several `components`."""

    name: str
    dtype: DType
    shape: TensorShape
    components: int = 1

    def __str__(self) -> str:
        kind = "" if self.components == 1 else f"{self.components} components of a "
        return f"{kind}{self.dtype.name} {self.shape}"

    def takes(self, value: Any) -> bool:
        """Whether a value fits, or can be converted without losing a kind of number."""
        if self.components != 1:
            return isinstance(value, tuple | list) and len(value) == self.components
        try:
            converted, _ = to_value(value, self.dtype)
        except InvalidArgumentError:
            return False
        return self.shape.is_compatible_with(TensorShape(getattr(converted, "shape", ())))


def decode(proto: StructuredValue) -> Any:
    """The value; InvalidArgumentError for a kind that is not known here."""
    kind = proto.WhichOneof("kind")
    if kind in ("float64_value", "int64_value", "string_value", "bool_value"):
        return getattr(proto, kind)
    if kind is None or kind == "none_value":
        return None
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        spec = getattr(proto, kind)
        return TensorSpec(spec.name, dtypes.from_number(spec.dtype), shape_from_proto(spec.shape))
    if kind == "type_spec_value":
        return _composite(proto)
    if kind == "tensor_shape_value":
        return shape_from_proto(proto.tensor_shape_value)
    if kind == "tensor_dtype_value":
        return dtypes.from_number(proto.tensor_dtype_value)
    if kind == "list_value":
        return [decode(each) for each in proto.list_value.values]
    if kind == "tuple_value":
        return tuple(decode(each) for each in proto.tuple_value.values)
    if kind == "dict_value":
        return {key: decode(proto.dict_value.fields[key]) for key in sorted(proto.dict_value.fields)}
    if kind == "named_tuple_value":
        pairs = {each.key: decode(each.value) for each in proto.named_tuple_value.values}
        return namedtuple(proto.named_tuple_value.name or "Values", list(pairs), rename=True)(*pairs.values())
    if kind in ("tensor_value", "numpy_value"):
        return decode_tensor(getattr(proto, kind))
    raise InvalidArgumentError(f"a structure of this SavedModel has a {kind}, which is not known here")


def _composite(proto: StructuredValue) -> TensorSpec:
    """The spec of a sparse, ragged or other tensor of several components: first shape and type in it."""
    spec = proto.type_spec_value
    state = list(leaves(decode(spec.type_state)))
    shape = next((each for each in state if isinstance(each, TensorShape)), TensorShape(None))
    dtype = next((each for each in state if isinstance(each, DType)), dtypes.variant)
    known = {spec.SPARSE_TENSOR_SPEC: 3, spec.VARIABLE_SPEC: 1}
    return TensorSpec("", dtype, shape, spec.num_flat_components or known.get(spec.type_spec_class, 1))


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a structure in TensorFlow's order: dicts by sorted keys."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key])
    elif isinstance(value, tuple | list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def alike(given: Any, spec: Any) -> bool:
    """Whether a value may stand where a function was traced with this."""
    if isinstance(spec, TensorSpec):
        return spec.takes(given)
    if isinstance(spec, dict):
        return (
            isinstance(given, dict)
            and given.keys() == spec.keys()
            and all(alike(given[key], spec[key]) for key in spec)
        )
    if isinstance(spec, tuple | list):
        return isinstance(given, tuple | list) and len(given) == len(spec) and all(map(alike, given, spec))
    if given is None or spec is None or isinstance(spec, bool):
        return given is spec
    return type(given) in (int, float, str) and bool(given == spec)


def values_for(given: Any, spec: Any) -> Iterator[Any]:
    """The values for the tensor arguments of a spec that `alike` has found to fit, in order."""
    if isinstance(spec, TensorSpec):
        if spec.components == 1:
            yield given
        else:
            yield from given
    elif isinstance(spec, dict):
        for key in sorted(spec):
            yield from values_for(given[key], spec[key])
    elif isinstance(spec, tuple | list):
        for value, each in zip(given, spec, strict=True):
            yield from values_for(value, each)


def packed(spec: Any, flat: Iterator[Any]) -> Any:
    """The structure with the next of these in the place of each tensor."""
    if isinstance(spec, TensorSpec):
        if spec.components == 1:
            return next(flat)
        return tuple(next(flat) for _ in range(spec.components))
    if isinstance(spec, dict):
        return {key: packed(spec[key], flat) for key in sorted(spec)}
    if isinstance(spec, tuple | list):
        parts = [packed(each, flat) for each in spec]
        return type(spec)(*parts) if hasattr(spec, "_fields") else type(spec)(parts)
    return spec
