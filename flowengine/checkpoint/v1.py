"""TensorFlow's checkpoints of format V1: one table, with the values inside; old graphs come with them."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from flowengine.checkpoint.elements import Check, never
from flowengine.checkpoint.files import DISK, FileLayer, aside
from flowengine.checkpoint.reader import shown
from flowengine.checkpoint.slices import (
    Shape,
    Slice,
    cover,
    decode_shape,
    decode_slice,
    describe,
    encode_shape,
    encode_slice,
    slice_key,
    slice_shape,
)
from flowengine.checkpoint.table import TableReader, TableWriter
from flowengine.checkpoint.values import decode_values, encode_values, is_storable
from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.arrays import describe as describe_value
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnimplementedError,
)
from flowengine.core.files.access import SYSTEM, Files
from flowengine.core.public_names.suggest import asking, close_matches
from flowengine.ir.wire import bytes_field, field, fields

_META_KEY = b""


@dataclass(slots=True)
class _TensorEntry:
    dtype: int
    shape: Shape
    #: Each slice and the table that holds it.
    slices: list[tuple[Slice, TableReader]]


class V1Reader:
    """The checkpoint whose files match a pattern, open for reading; the same calls as `BundleReader`.

    Raises NotFoundError where no file matches and DataLossError where one is damaged.
    """

    def __init__(self, pattern: str, *, check: Check = never, files: Files = SYSTEM) -> None:
        self.pattern = pattern
        self._check = check
        self._tables: list[TableReader] = []
        self._tensors: dict[bytes, _TensorEntry] = {}
        paths = (
            [pattern] if files.is_file(pattern) else sorted(filter(files.is_file, files.matching(pattern)))
        )
        if not paths:
            raise NotFoundError(
                f"no checkpoint {pattern!r}{_similar(pattern, files)}: "
                f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {pattern}"
            )
        try:
            for path in paths:
                table = TableReader(path, files)
                self._tables.append(table)
                self._load(table)
        except BaseException:
            self.close()
            raise

    def _load(self, table: TableReader) -> None:
        stored = table.get(_META_KEY)
        if stored is None:
            raise DataLossError(
                f"{table.path}: Failed to find the saved tensor slices at the start of the table"
            )
        try:
            for number, _, meta in fields(stored):
                if number == 1:
                    for inner, _, content in fields(meta):
                        if inner == 1:
                            self._add(table, content)
        except (ValueError, TypeError) as error:
            raise DataLossError(f"{table.path}: bad list of tensors: {error}") from None

    def _add(self, table: TableReader, content: memoryview) -> None:
        name, dtype = b"", 0
        shape: Shape = ()
        slices: list[tuple[Slice, TableReader]] = []
        for number, _, value in fields(content):
            if number == 1:
                name = bytes(value)
            elif number == 2:
                shape = decode_shape(value)
            elif number == 3:
                dtype = value
            elif number == 4:
                slices.append((decode_slice(value), table))
        known = self._tensors.setdefault(name, _TensorEntry(dtype, shape, []))
        if known.dtype != dtype or known.shape != shape:
            raise DataLossError(
                f"{table.path}: tensor {shown(name)!r} has another type or shape in another file"
            )
        known.slices += slices

    def __enter__(self) -> V1Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for table in self._tables:
            table.close()

    def names(self) -> list[bytes]:
        """Every tensor's name, sorted."""
        return sorted(self._tensors)

    def __contains__(self, name: bytes) -> bool:
        return name in self._tensors

    def _tensor(self, name: bytes) -> _TensorEntry:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise NotFoundError(f'Tensor name "{shown(name)}" not found in checkpoint files {self.pattern}')
        return tensor

    def dtype(self, name: bytes) -> DType:
        """A tensor's element type; UnimplementedError for one that is not known here."""
        number = self._tensor(name).dtype
        try:
            return dtypes.from_number(number)
        except InvalidArgumentError:
            raise UnimplementedError(
                f"{self.pattern}: tensor {shown(name)!r} has element type number {number}, "
                "which is not supported"
            ) from None

    def shape(self, name: bytes) -> Shape:
        """The shape of a tensor, of the whole of one that is stored in slices."""
        return self._tensor(name).shape

    def slices(self, name: bytes) -> int:
        """In how many slices a tensor is stored."""
        return len(self._tensor(name).slices)

    def read(self, name: bytes, part: Slice | None = None) -> Array:
        """A tensor or a slice of it, as new memory; strings as an object array of bytes.

        Raises InvalidArgumentError for a slice that does not fit, or that what is stored does not cover.
        """
        tensor = self._tensor(name)
        dtype = self.dtype(name)
        if not is_storable(dtype):
            raise UnimplementedError(
                f"{self.pattern}: tensor {shown(name)!r} is of type {dtype}, which cannot be read"
            )
        if part is None:
            part = (None,) * len(tensor.shape)
        shape = slice_shape(tensor.shape, part)
        try:
            for stored, _ in tensor.slices:
                slice_shape(tensor.shape, stored)
        except InvalidArgumentError as error:
            raise DataLossError(f"{self.pattern}: tensor {shown(name)!r}: {error.message}") from None
        pieces = cover(tensor.shape, part, [stored for stored, _ in tensor.slices])
        if pieces is None:
            raise InvalidArgumentError(
                f"{self.pattern}: the stored slices of {shown(name)!r} do not cover the slice "
                f"{describe(part)!r} of shape {list(tensor.shape)}"
            )
        result = np.empty(shape, dtype.as_numpy_dtype)
        for position, inside, target in pieces:
            self._check()
            stored, table = tensor.slices[position]
            own = slice_shape(tensor.shape, stored)
            result[target] = self._values(table, name, stored, dtype, own)[inside]
        return result

    def _values(self, table: TableReader, name: bytes, part: Slice, dtype: DType, shape: Shape) -> Array:
        where = f"{table.path}: tensor {shown(name)!r}"
        try:
            content = table.get(slice_key(name, part))
        except DataLossError as error:
            raise DataLossError(f"{where}: {error.message}") from None
        if content is None:
            raise DataLossError(f"{where}: the slice {describe(part)!r} is missing")
        try:
            data = memoryview(b"")
            for number, _, saved in fields(content):
                if number == 2:
                    data = next((v for n, _, v in fields(saved) if n == 3), data)
            return decode_values(data, dtype, math.prod(shape)).reshape(shape)
        except (ValueError, TypeError) as error:
            raise DataLossError(f"{where}: {error}") from None


