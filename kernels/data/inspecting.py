"""What a dataset or an iterator is, asked by nodes; tables out of datasets."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import ask_for, bytes_of
from flowengine.core.arrays import Value, describe, scalar_element, to_array
from flowengine.core.checksums.hashing import fingerprint64
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto import VariantTensorDataProto
from flowengine.ir.tensorproto import decode_tensor, encode_tensor
from flowengine.kernels.context import KernelContext
from flowengine.kernels.data.dataset_graphs import graph_of
from flowengine.kernels.data.iterators import checked_iterator
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.tables import as_hash_table
from flowengine.resources.data.dataset import Iteration, check_types, checked_dataset, shape_of


class CompressedElement:
    """An element of a dataset, compressed; never changed.

    types   of its components
    size    the bytes that `data` becomes
    """

    __slots__ = ("data", "size", "types")

    def __init__(self, data: bytes, size: int, types: Sequence[DType]) -> None:
        self.data = data
        self.size = size
        self.types = tuple(types)

    def held_values(self) -> tuple[bytes]:
        """What it takes: `accounting.Composite`."""
        return (self.data,)


def _compressing_cost(*inputs: Any) -> float:
    """Microseconds: 100 bytes each."""
    return sum(map(bytes_of, inputs[0])) / 100


@kernel("CompressElement", heavy=_compressing_cost)
def compress_element(components: tuple[Value, ...], *, input_types: Sequence[DType]) -> CompressedElement:
    """The components (any number of tensors) as one variant of rank 0, compressed.

    Raises InvalidArgumentError for a component that is no tensor of numbers or strings, and
    ResourceExhaustedError where the step may not take what stands beside them meanwhile.
    """
    # As a message, as its text, and compressed, which may be as long.
    ask_for(3 * sum(map(bytes_of, components)))
    proto = VariantTensorDataProto()
    for number, (value, dtype) in enumerate(zip(components, input_types, strict=True)):
        if dtype in (dtypes.variant, dtypes.resource):
            raise InvalidArgumentError(f"component {number} is of type {dtype.name}, which is not compressed")
        proto.tensors.append(encode_tensor(to_array(value), dtype))
    text = proto.SerializeToString()
    proto.Clear()
    return CompressedElement(zlib.compress(text, 1), len(text), input_types)


@kernel("UncompressElement", fresh=True, heavy=lambda compressed, **_: bytes_of(compressed) / 20)
def uncompress_element(
    compressed: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> Any:
    """The components again; InvalidArgumentError where they are not what the node declares.

    ResourceExhaustedError where they are more than the step may still take, before they are there.
    """
    value = compressed
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.hasobject:
        value = value.item()
    if not isinstance(value, CompressedElement):
        raise InvalidArgumentError(
            f"Tensor does not contain a compressed element, but {describe(compressed)}"
        )
    ask_for(3 * value.size)  # as text, as a message, and as tensors
    proto = VariantTensorDataProto.FromString(zlib.decompress(value.data))
    found = [scalar_element(decode_tensor(each)) for each in proto.tensors]
    check_types(value.types, output_types, output_shapes, [TensorShape(shape_of(each)) for each in found])
    return found[0] if len(found) == 1 else tuple(found)


@kernel("DatasetCardinality", "ExperimentalDatasetCardinality", heavy=False)
def dataset_cardinality(input_dataset: Any) -> Any:
    """How many elements a dataset has (int64, rank 0); -1: without end, -2: nobody knows."""
    return np.int64(checked_dataset(input_dataset).cardinality())


@kernel("DatasetFingerprint", heavy=False)
def dataset_fingerprint(input_dataset: Any) -> Any:
    """A number (uint64, rank 0) that datasets of one graph have in common."""
    return np.uint64(fingerprint64(graph_of(checked_dataset(input_dataset))))


@kernel("GetOptions", heavy=False)
def get_options(input_dataset: Any) -> bytes:
    """The options that a dataset was given last, serialized (string, rank 0); empty for none."""
    found = checked_dataset(input_dataset)
    while True:
        options = found.origin.attrs.get("serialized_options")
        if isinstance(options, bytes):
            return options
        sources = found.sources()
        if not sources:
            return b""
        found = sources[0]


@kernel("IteratorGetDevice", "ExperimentalIteratorGetDevice", heavy=False)
def iterator_get_device(resource: Any) -> bytes:
    """The device that an iterator is on (string, rank 0)."""
    return checked_iterator(resource).device.encode()


@kernel("InitializeTableFromDataset", heavy=False)
async def initialize_table_from_dataset(table_handle: Any, dataset: Any, *, ctx: KernelContext) -> None:
    """Fill a table with the elements of a dataset, each a key and its value (rank 0).

    InvalidArgumentError for elements that are no such pairs; what a table says of pairs that are not of its
    types, and of keys that come twice. A step that is cancelled, or that ends in an error, leaves the table
    without entries.
    """
    table = as_hash_table(table_handle)
    found = checked_dataset(dataset, "dataset")
    if len(found.types) != 2:
        raise InvalidArgumentError(
            f"a table is filled from a dataset of keys and values, not of {len(found.types)} components"
        )
    table.check_types(*found.types)
    iteration = Iteration(ctx.resources.services)
    source = found.iterator(iteration)
    pairs: list[tuple[Any, Any]] = []
    try:
        while (element := await source.next()) is not None:
            for what, value in zip(("key", "value"), element, strict=True):
                if shape_of(value):
                    raise InvalidArgumentError(
                        f"a {what} for a table must be a scalar, not of shape {list(shape_of(value))}"
                    )
            key, value = element
            pairs.append((_plain(key), _plain(value)))
    finally:
        source.close()
        iteration.tasks.cancel()
    table.initialize(pairs, len(pairs))


def _plain(value: Any) -> Any:
    """A component of rank 0 as a Python value."""
    return value if isinstance(value, bytes) else value.item()
