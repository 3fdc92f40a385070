"""Datasets that were saved on disk, in the form of TensorFlow's `tf.data.Dataset.save`.

A folder holds `snapshot.metadata`, which names a run, and the run's folder: one folder for each shard, in it
TFRecord files whose records are the components of elements, one after the other, as TensorProtos.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import trio

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.core.files.access import Files
from flowengine.core.shapes import TensorShape
from flowengine.ir.names import SHARD_READER
from flowengine.ir.proto.tensor_pb2 import TensorProto
from flowengine.ir.tensorproto import decode_tensor
from flowengine.ir.wire import BYTES, decode_varints, fields
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin, scalar, text
from flowengine.resources.data.files import tf_record_dataset
from flowengine.resources.data.functional import BoundFunction
from flowengine.resources.data.interleaving import opened
from flowengine.resources.data.sources import variant_of
from flowengine.resources.data.windows import dataset_of
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.records import checked_compression

METADATA: Final = "snapshot.metadata"
VERSION: Final = 2
#: Fields of the metadata's message.
ORIGIN_FIELD: Final = 1
RUN_FIELD: Final = 2
TIME_FIELD: Final = 3
VERSION_FIELD: Final = 4
TYPES_FIELD: Final = 5
COUNT_FIELD: Final = 6
FINAL_FIELD: Final = 1000
#: Bytes of an element that a thread decodes.
_LARGE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The metadata of a saved dataset.

    name       of the run's folder
    types      of the components of an element
    begun      when it was begun, in microseconds since 1970
    is_whole   whether it was saved to its end
    """

    name: str
    types: tuple[DType, ...]
    begun: int
    is_whole: bool


def run_of(data: bytes, path: str, *, whole: bool = True) -> SavedRun:
    """The run that metadata names.

    whole   refuse a run that is not

    DataLossError where it is damaged, FailedPreconditionError for a run that is not whole, or of another
    form.
    """
    found: dict[int, Any] = {}
    codes: list[int] = []
    try:
        for number, kind, value in fields(data):
            found[number] = bytes(value) if kind == BYTES else value
            if number == TYPES_FIELD:
                codes += decode_varints(value)[0].tolist() if kind == BYTES else [value]
        name = found[RUN_FIELD].decode()
        types = tuple(dtypes.as_dtype(code) for code in codes)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidArgumentError) as error:
        raise DataLossError(f"{path}: damaged metadata of a saved dataset: {error}") from error
    if not name.isdigit():
        raise DataLossError(f"{path}: damaged metadata of a saved dataset: a run called {name!r:.80}")
    if found.get(VERSION_FIELD, 0) != VERSION:
        raise FailedPreconditionError(
            f"{path}: a saved dataset of version {found.get(VERSION_FIELD, 0)}, not {VERSION}"
        )
    begun, is_whole = found.get(TIME_FIELD, 0), bool(found.get(FINAL_FIELD))
    if whole and not is_whole:
        raise FailedPreconditionError(f"{path}: the dataset is incomplete: save it again")
    return SavedRun(name, types, begun if isinstance(begun, int) else 0, is_whole)


def read_run(origin: Origin, path: str, *, whole: bool = True) -> SavedRun:
    """The run of a saved dataset, raising as `run_of`; NotFoundError where there is none. May block."""
    if origin.opener is None:
        raise FailedPreconditionError(f"{origin.op} reads files, but was made without access to files")
    name = os.path.join(path, METADATA)
    try:
        file = origin.opener(os.fsencode(name))
    except NotFoundError as error:
        raise NotFoundError(f"{path} holds no saved dataset: {error.message}") from error
    with closing(file):
        return run_of(file.read(), name, whole=whole)


def files_of_shard(files: Files, folder: str) -> list[bytes]:
    """The files of a shard's folder, in order. May block."""
    names = sorted(name for name in files.names(folder) if name.endswith(".snapshot"))
    return [os.fsencode(os.path.join(folder, name)) for name in names]


class LoadedDataset(DatasetValue):
    """The elements of a dataset that was saved, in the order in which a function goes through its shards.

    The function is given a dataset of datasets, one for each shard. Without one, shards follow one another.
    """

    __slots__ = ("call", "compression", "path")

    def __init__(self, origin: Origin, path: Value, reader_func_other_args: tuple[Value, ...] = ()) -> None:
        super().__init__(origin)
        self.path = os.fsdecode(text(path, "path"))
        self.compression = checked_compression(origin.attrs.get("compression") or b"", b"SNAPPY")
        self.call: BoundFunction | None = None
        if origin.attrs.get("reader_func") is not None:
            self.call = BoundFunction(origin.function("reader_func"), reader_func_other_args)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return DeferredIterator(iteration, self.begun)

    async def begun(self, iteration: Iteration) -> DataIterator:
        """Return an iterator through the files that exist now."""
        shards = await trio.to_thread.run_sync(self.shards, abandon_on_cancel=True)
        if self.call is None:
            whole = SavedShardDataset(self.origin, [name for names in shards.values() for name in names])
            return whole.iterator(iteration)
        each = [(variant_of(self._shard(folder)),) for folder in shards]
        given = variant_of(dataset_of(each, [dtypes.variant], [TensorShape([])]))
        return await opened(self.call, iteration, (given,))

    def _shard(self, folder: str) -> ShardFolderDataset:
        """The dataset of a shard, as the node makes it that reads one: so it can be written as a graph."""
        attrs: dict[str, Any] = {
            "output_types": self.types,
            "output_shapes": self.shapes,
            "compression": self.compression.encode(),
            "version": VERSION,
        }
        inputs = (os.fsencode(folder), np.int64(0))
        origin = replace(self.origin, op=SHARD_READER, attrs=attrs, inputs=inputs)
        return ShardFolderDataset(origin, *inputs)

    def shards(self) -> dict[str, list[bytes]]:
        """{folder of a shard: its files}. May block.

        Raises as `run_of`, and InvalidArgumentError for other types.
        """
        files = self.origin.files
        run = read_run(self.origin, self.path)
        if run.types != self.types:
            shown = [", ".join(each.name for each in types) for types in (run.types, self.types)]
            raise InvalidArgumentError(f"{self.path} holds elements of ({shown[0]}), not of ({shown[1]})")
        folder = os.path.join(self.path, run.name)
        shards = [os.path.join(folder, shard) for shard in sorted(files.names(folder))]
        return {shard: files_of_shard(files, shard) for shard in shards}


