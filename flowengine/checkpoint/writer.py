"""Writing TensorFlow's checkpoints of format V2, so that a crash leaves the last complete one.

Everything is written under other names and synced. Then the data file gets its name, and last the index:
until then nobody looks at the data. A checkpoint that is already there under the same prefix is replaced
in that one step, because the new data file takes another name than the old one has.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import numpy as np

from flowengine.checkpoint.elements import Check, never, numeric_pieces, string_pieces, variant_pieces
from flowengine.checkpoint.entries import HEADER_KEY, BundleEntry, BundleHeader
from flowengine.checkpoint.files import (
    DISK,
    FileLayer,
    aside,
    data_files,
    data_path,
    free_total,
    index_path,
)
from flowengine.checkpoint.reader import shown
from flowengine.checkpoint.slices import Shape, Slice, slice_key, slice_shape
from flowengine.checkpoint.table import TableWriter
from flowengine.core.arrays import Array, Value, describe, to_array
from flowengine.core.checksums.crc32c import mask
from flowengine.core.checksums.crc32c_pieces import Crc32c
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.tensorproto import VariantData

#: From this size on two threads share the work of a tensor.
_LARGE_BYTES: Final = 1 << 24


class BundleWriter:
    """A checkpoint being written; `finish` makes it appear, `abandon` leaves no trace of it.

        with BundleWriter("model.ckpt-1") as writer:
            writer.add(b"weights", array, dtypes.float32)

    Values are written as they are added and not kept. `sync=False` trusts the operating system to write
    what it was given: faster, and safe against everything but a crash of the machine. `check` is called
    between pieces of a large tensor and may raise to stop.
    """

    def __init__(
        self, prefix: str, *, sync: bool = True, files: FileLayer = DISK, check: Check = never
    ) -> None:
        self.prefix = prefix
        self._sync = sync
        self._layer = files
        self._check = check
        self._entries: dict[bytes, BundleEntry] = {}
        self._offset = 0
        files.make_folder(os.path.dirname(prefix))
        self._aside = aside(data_path(prefix, 0, 1))
        self._file: Any = files.create(self._aside)

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.abandon()

    def add(self, name: bytes, value: Value, dtype: DType) -> None:
        """Write a tensor; InvalidArgumentError for a name that there is already or an empty one."""
        if not name or name in self._entries:
            raise InvalidArgumentError(
                f"Adding duplicate key: {shown(name)}" if name else "a tensor's name is empty"
            )
        array = to_array(value)
        size = 0
        total = Crc32c()
        pieces: Iterator[tuple[Any, Any]]
        if dtype.size:
            if array.dtype.itemsize != dtype.size or array.dtype.hasobject:
                raise InvalidArgumentError(f"{shown(name)!r} is {describe(value)}, not {dtype}")
            pieces = ((piece, piece) for piece in numeric_pieces(array))
            if array.nbytes >= _LARGE_BYTES:
                self._write_and_sum(array, total)
                size, pieces = array.nbytes, iter(())
        elif dtype.name == "string":
            pieces = string_pieces(array.flat, array.size)
        elif all(isinstance(each, VariantData) for each in array.ravel().tolist()):
            pieces = variant_pieces(each.proto.SerializeToString() for each in array.ravel().tolist())
        else:
            raise UnimplementedError(f"{shown(name)!r} is of type {dtype}, which cannot be saved")
        for written, summed in pieces:
            self._check()
            total.update(summed)
            self._layer.write(self._file, written)
            size += len(written)
        self._entries[name] = BundleEntry(
            dtype.number, array.shape, offset=self._offset, size=size, crc=mask(total.value())
        )
        self._offset += size

    def _write_and_sum(self, array: Array, total: Crc32c) -> None:
        """Write a large array while another thread makes the sum."""
        stopped = False

        def make_sum() -> None:
            for piece in numeric_pieces(array):
                if stopped:
                    return
                total.update(piece)

        summing = threading.Thread(target=make_sum, name="flowengine checksum")
        summing.start()
        try:
            for piece in numeric_pieces(array):
                self._check()
                self._layer.write(self._file, piece)
        except BaseException:
            stopped = True
            raise
        finally:
            summing.join()

    def add_slice(self, name: bytes, shape: Shape, part: Slice, value: Value, dtype: DType) -> None:
        """Write a slice of a tensor of the given shape; InvalidArgumentError where they do not fit."""
        own = slice_shape(shape, part)
        if np.shape(value) != own:
            raise InvalidArgumentError(
                f"Slice of {shown(name)!r} has shape {list(np.shape(value))}, "
                f"its specification says {list(own)}"
            )
        if own == shape:
            self.add(name, value, dtype)
            return
        before = self._entries.get(name)
        if before is None:
            before = BundleEntry(dtype.number, shape)
        elif not before.slices:
            raise InvalidArgumentError(f"Adding duplicate key: {shown(name)}")
        elif before.shape != shape or before.dtype != dtype.number:
            raise InvalidArgumentError(
                f"a slice of {shown(name)!r} is {dtype} of a tensor of shape {list(shape)}, "
                f"an earlier one is of shape {list(before.shape)} or of another type"
            )
        self.add(slice_key(name, part), value, dtype)
        self._entries[name] = replace(before, slices=(*before.slices, part))

    def finish(self) -> None:
        """Complete the files and give them their names, the index last."""
        try:
            if self._sync:
                self._layer.sync(self._file)
            self._layer.close(self._file)
            self._file = None
            total = free_total(self.prefix, 1)
            publish(
                self.prefix,
                self._entries,
                [(self._aside, data_path(self.prefix, 0, total))],
                total,
                sync=self._sync,
                layer=self._layer,
            )
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            self._layer.close(self._file)
            self._file = None
        with contextlib.suppress(OSError):
            self._layer.remove(self._aside)


def publish(
    prefix: str,
    entries: dict[bytes, BundleEntry],
    renames: list[tuple[str, str]],
    total: int,
    *,
    sync: bool,
    layer: FileLayer,
) -> None:
    """Give complete data files their names, then the index that refers to them; old data goes last."""
    folder = os.path.dirname(prefix)
    path = index_path(prefix)
    index_aside = aside(path)
    file = layer.create(index_aside)
    try:
        try:
            table = TableWriter(lambda data: layer.write(file, data))
            table.add(HEADER_KEY, BundleHeader(total).encode())
            for key in sorted(entries):
                table.add(key, entries[key].encode())
            table.finish()
            if sync:
                layer.sync(file)
        finally:
            layer.close(file)
        for source, target in renames:
            layer.rename(source, target)
        if sync:
            layer.sync_folder(folder)
        layer.rename(index_aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            layer.remove(index_aside)
        raise
    if sync:
        layer.sync_folder(folder)
    for old, of in data_files(prefix, layer.allowed).items():
        if of != total:
            with contextlib.suppress(OSError):
                layer.remove(old)
