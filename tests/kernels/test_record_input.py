"""RecordInput: every record once an epoch, in an order that the seed decides."""

from __future__ import annotations

import gc
import os
import struct
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import DataLossError, InvalidArgumentError, NotFoundError


def write(path: Path, records: list[bytes]) -> None:
    with path.open("wb") as file:
        for data in records:
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", mask(crc32c(length))))
            file.write(data + struct.pack("<I", mask(crc32c(data))))


async def drawn(pattern: Path, steps: int, batch: int, seed: int = 1, buffer: int = 4) -> list[bytes]:
    graph = fe.Graph()
    records = graph.ops.RecordInput(
        file_pattern=str(pattern), file_random_seed=seed, file_buffer_size=buffer, batch_size=batch
    )
    async with fe.Session(graph) as session:
        return [record for _ in range(steps) for record in await session.run(records)]


def _open_files() -> list[str]:
    return [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]


async def test_each_record_comes_once_an_epoch(tmp_path: Path) -> None:
    records = [b"%d" % i for i in range(20)]
    write(tmp_path / "a", records[:13])
    write(tmp_path / "b", records[13:])
    found = await drawn(tmp_path / "*", 12, 5)
    epochs = [found[at : at + 20] for at in range(0, 60, 20)]
    assert all(sorted(epoch) == sorted(records) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert await drawn(tmp_path / "*", 12, 5) == found
    assert await drawn(tmp_path / "*", 12, 5, seed=2) != found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="asks Linux for the files that are open")
async def test_the_file_is_closed_with_the_session(tmp_path: Path) -> None:
    """Not when the collector comes to it: that would warn of it, and warnings are errors here."""
    write(tmp_path / "a", [b"x" * 1000] * 2000)
    gc.disable()
    try:
        await drawn(tmp_path / "a", 1, 1)
        assert str(tmp_path / "a") not in _open_files()
    finally:
        gc.enable()


async def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="Found no files"):
        await drawn(tmp_path / "*", 1, 1)
    write(tmp_path / "empty", [])
    with pytest.raises(InvalidArgumentError, match="hold no record"):
        await drawn(tmp_path / "*", 1, 1)
    (tmp_path / "bad").write_bytes(b"not a record, by far")
    with pytest.raises(DataLossError, match="bad, record at offset 0"):
        await drawn(tmp_path / "bad", 1, 1)
