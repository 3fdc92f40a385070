"""Reading TensorFlow's checkpoints of format V2: an index and the data files beside it."""

from __future__ import annotations

import copy
import io
import math
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NoReturn

import numpy as np

from flowengine.checkpoint.elements import PIECE_BYTES, Check, never, octets, read_strings, read_variants
from flowengine.checkpoint.entries import HEADER_KEY, VERSION, BundleEntry, BundleHeader
from flowengine.checkpoint.files import data_path, index_path
from flowengine.checkpoint.slices import Shape, Slice, cover, describe, slice_key, slice_shape, to_index
from flowengine.checkpoint.table import TableReader
from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.checksums.crc32c import mask
from flowengine.core.checksums.crc32c_pieces import Crc32c
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnimplementedError,
)
from flowengine.core.files.access import SYSTEM, Files
from flowengine.core.files.kinds import kind_of
from flowengine.ir.tensorproto import variant_data

#: Bytes at a file's beginning that may say that it is something else, such as a Git LFS pointer.
_MAGIC_BYTES: Final = 64


def shown(name: bytes) -> str:
    """A tensor's name for a message."""
    return name.decode("utf-8", "backslashreplace")


class BundleReader:
    """A checkpoint, open for reading.

    Opening raises NotFoundError where there is no index, and DataLossError where it is damaged; reading
    raises NotFoundError for a name that is not in it, and DataLossError naming file and tensor.
    `check` is called between pieces of a large tensor and may raise to stop.
    """

    def __init__(self, prefix: str, *, check: Check = never, files: Files = SYSTEM) -> None:
        self.prefix = prefix
        self.index_path = index_path(prefix)
        self._check = check
        self._allowed = files
        self._files: dict[int, io.FileIO] = {}
        table = TableReader(self.index_path, files)
        try:
            self._stored: dict[bytes, bytes] = dict(table)
        finally:
            table.close()
        self._entries: dict[bytes, BundleEntry] = {}
        header = self._stored.pop(HEADER_KEY, None)
        if header is None:
            raise DataLossError(f"{self.index_path}: the header is missing")
        try:
            self.header = BundleHeader.decode(header)
        except (ValueError, TypeError) as error:
            raise DataLossError(f"{self.index_path}: bad header: {error}") from None
        if self.header.big_endian:
            raise UnimplementedError(f"{prefix}: a checkpoint of a big-endian machine cannot be read")
        if self.header.min_consumer > VERSION:
            raise InvalidArgumentError(
                f"{prefix}: needs a reader of format version {self.header.min_consumer}; "
                f"this one knows {VERSION}"
            )

    def another(self, check: Check) -> BundleReader:
        """The same checkpoint with files and a check of its own, for another thread; close it, too."""
        other = copy.copy(self)
        other._files = {}
        other._check = check
        return other

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def names(self) -> list[bytes]:
        """Every tensor's name, sorted; a tensor in slices counts once."""
        # Keys of slices start with a zero byte.
        return sorted(key for key in self._stored if not key.startswith(b"\x00"))

    def __contains__(self, name: bytes) -> bool:
        return name in self._stored

    @property
    def stored(self) -> Mapping[bytes, bytes]:
        """Everything but the header as it is stored, slices included: for `entry` by key."""
        return self._stored

    def entry(self, name: bytes) -> BundleEntry:
        """Return the index entry of a tensor, or of the slice with this key."""
        entry = self._entries.get(name)
        if entry is None:
            stored = self._stored.get(name)
            if stored is None:
                raise NotFoundError(f"Key {shown(name)} not found in checkpoint {self.prefix}")
            try:
                entry = BundleEntry.decode(stored)
            except (ValueError, TypeError) as error:
                raise DataLossError(f"{self.index_path}: bad entry of {shown(name)!r}: {error}") from None
            self._entries[name] = entry
        return entry

    def dtype(self, name: bytes) -> DType:
        """A tensor's element type; UnimplementedError for one that is not known here."""
        number = self.entry(name).dtype
        try:
            return dtypes.from_number(number)
        except InvalidArgumentError:
            raise UnimplementedError(
                f"{self.index_path}: tensor {shown(name)!r} has element type number {number}, "
                "which is not supported"
            ) from None

    def shape(self, name: bytes) -> Shape:
        """The shape of a tensor, of the whole of one that is stored in slices."""
        return self.entry(name).shape

    def slices(self, name: bytes) -> int:
        """In how many slices a tensor is stored."""
        return max(1, len(self.entry(name).slices))

    def stored_bytes(self, name: bytes) -> int:
        """How much of the data files a tensor takes, with all its slices."""
        entry = self.entry(name)
        keys = [slice_key(name, part) for part in entry.slices]
        return entry.size + sum(self.entry(key).size for key in keys if key in self._stored)

    def read(self, name: bytes, part: Slice | None = None) -> Array:
        """A tensor or a slice of it, as new memory; strings as an object array of bytes.

        Raises InvalidArgumentError for a slice that does not fit, or that what is stored does not cover.
        """
        entry = self.entry(name)
        if not entry.slices:
            whole = self._read_stored(name, name)
            if part is None:
                return whole
            wanted = slice_shape(entry.shape, part)
            return whole if wanted == entry.shape else whole[to_index(part)].copy()
        dtype = self.dtype(name)
        if part is None:
            part = (None,) * len(entry.shape)
        shape = slice_shape(entry.shape, part)
        try:
            for stored in entry.slices:
                slice_shape(entry.shape, stored)
        except InvalidArgumentError as error:
            self._damaged(self.index_path, name, error.message)
        pieces = cover(entry.shape, part, entry.slices)
        if pieces is None:
            raise InvalidArgumentError(
                f"{self.prefix}: the stored slices of {shown(name)!r} do not cover the slice "
                f"{describe(part)!r} of shape {list(entry.shape)}"
            )
        result = np.empty(shape, dtype.as_numpy_dtype)
        for position, inside, target in pieces:
            stored = entry.slices[position]
            key = slice_key(name, stored)
            if key not in self._stored:
                self._damaged(self.index_path, name, f"the slice {describe(stored)!r} is missing")
            one = self.entry(key)
            if one.dtype != entry.dtype or one.shape != slice_shape(entry.shape, stored):
                self._damaged(self.index_path, name, f"the slice {describe(stored)!r} is of another kind")
            result[target] = self._read_stored(key, name)[inside]
        return result

    def _damaged(self, path: str, name: bytes, what: str) -> NoReturn:
        with self._allowed.open_raw(path) as file:
            kind = kind_of(os.pread(file.fileno(), _MAGIC_BYTES, 0))
        if kind is not None:
            raise DataLossError(f"{path}: it is {kind}")
        raise DataLossError(f"{path}: tensor {shown(name)!r}: {what}")

    def _read_stored(self, key: bytes, name: bytes) -> Array:
        """The tensor under a key, which is the whole of `name` or a slice of it."""
        entry = self.entry(key)
        dtype = self.dtype(key)
        path = data_path(self.prefix, entry.shard, self.header.num_shards)
        if dtype.as_numpy_dtype.hasobject and dtype not in (dtypes.string, dtypes.variant):
            raise UnimplementedError(
                f"{path}: tensor {shown(name)!r} is of type {dtype}, which cannot be read"
            )
        count = math.prod(entry.shape)
        if dtype.size and entry.size != count * dtype.size:
            self._damaged(
                self.index_path, name, f"{entry.size} bytes for {dtype} of shape {list(entry.shape)}"
            )
        try:
            file = self._open(entry.shard, path)
            if entry.offset + entry.size > os.fstat(file.fileno()).st_size:
                self._damaged(path, name, f"the file ends before the {entry.size} bytes at {entry.offset}")
            if not dtype.size:
                variants = dtype is dtypes.variant
                return self._read_objects(file, path, entry, count, name, variants=variants)
            array = np.empty(entry.shape, dtype.as_numpy_dtype)
            crc = self._read_into(file, entry.offset, octets(array), path, name)
        except OSError as error:
            raise _translated(error, path, name) from error
        if mask(crc) != entry.crc:
            self._damaged(path, name, "the checksum does not match the stored bytes")
        return array

    def _open(self, shard: int, path: str) -> io.FileIO:
        file = self._files.get(shard)
        if file is None:
            file = self._files[shard] = self._allowed.open_raw(path)
        return file

    def _read_into(self, file: io.FileIO, offset: int, target: Any, path: str, name: bytes) -> int:
        """Fill the target with what is stored from an offset on; its checksum."""
        file.seek(offset)
        total = Crc32c()
        for start in range(0, len(target), PIECE_BYTES):
            self._check()
            piece = memoryview(target)[start : start + PIECE_BYTES]
            filled = 0
            while filled < len(piece):
                got = file.readinto(piece[filled:])
                if not got:
                    self._damaged(path, name, "the file is shorter than it was")
                filled += got
            total.update(piece)
        return total.value()

    def _read_objects(
        self, file: io.FileIO, path: str, entry: BundleEntry, count: int, name: bytes, *, variants: bool
    ) -> Array:
        """Strings, or encoded variants."""
        if count > entry.size:
            self._damaged(
                path, name, f"{entry.size} bytes for {count} {'variants' if variants else 'strings'}"
            )
        stored = bytearray(entry.size)
        self._read_into(file, entry.offset, stored, path, name)
        try:
            elements: list[Any]
            elements, crc = (read_variants if variants else read_strings)(bytes(stored), count)
            if variants:
                elements = [variant_data(each) for each in elements]
        except ValueError as error:
            self._damaged(path, name, str(error))
        if mask(crc) != entry.crc:
            self._damaged(path, name, "the checksum does not match the stored bytes")
        array = np.empty(count, dtype=object)
        array[:] = elements
        return array.reshape(entry.shape)


def _translated(error: OSError, path: str, name: bytes) -> OSError | OpError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{path}: no such file, but tensor {shown(name)!r} should be in it")
    return error
