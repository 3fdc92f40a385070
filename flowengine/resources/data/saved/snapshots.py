"""Snapshots: a dataset is saved as it is gone through, and read from disk from then on.

The folder has one folder for each dataset that was saved in it, called by the number of its graph; in it lies
what `loading` reads.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any, Final

import trio

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin, text
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.saved.loading import (
    LoadedDataset,
    SavedShardDataset,
    read_run,
)
from flowengine.resources.data.saved.saving import SavedDataset, SavedWriter
from flowengine.resources.data.windows import dataset_of
from flowengine.resources.elements import Element

#: How long a run that was begun and not ended is left to whoever began it, unless the node says so.
_PENDING_SECONDS: Final = 24 * 3600
#: What becomes of the elements: they are read, they are saved, they pass, there are none any more.
READS, SAVES, PASSES, OVER = "reads", "saves", "passes", "over"
#: {what the first form of the node asks for: what becomes of the elements, whatever there is}
_MODES: Final = {"auto": "", "read": READS, "write": SAVES, "passthrough": PASSES}
_COMPRESSIONS: Final = {b"AUTO": b"SNAPPY", b"NONE": b""}


class SnapshotDataset(DerivedDataset):
    """The elements of another: saved the first time, read from then on.

    name              of its folder: the number of the graph of what is saved, so that datasets of one number
                      are taken for the same
    pending_seconds   for which a run that another has begun is left to it

    A run counts once its last element was given: who stops before leaves nothing behind. While another has
    begun a run that it has not ended, for up to a day, elements pass without being saved.
    """

    __slots__ = ("loaded", "name", "path", "pending_seconds", "saved")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        path: Value,
        reader_func_other_args: tuple[Value, ...],
        shard_func_other_args: tuple[Value, ...],
        name: str,
    ) -> None:
        super().__init__(origin, input_dataset)
        attrs = origin.attrs
        said = attrs.get("compression") or b""
        as_saved = replace(origin, attrs={**attrs, "compression": _COMPRESSIONS.get(said, said)})
        self.name = name
        whole = text(path, "path")
        prefixes = {attrs.get(name) or b"" for name in ("reader_prefix", "writer_prefix")}
        if len(prefixes) > 1:
            raise InvalidArgumentError(
                "reader_prefix and writer_prefix differ, so the saved data would never be read. "
                "Give both, or neither"
            )
        if prefix := prefixes.pop():
            whole = os.path.join(prefix, whole.lstrip(b"/"))
        folder = os.path.join(whole, os.fsencode(name))
        self.path = os.fsdecode(folder)
        self.pending_seconds = _PENDING_SECONDS
        self.loaded = LoadedDataset(as_saved, folder, reader_func_other_args)
        self.saved = _SavedSnapshot(as_saved, input_dataset, folder, shard_func_other_args, name)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SnapshotIterator(iteration, self)

    def cardinality(self) -> int:
        return self.source.cardinality()

    def mode(self) -> str:
        """Return the mode for the elements: to save, read or pass them. May block."""
        try:
            run = read_run(self.origin, self.path, whole=False)
        except NotFoundError:
            return SAVES
        if run.is_whole:
            return READS
        is_pending = run.begun > time.time_ns() // 1000 - self.pending_seconds * 10**6
        return PASSES if is_pending else SAVES


class FirstSnapshotDataset(SnapshotDataset):
    """The first form of a snapshot: its node says what becomes of the elements.

    The node says for how long a run of another is left to it, too. The order of the elements is that in which
    they were saved. Raises InvalidArgumentError for settings that TensorFlow refuses.
    """

    __slots__ = ("wanted",)

    def __init__(self, origin: Origin, input_dataset: Any, path: Value, number: str) -> None:
        attrs = origin.attrs
        compression = attrs.get("compression") or b""
        if compression not in (b"", b"GZIP", b"SNAPPY"):
            raise InvalidArgumentError("compression must be either '', 'GZIP' or 'SNAPPY'.")
        wanted = (attrs.get("mode") or b"auto").decode(errors="replace")
        if wanted not in _MODES:
            raise InvalidArgumentError(
                f"mode must be one of {', '.join(map(repr, _MODES))}, not {wanted!r:.80}"
            )
        pending = int(attrs.get("pending_snapshot_expiry_seconds", _PENDING_SECONDS))
        if pending < 1:
            raise InvalidArgumentError("pending_snapshot_expiry_seconds must be at least 1 second.")
        prefixes = {attrs.get(name) or b"" for name in ("reader_path_prefix", "writer_path_prefix")}
        if len(prefixes) > 1:
            raise InvalidArgumentError(
                "reader_path_prefix and writer_path_prefix differ, so the saved data would never be "
                "read. Give both, or neither"
            )
        name = attrs.get("snapshot_name") or b""
        if b"/" in name:
            raise InvalidArgumentError(f"snapshot_name must be the name of a folder, not {name!r:.80}")
        folder = prefixes.pop() + text(path, "path")
        own = f"custom-{os.fsdecode(name)}" if name else number
        kept = {key: attrs[key] for key in ("output_types", "output_shapes")}
        settings = {**kept, "compression": compression, "use_shard_func": False}
        super().__init__(replace(origin, attrs=settings), input_dataset, folder, (), (), own)
        self.origin = origin
        self.wanted = _MODES[wanted]
        self.pending_seconds = pending

    def mode(self) -> str:
        return self.wanted or super().mode()


class _SavedSnapshot(SavedDataset):
    __slots__ = ("number",)

    def __init__(
        self, origin: Origin, input_dataset: Any, path: bytes, others: tuple[Value, ...], number: str
    ) -> None:
        super().__init__(origin, input_dataset, path, others)
        self.number = number

    def writer(self) -> SavedWriter:
        return SavedWriter(self.origin.files, self.path, self.types, self.compression, self.number)


class _SnapshotIterator(DataIterator):
    __slots__ = ("_dataset", "input", "mode")

    def __init__(self, iteration: Iteration, made: SnapshotDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.mode: str | None = None
        self.input: DataIterator | None = None

    async def _begun(self) -> DataIterator:
        if self.input is None:
            if self.mode is None:
                self.mode = await trio.to_thread.run_sync(self._dataset.mode, abandon_on_cancel=True)
            self.input = self._of(self.mode)
        return self.input

    def _of(self, mode: str) -> DataIterator:
        made = self._dataset
        of: DatasetValue = {READS: made.loaded, SAVES: made.saved}.get(mode, made.source)
        return of.iterator(self.iteration)

    async def next(self) -> Element | None:
        if self.mode == OVER:
            return None
        element = await (await self._begun()).next()
        if element is None:
            self.mode = OVER
        return element

    def close(self) -> None:
        if self.input is not None:
            self.input.close()

    async def state(self) -> dict[str, Any]:
        """Return the iterator's state.

        An iterator restored to it saves no more, because its run would lack earlier elements.
        """
        if self.input is None or self.mode == OVER:
            return {"mode": self.mode, "input": None}
        if self.mode != SAVES:
            return {"mode": self.mode, "input": await self.input.state()}
        inner: DataIterator | None = getattr(self.input, "input", None)
        return {"mode": PASSES, "input": None if inner is None else await inner.state()}

    async def restore(self, state: dict[str, Any]) -> None:
        self.mode = state["mode"]
        if state["input"] is not None:
            await (await self._begun()).restore(state["input"])


def chunk_dataset(origin: Origin, chunk_file: Value) -> SavedShardDataset:
    """The elements of one file of a snapshot."""
    return SavedShardDataset(origin, [text(chunk_file, "chunk_file")])


def nested_dataset(origin: Origin, inputs: tuple[Value, ...]) -> DatasetValue:
    """The datasets themselves, each an element."""
    return dataset_of([(each,) for each in inputs], [dtypes.variant], [TensorShape([])])
