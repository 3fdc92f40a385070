"""A new model's rows and columns from an old one's checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.checkpoint import BundleWriter
from flowengine.core import dtypes
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.files import generate_vocab_remapping, load_and_remap_matrix
from flowengine.resources.container import ResourceManager, StepContainer


@pytest.fixture
def ctx() -> KernelContext:
    return KernelContext(resources=ResourceManager(), step_container=StepContainer())


def words(path: Path, *lines: str) -> bytes:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path).encode()


async def remap(ctx: KernelContext, new: bytes, old: bytes, **attrs: int) -> Any:
    chosen = {"new_vocab_offset": 0, "num_new_vocab": 3, "old_vocab_size": -1, **attrs}
    return await generate_vocab_remapping(new, old, ctx=ctx, **chosen)


async def test_where_words_have_gone(tmp_path: Path, ctx: KernelContext) -> None:
    new, old = words(tmp_path / "new", "c", "x", "a", "b"), words(tmp_path / "old", "a", "b", "c")
    places, found = await remap(ctx, new, old)
    assert places.tolist() == [2, -1, 0]
    assert found == 2
    assert (await remap(ctx, new, old, new_vocab_offset=1))[0].tolist() == [-1, 0, 1]
    assert (await remap(ctx, new, old, old_vocab_size=2))[0].tolist() == [-1, -1, 0]
    with pytest.raises(InvalidArgumentError, match="4 lines"):
        await remap(ctx, new, old, new_vocab_offset=2)
    with pytest.raises(InvalidArgumentError, match="3 lines"):
        await remap(ctx, new, old, old_vocab_size=4)
    with pytest.raises(FailedPreconditionError, match="lines 0 and 1"):
        await remap(ctx, new, words(tmp_path / "twice", "a", "a"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> bytes:
    prefix = str(tmp_path / "m")
    with BundleWriter(prefix) as writer:
        writer.add(b"w", np.arange(6, dtype=np.float32).reshape(3, 2), dtypes.float32)
    return prefix.encode()


async def load(
    ctx: KernelContext, path: bytes, rows: list[int], columns: list[int], fill: list[float], **more: Any
) -> Any:
    chosen: dict[str, Any] = {"num_rows": len(rows), "num_cols": len(columns) or 2, **more}
    return await load_and_remap_matrix(
        path, b"w", np.array(rows), np.array(columns, dtype=np.int64), np.array(fill), ctx=ctx, **chosen
    )


async def test_a_matrix_in_the_new_order(checkpoint: bytes, ctx: KernelContext) -> None:
    assert (await load(ctx, checkpoint, [2, 0], [], [])).tolist() == [[4, 5], [0, 1]]
    assert (await load(ctx, checkpoint, [2, -1], [1, 0], [7, 8])).tolist() == [[5, 4], [7, 8]]
    assert (await load(ctx, checkpoint, [1, 0], [-1, 0], [7, 8])).tolist() == [[7, 2], [8, 0]]


async def test_what_does_not_fit(checkpoint: bytes, ctx: KernelContext) -> None:
    for rows, columns, fill, more, error in (
        ([0, 0], [], [], {}, UnimplementedError),
        ([3], [], [], {}, InvalidArgumentError),
        ([0], [], [], {"num_rows": 2}, InvalidArgumentError),
        ([0], [], [], {"num_cols": 3}, InvalidArgumentError),
        ([-1], [], [1.0], {}, InvalidArgumentError),
    ):
        with pytest.raises(error):
            await load(ctx, checkpoint, rows, columns, fill, **more)
    with pytest.raises(NotFoundError):
        await load(ctx, checkpoint + b"x", [0], [], [])
