"""Whole files read, written and found by pattern. The event loop never waits for the disk."""

from __future__ import annotations

import glob
import os
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.kernels.checkpoint import on_thread, require_writing
from flowengine.kernels.context import KernelContext
from flowengine.kernels.file_access import path_of, require_reading
from flowengine.kernels.registry import kernel


@kernel("ReadFile", heavy=False)
async def read_file(filename: Value, *, ctx: KernelContext) -> bytes:
    """All that the file holds (string, rank 0)."""
    path = path_of(filename)
    require_reading(ctx, path)

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read()

    return await on_thread(read, path)


@kernel("WriteFile", heavy=False)
async def write_file(filename: Value, contents: Value, *, ctx: KernelContext) -> None:
    """Make the file hold `contents` (string, rank 0) and nothing else; its folder is made if need be."""
    path = path_of(filename)
    (data,) = to_array(contents).reshape(-1).tolist()
    require_writing(ctx, path)

    def write() -> None:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    await on_thread(write, path)


@kernel("MatchingFiles", heavy=False)
async def matching_files(pattern: Any, *, ctx: KernelContext) -> Array:
    """The files that match any of the patterns (string, rank 0 or 1), sorted.

    `*` and `?` stay within one part of a path, `[a-z]` is one of some characters.
    """
    patterns = [os.fsdecode(each) for each in to_array(pattern).reshape(-1).tolist()]
    for each in patterns:
        require_reading(ctx, each)

    def find() -> list[bytes]:
        found: set[str] = set()
        for each in patterns:
            found.update(glob.glob(each, include_hidden=True))
        return sorted(os.fsencode(path) for path in found)

    paths = await on_thread(find, patterns[0] if patterns else "")
    result = np.empty(len(paths), dtype=object)
    result[:] = paths
    return result
