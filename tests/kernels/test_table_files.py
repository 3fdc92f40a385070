"""Tables filled from files: columns, counts, and lines that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes as dt
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.kernels.context import KernelContext
from flowengine.kernels.state.table_files import initialize_table_from_text_file
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.resources.table import HashTable


async def _fill(
    path: Path, key: dt.DType = dt.string, value: dt.DType = dt.int64, **changes: Any
) -> HashTable:
    table = HashTable("t", key, value)
    attrs: dict[str, Any] = {
        "key_index": -2,
        "value_index": -1,
        "vocab_size": -1,
        "delimiter": b"\t",
        "offset": 0,
    }
    attrs.update(changes)
    ctx = KernelContext(resources=ResourceManager(), step_container=StepContainer())
    await initialize_table_from_text_file(table, str(path).encode(), ctx=ctx, **attrs)
    return table


def _write(folder: Path, content: bytes) -> Path:
    path = folder / "lines"
    path.write_bytes(content)
    return path


async def test_lines_and_numbers(tmp_path: Path) -> None:
    table = await _fill(_write(tmp_path, b"a\nb\r\nc d\n"))
    keys, values = table.export()
    assert (keys.tolist(), values.tolist()) == ([b"a", b"b", b"c d"], [0, 1, 2])


async def test_columns_of_every_type(tmp_path: Path) -> None:
    path = _write(tmp_path, b"1,x,0.5\n-2,y,1e3\n")
    table = await _fill(path, dt.int32, dt.float32, key_index=0, value_index=2, delimiter=b",")
    assert table.find(np.array([-2, 1], np.int32), np.float32(0)).tolist() == [1000, 0.5]
    table = await _fill(path, dt.int64, dt.string, key_index=-1, value_index=1, delimiter=b",")
    assert table.find(np.array([0, 1]), b"").tolist() == [b"x", b"y"]


async def test_a_part_of_the_lines(tmp_path: Path) -> None:
    path = _write(tmp_path, b"a\nb\nc")
    assert (await _fill(path, vocab_size=2)).size == 2
    with pytest.raises(InvalidArgumentError, match=r"Invalid vocab_size in .*: expected 4 but got 3"):
        await _fill(path, vocab_size=4)


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (b"a\n\nb\n", {}, "empty line found at line 1"),
        (b"a\tb\nc\n", {"value_index": 1, "value": dt.string}, r"line 1 \(c\) : expected 2 got 1"),
        (b"a\tx\n", {"value_index": 1}, "Field x in line 0 of .* is not a valid int64"),
        (b"a\t%d\n" % 2**70, {"value_index": 1}, "is not a valid int64"),
        (b"a\n", {"value": dt.int32}, "line number requires table value dtype of int64, got int32"),
        (b"a\n", {"key": dt.float32}, "whole line requires string or integer table key, got float32"),
        (b"a\n", {"delimiter": b"::"}, "only 1 char"),
    ],
)
async def test_what_does_not_fit(
    tmp_path: Path, content: bytes, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        await _fill(_write(tmp_path, content), **changes)


async def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        await _fill(tmp_path / "nowhere")
    with pytest.raises(FailedPreconditionError, match="directory"):
        await _fill(tmp_path)
