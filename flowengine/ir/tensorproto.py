"""TensorProto to value and back, in every form in which a tensor is written down.

The elements stand in `tensor_content` (their bytes; for strings varint lengths, then the bytes) or in
the list of the field that belongs to the type (`float_val`, `int_val`, ...), of which the last element
stands for all that are missing; an empty list means zeros. Surplus elements of a list are ignored, as
TensorFlow does.

A file may claim anything, so what it claims is checked before anything is allocated: `check_tensor`
looks at shape and lengths only. A short list may stand for a large tensor. One repeated element costs
nothing however large the shape (the value is a read-only broadcast view); several elements of which
the last repeats are written out, up to `EXPANDED_BYTES_MAX`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np
from google.protobuf.message import DecodeError

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array, unchangeable
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.proto import ResourceHandleProto, TensorProto, TensorShapeProto, VariantTensorDataProto
from flowengine.ir.wire import read_varint

#: Bytes that a tensor with fewer stored elements than it has may take when they are written out. A
#: protocol buffer holds at most this much, so no tensor that is stored in full meets the limit.
EXPANDED_BYTES_MAX: Final = 2**31

#: A splat of up to so many bytes is written out: a contiguous array is faster to compute with.
_SPLAT_BYTES_MAX: Final = 64 * 1024

#: NumPy's limit; no TensorFlow kernel handles more than 8.
_RANK_MAX: Final = 64

#: Elements of an array are counted in this.
_ELEMENTS_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ResourceHandle:
    """A constant handle: where a resource is to be looked up. `proto` keeps what else it says."""

    device: str
    container: str
    name: str
    type_name: str
    proto: ResourceHandleProto


@dataclass(frozen=True, slots=True)
class VariantData:
    """An encoded variant, not interpreted: the name of its type, its metadata and its tensors."""

    type_name: str
    metadata: bytes
    tensors: tuple[TensorAttr, ...]
    proto: VariantTensorDataProto


class _Form(NamedTuple):
    """How one type is written: the field of its list, elements of that list for each of its own."""

    field: str
    width: int = 1


_FORMS: Final[dict[DType, _Form]] = {
    dtypes.float32: _Form("float_val"),
    dtypes.float64: _Form("double_val"),
    dtypes.float16: _Form("half_val"),
    dtypes.bfloat16: _Form("half_val"),
    dtypes.complex64: _Form("scomplex_val", 2),
    dtypes.complex128: _Form("dcomplex_val", 2),
    dtypes.int64: _Form("int64_val"),
    dtypes.uint32: _Form("uint32_val"),
    dtypes.uint64: _Form("uint64_val"),
    dtypes.bool_: _Form("bool_val"),
    dtypes.string: _Form("string_val"),
    dtypes.resource: _Form("resource_handle_val"),
    dtypes.variant: _Form("variant_val"),
    **dict.fromkeys(
        (
            dtypes.int8,
            dtypes.int16,
            dtypes.int32,
            dtypes.uint8,
            dtypes.uint16,
            dtypes.qint8,
            dtypes.qint16,
            dtypes.qint32,
            dtypes.quint8,
            dtypes.quint16,
            dtypes.int4,
            dtypes.uint4,
            dtypes.int2,
            dtypes.uint2,
        ),
        _Form("int_val"),
    ),
    # A byte each, in one string of bytes.
    **dict.fromkeys((d for d in dtypes.STORAGE if d.is_floating), _Form("float8_val")),
}


def shape_from_proto(proto: TensorShapeProto) -> TensorShape:
    """The partial shape; InvalidArgumentError for a dimension below -1 or too many elements."""
    if proto.unknown_rank:
        if proto.dim:
            raise InvalidArgumentError("a shape of unknown rank has dimensions")
        return TensorShape(None)
    sizes = [dim.size for dim in proto.dim]
    elements = 1
    for size in sizes:
        if size < -1:
            raise InvalidArgumentError(f"shape {_abbreviate(sizes)} has the dimension {size}")
        if size > 0:
            elements *= size
            if elements > _ELEMENTS_MAX:
                raise InvalidArgumentError(
                    f"shape {_abbreviate(sizes)} is too large (more than 2**63 - 1 elements)"
                )
    return TensorShape(sizes)


def shape_to_proto(shape: TensorShape) -> TensorShapeProto:
    if shape.dims is None:
        return TensorShapeProto(unknown_rank=True)
    dim = TensorShapeProto.Dim
    return TensorShapeProto(dim=[dim(size=-1 if d is None else d) for d in shape.dims])


def tensor_attr(proto: TensorProto) -> TensorAttr:
    """The constant that a TensorProto holds: checked now, decoded when first asked for.

    Raises InvalidArgumentError where `check_tensor` does. The proto is kept, not copied.
    """
    dtype, shape = check_tensor(proto)
    return TensorAttr(dtype, shape, lambda: _decode(proto, dtype, shape), proto)


def stored_elements(attr: TensorAttr) -> Array | None:
    """The elements that a constant of numbers was read with, the last of which stands for all that follow.

    None where that is all of them, one alone, none, or where it was not read from a graph. Nothing is written
    out.
    """
    proto, dtype = attr.source, attr.dtype
    if not isinstance(proto, TensorProto) or proto.tensor_content or not dtype.size:
        return None
    elements = attr.shape.num_elements() or 0
    if not 1 < len(getattr(proto, _FORMS[dtype].field)) // _FORMS[dtype].width < elements:
        return None
    return unchangeable(_stored(proto, dtype, elements))


def decode_tensor(proto: TensorProto) -> Value:
    """The tensor's value, read-only; `bytes` for a string of rank 0.

    Raises InvalidArgumentError for contents that do not fit type or shape, ResourceExhaustedError where
    there is no memory for it.
    """
    dtype, shape = check_tensor(proto)
    return _decode(proto, dtype, shape)


def check_tensor(proto: TensorProto) -> tuple[DType, TensorShape]:
    """Type and shape, if what the proto claims can be true; allocates nothing of the claimed size.

    Raises InvalidArgumentError for an unknown or reference type, a shape that is negative or overflows,
    contents of another length than the shape asks for, or too large an expansion.
    """
    dtype = dtypes.from_number(proto.dtype)
    if dtype.is_ref:
        raise InvalidArgumentError(f"a tensor cannot have the reference type {dtype}")
    # No tensor has an unknown rank: without dimensions it is a scalar.
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    if len(sizes) > _RANK_MAX:
        raise InvalidArgumentError(f"a tensor of rank {len(sizes)}; at most {_RANK_MAX} can be held")
    elements, reach = 1, 1
    for size in sizes:
        if size < 0:
            raise InvalidArgumentError(f"a tensor of shape {_abbreviate(sizes)}: {size} is negative")
        elements *= size
        # NumPy refuses an overflow by the other dimensions even beside a zero.
        reach *= max(size, 1)
        if reach * max(dtype.size, 8) > _ELEMENTS_MAX:
            raise InvalidArgumentError(
                f"a tensor of shape {_abbreviate(sizes)} is too large (more than 2**63 - 1 bytes)"
            )
    form = _FORMS[dtype]
    content_length = len(proto.tensor_content)
    if content_length:
        _check_content(dtype, sizes, elements, content_length)
    else:
        stored = len(getattr(proto, form.field)) // form.width
        if 1 < stored < elements and elements * (dtype.size or 8) > EXPANDED_BYTES_MAX:
            raise InvalidArgumentError(
                f"a {dtype} tensor of shape {_abbreviate(sizes)} with {stored} stored elements would take "
                f"{elements * (dtype.size or 8)} bytes; at most {EXPANDED_BYTES_MAX} are written out"
            )
    return dtype, TensorShape(sizes)


def _check_content(dtype: DType, sizes: list[int], elements: int, length: int) -> None:
    if dtype.size:
        if length != elements * dtype.size:
            raise InvalidArgumentError(
                f"a {dtype} tensor of shape {_abbreviate(sizes)} takes {elements * dtype.size} bytes, "
                f"its tensor_content has {length}"
            )
    elif dtype is not dtypes.string:
        raise InvalidArgumentError(f"a {dtype} tensor cannot stand in tensor_content")
    elif length < elements:
        # Each string needs at least the byte that holds its length.
        raise InvalidArgumentError(f"{elements} strings cannot stand in a tensor_content of {length} bytes")


def _abbreviate(sizes: list[int]) -> str:
    text = ",".join(map(str, sizes[:12]))
    return f"[{text},...]" if len(sizes) > 12 else f"[{text}]"


def _decode(proto: TensorProto, dtype: DType, shape: TensorShape) -> Value:
    dims = tuple(d for d in shape.as_list() if d is not None)
    elements = shape.num_elements() or 0
    array: Any
    try:
        content = proto.tensor_content
        if not content:
            array = _expand(_stored(proto, dtype, elements), dtype, dims, elements)
        elif dtype is dtypes.string:
            array = _object_array(_split_strings(content, elements)).reshape(dims)
        else:
            array = _from_bytes(content, dtype).reshape(dims)
    except MemoryError:
        raise ResourceExhaustedError(
            f"no memory for a {dtype} tensor of shape {_abbreviate(list(dims))}"
        ) from None
    if not dims and dtype is dtypes.string:
        return array[()]
    array.flags.writeable = False
    return array


def _from_bytes(content: bytes, dtype: DType) -> Array:
    if dtype is dtypes.bool_ and content.strip(b"\x00\x01"):
        # NumPy computes nonsense with bools that are other than 0 and 1.
        truth: Array = np.frombuffer(content, np.uint8) != 0
        return truth
    array: Array = np.frombuffer(content, dtype.as_numpy_dtype)
    if sys.byteorder == "big" and dtype.size > 1:
        array = array.byteswap()
    return array


def _split_strings(content: bytes, count: int) -> list[bytes]:
    """The strings behind `count` varint lengths."""
    lengths = []
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(content, position)
            lengths.append(length)
    except ValueError:
        raise InvalidArgumentError("the lengths of strings in tensor_content are cut off") from None
    if position + sum(lengths) != len(content):
        raise InvalidArgumentError(
            f"the strings of a tensor_content should take {sum(lengths)} bytes and have "
            f"{len(content) - position}"
        )
    strings = []
    for length in lengths:
        strings.append(content[position : position + length])
        position += length
    return strings


def _stored(proto: TensorProto, dtype: DType, elements: int) -> Array:
    """The elements that the typed list holds, at most as many as the tensor has."""
    field, width = _FORMS[dtype]
    if field == "float8_val":
        return np.frombuffer(proto.float8_val[:elements], dtype.as_numpy_dtype)
    values: list[Any] = getattr(proto, field)[: elements * width]
    if dtype is dtypes.resource:
        return _object_array([_handle(v) for v in values])
    if dtype is dtypes.variant:
        return _object_array([_variant(v) for v in values])
    if dtype is dtypes.string:
        return _object_array(values)
    if field == "half_val":
        # The upper halves of the integers carry nothing.
        bits = np.array(values, np.int64).astype(np.uint16)
        return bits.view(ml_dtypes.bfloat16 if dtype is dtypes.bfloat16 else np.float16)
    if width == 2:
        parts = np.array(values[: len(values) // 2 * 2], dtype.as_numpy_dtype.type(0).real.dtype)
        return parts.view(dtype.as_numpy_dtype)
    if field == "int_val":
        # Narrow types wrap around.
        return np.array(values, np.int32).astype(dtype.as_numpy_dtype)
    return np.array(values, dtype.as_numpy_dtype)


def _expand(stored: Array, dtype: DType, dims: tuple[int, ...], elements: int) -> Array:
    """Repeat the last stored element until the shape is full."""
    if len(stored) == elements:
        return unchangeable(stored.reshape(dims))
    if not len(stored):
        stored = _object_array([_zero(dtype)]) if not dtype.size else np.zeros(1, dtype.as_numpy_dtype)
    if len(stored) == 1 and elements * (dtype.size or 8) > _SPLAT_BYTES_MAX:
        return np.broadcast_to(stored.reshape(()), dims)
    array = np.empty(elements, dtype.as_numpy_dtype)
    array[: len(stored)] = stored
    array[len(stored) :] = stored[-1]
    return unchangeable(array.reshape(dims))


def _zero(dtype: DType) -> object:
    if dtype is dtypes.string:
        return b""
    if dtype is dtypes.resource:
        return _handle(ResourceHandleProto())
    return _variant(VariantTensorDataProto())


def _handle(proto: ResourceHandleProto) -> ResourceHandle:
    return ResourceHandle(proto.device, proto.container, proto.name, proto.maybe_type_name, proto)


def _variant(proto: VariantTensorDataProto) -> VariantData:
    tensors = tuple(tensor_attr(t) for t in proto.tensors)
    return VariantData(proto.type_name, proto.metadata, tensors, proto)


def variant_data(serialized: bytes) -> VariantData:
    """An encoded variant from its bytes; ValueError where they are none."""
    proto = VariantTensorDataProto()
    try:
        proto.ParseFromString(serialized)
    except DecodeError as error:
        raise ValueError(f"no variant can be read: {error}") from None
    return _variant(proto)


def _object_array(items: list[Any]) -> Array:
    """A vector of Python objects, whatever they are (NumPy would look into sequences)."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def encode_tensor(value: Value, dtype: DType) -> TensorProto:
    """A TensorProto of this type, `tensor_content` for numbers as TensorFlow's clients write it.

    value   what `core.arrays` says a tensor is, its elements of this type
    Raises InvalidArgumentError where the type has no written form for the elements.
    """
    if dtype.is_ref:
        raise InvalidArgumentError(f"a tensor cannot have the reference type {dtype}")
    array = to_array(value)
    proto = TensorProto(tensor_shape=shape_to_proto(TensorShape(array.shape)))
    set_type(proto, dtype)
    if dtype.size:
        if array.dtype != dtype.as_numpy_dtype:
            raise InvalidArgumentError(f"an array of {array.dtype} given for a {dtype} tensor")
        with np.errstate(invalid="ignore"):
            is_nan = not array.ndim and bool(array != array)
        # On its way through a list a NaN may lose its payload: it is written as bytes.
        if not array.ndim and not is_nan:
            _encode_scalar(proto, array, dtype)
        else:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False) if dtype.size > 1 else array
            proto.tensor_content = np.ascontiguousarray(little).tobytes()
        return proto
    flat = array.ravel().tolist()
    if dtype is dtypes.string:
        proto.string_val.extend(flat)
    elif dtype is dtypes.resource and all(isinstance(v, ResourceHandle) for v in flat):
        proto.resource_handle_val.extend(v.proto for v in flat)
    elif dtype is dtypes.variant and all(isinstance(v, VariantData) for v in flat):
        proto.variant_val.extend(v.proto for v in flat)
    else:
        kinds = sorted({type(v).__name__ for v in flat})
        raise InvalidArgumentError(f"a {dtype} tensor of {', '.join(kinds)} cannot be written to a graph")
    return proto


def _encode_scalar(proto: TensorProto, array: Array, dtype: DType) -> None:
    """One element in its typed list, which is what text shows readably."""
    field, width = _FORMS[dtype]
    if field == "float8_val":
        proto.float8_val = array.tobytes()
        return
    if field == "half_val":
        values: list[Any] = [int(array.view(np.uint16)[()])]
    elif width == 2:
        values = [float(array.real), float(array.imag)]
    else:
        values = [int(array) if dtype in dtypes.STORAGE else array.item()]
    getattr(proto, field).extend(values)


def set_type(proto: Any, dtype: DType | int, field: str = "dtype") -> None:
    """Set an enum field to a type's number (generated stubs want an enum's member there)."""
    setattr(proto, field, dtype if isinstance(dtype, int) else dtype.number)