class DeferredIterator(DataIterator):
    """An iterator that is made when the first element is asked for."""

    __slots__ = ("_begin", "input")

    def __init__(self, iteration: Iteration, begin: Callable[[Iteration], Awaitable[DataIterator]]) -> None:
        super().__init__(iteration)
        self._begin = begin
        self.input: DataIterator | None = None

    async def _begun(self) -> DataIterator:
        if self.input is None:
            self.input = await self._begin(self.iteration)
        return self.input

    async def next(self) -> Element | None:
        return await (await self._begun()).next()

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        return await (await self._begun()).take(count, into)

    def close(self) -> None:
        if self.input is not None:
            self.input.close()

    async def state(self) -> dict[str, Any]:
        return {"input": None if self.input is None else await self.input.state()}

    async def restore(self, state: dict[str, Any]) -> None:
        if state["input"] is not None:
            await (await self._begun()).restore(state["input"])


class SavedShardDataset(DatasetValue):
    """The elements of files of one shard, of the types of the dataset that was saved."""

    __slots__ = ("records",)

    def __init__(self, origin: Origin, names: list[bytes]) -> None:
        super().__init__(origin)
        files = np.empty(len(names), object)
        files[:] = names
        compression = checked_compression(origin.attrs.get("compression") or b"", b"SNAPPY")
        plain = replace(origin, attrs={}, inputs=())
        self.records = tf_record_dataset(plain, files, compression.encode(), np.int64(0))

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ShardElements(iteration, self)

    def element(self, records: ElementRun) -> Element:
        """The element whose components these records are; DataLossError where they are not."""
        values: list[Value] = []
        for record, dtype in zip(records.columns[0], self.types, strict=True):
            try:
                proto = TensorProto.FromString(record)
                value: Any = decode_tensor(proto)
            except Exception as error:
                raise DataLossError(f"a record of a saved dataset is no tensor: {error}") from error
            if proto.dtype != dtype.base.number:
                raise DataLossError(f"a saved element holds a tensor that is no {dtype.name}")
            is_scalar = isinstance(value, np.ndarray) and not value.ndim and dtype is not dtypes.variant
            values.append(value[()] if is_scalar else value)
        return tuple(values)


class _ShardElements(DataIterator):
    __slots__ = ("_dataset", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: SavedShardDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.input: DataIterator = made.records.iterator(iteration)

    async def next(self) -> Element | None:
        made = self._dataset
        records = await self.input.take(len(made.types))
        if not records:
            return None
        if len(records) < len(made.types):
            raise DataLossError("a saved dataset ends in the middle of an element")
        if sum(map(len, records.columns[0])) < _LARGE:
            return made.element(records)
        return await trio.to_thread.run_sync(made.element, records)


class ShardFolderDataset(DatasetValue):
    """The elements of one shard of a snapshot, from one on."""

    __slots__ = ("path", "start")

    def __init__(self, origin: Origin, shard_dir: Value, start_index: Value) -> None:
        super().__init__(origin)
        self.path = os.fsdecode(text(shard_dir, "shard_dir"))
        self.start = scalar(start_index, "start_index")
        version = origin.attrs.get("version", VERSION)
        if version != VERSION:
            raise InvalidArgumentError(f"a snapshot of version {version}: only version {VERSION} can be read")
        if self.start < 0:
            raise InvalidArgumentError(f"start_index must be at least 0, not {self.start}")

    def iterator(self, iteration: Iteration) -> DataIterator:
        return DeferredIterator(iteration, self._begun)

    async def _begun(self, iteration: Iteration) -> DataIterator:
        names = await trio.to_thread.run_sync(self._names, abandon_on_cancel=True)
        found = SavedShardDataset(self.origin, names).iterator(iteration)
        left = self.start
        while left:
            passed = await found.take(min(left, 1024))
            if not passed:
                break
            left -= len(passed)
        return found

    def _names(self) -> list[bytes]:
        return files_of_shard(self.origin.files, self.path)
