"""Making one checkpoint of several that were saved side by side: data files are renamed, not copied."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from flowengine.checkpoint.entries import BundleEntry
from flowengine.checkpoint.files import DISK, FileLayer, data_files, data_path, free_total, index_path
from flowengine.checkpoint.reader import BundleReader, shown
from flowengine.checkpoint.writer import publish
from flowengine.core.errors import InvalidArgumentError, NotFoundError


def merge_bundles(
    prefixes: Sequence[str],
    destination: str,
    *,
    sync: bool = True,
    files: FileLayer = DISK,
    missing: bool = False,
) -> None:
    """The checkpoints under `prefixes` become one under `destination`, and are gone.

    Slices of one tensor may lie in several of them. Raises InvalidArgumentError for a tensor that is in
    two, NotFoundError where one is missing, unless `missing` says that all but one may.
    """
    if missing:
        there = [prefix for prefix in prefixes if files.allowed.exists(index_path(prefix))]
        if prefixes and not there:
            raise InvalidArgumentError(
                f"At least one prefix checkpoint must exist, but none of {prefixes} does"
            )
        prefixes = there
    if not prefixes:
        raise InvalidArgumentError("no checkpoints were given to merge")
    entries: dict[bytes, BundleEntry] = {}
    shards: dict[str, int] = {}
    for prefix in prefixes:
        with BundleReader(prefix, files=files.allowed) as reader:
            # Names before the keys of slices, so that what is there twice is told by its name.
            for key in sorted(reader.stored, key=lambda key: key[:1] == b"\x00"):
                entry = reader.entry(key)
                if entry.slices:
                    entries[key] = _with_slices(entries.get(key), entry, key)
                    continue
                if key in entries:
                    raise InvalidArgumentError(
                        f"Duplicate tensor keyed by {shown(key)} encountered, when merging prefix: {prefix}"
                    )
                source = data_path(prefix, entry.shard, reader.header.num_shards)
                entries[key] = replace(entry, shard=shards.setdefault(source, len(shards)))
    for source in shards:
        if not files.allowed.exists(source):
            raise NotFoundError(f"{source}: no such file, but the index beside it refers to it")
    files.make_folder(os.path.dirname(destination))
    total = free_total(destination, max(1, len(shards)), files.allowed)
    renames = [(source, data_path(destination, number, total)) for source, number in shards.items()]
    publish(destination, entries, renames, total, sync=sync, layer=files)
    for prefix in prefixes:
        if os.path.abspath(prefix) != os.path.abspath(destination):
            # Data files that are left had no tensor in them.
            for path in (index_path(prefix), *data_files(prefix, files.allowed)):
                with contextlib.suppress(OSError):
                    files.remove(path)


def _with_slices(known: BundleEntry | None, more: BundleEntry, key: bytes) -> BundleEntry:
    if known is None:
        return more
    if not known.slices or known.shape != more.shape or known.dtype != more.dtype:
        raise InvalidArgumentError(f"the slices of {shown(key)} are of tensors of different shapes or types")
    if set(known.slices) & set(more.slices):
        raise InvalidArgumentError(f"Duplicate slice of {shown(key)} encountered")
    return replace(known, slices=known.slices + more.slices)