def _similar(prefix: str, files: Files) -> str:
    """Return "; did you mean ...?" with checkpoints in the folder of a prefix, or ""."""
    folder, name = os.path.split(prefix)
    try:
        there = [each.removesuffix(".index") for each in files.names(folder) if each.endswith(".index")]
    except (OSError, OpError):
        return ""
    return asking([os.path.join(folder, each) for each in close_matches(name, there, 3)])


@dataclass(frozen=True, slots=True)
class _SliceRecord:
    name: bytes
    shape: Shape
    part: Slice
    array: Array
    dtype: DType


class V1Writer:
    """A checkpoint of format V1 being written: added tensors are held until `finish` writes one file."""

    def __init__(
        self, path: str, *, sync: bool = True, files: FileLayer = DISK, check: Check = never
    ) -> None:
        self.path = path
        self._sync = sync
        self._layer = files
        self._check = check
        self._parts: dict[bytes, _SliceRecord] = {}
        self._order: dict[bytes, list[_SliceRecord]] = {}

    def __enter__(self) -> V1Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()

    def add(self, name: bytes, value: Value, dtype: DType) -> None:
        """Add a tensor; InvalidArgumentError for a name that there is already."""
        shape = to_array(value).shape
        self.add_slice(name, shape, (None,) * len(shape), value, dtype)

    def add_slice(self, name: bytes, shape: Shape, part: Slice, value: Value, dtype: DType) -> None:
        """Add a slice of a tensor of the given shape; InvalidArgumentError where they do not fit."""
        if not is_storable(dtype):
            raise UnimplementedError(f"{shown(name)!r} is of type {dtype}, which cannot be saved")
        array = to_array(value)
        if array.shape != slice_shape(shape, part):
            raise InvalidArgumentError(
                f"Slice of {shown(name)!r} has shape {list(array.shape)}, its specification says "
                f"{list(slice_shape(shape, part))}"
            )
        if dtype.size and (array.dtype.hasobject or array.dtype.itemsize != dtype.size):
            raise InvalidArgumentError(f"{shown(name)!r} is {describe_value(array)}, not {dtype}")
        key = slice_key(name, part)
        others = self._order.setdefault(name, [])
        if key in self._parts:
            raise InvalidArgumentError(f"Adding duplicate key: {shown(name)}")
        if others and (others[0].shape != shape or others[0].dtype is not dtype):
            raise InvalidArgumentError(f"the slices of {shown(name)!r} are of different shapes or types")
        added = _SliceRecord(name, shape, part, array, dtype)
        self._parts[key] = added
        others.append(added)

    def finish(self) -> None:
        """Write the file aside, sync it, and give it its name."""
        layer = self._layer
        layer.make_folder(os.path.dirname(self.path))
        temporary = aside(self.path)
        file = layer.create(temporary)
        try:
            try:
                table = TableWriter(lambda data: layer.write(file, data))
                table.add(_META_KEY, self._meta())
                for key in sorted(self._parts):
                    self._check()
                    table.add(key, _encode_part(self._parts[key]))
                table.finish()
                if self._sync:
                    layer.sync(file)
            finally:
                layer.close(file)
            layer.rename(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                layer.remove(temporary)
            raise
        if self._sync:
            layer.sync_folder(os.path.dirname(self.path))

    def _meta(self) -> bytes:
        tensors = b"".join(
            bytes_field(1, _encode_meta(name, parts)) for name, parts in sorted(self._order.items())
        )
        return bytes_field(1, tensors + bytes_field(2, field(1, 1)))


def _encode_meta(name: bytes, parts: Sequence[_SliceRecord]) -> bytes:
    first = parts[0]
    out = bytes_field(1, name) + bytes_field(2, encode_shape(first.shape)) + field(3, first.dtype.number)
    return out + b"".join(bytes_field(4, encode_slice(part.part)) for part in parts)


def _encode_part(part: _SliceRecord) -> bytes:
    values = bytes_field(3, encode_values(part.array, part.dtype))
    return bytes_field(2, bytes_field(1, part.name) + bytes_field(2, encode_slice(part.part)) + values)
