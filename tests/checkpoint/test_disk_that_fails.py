"""A disk that fails at each call in turn: what was there stays, and nothing half written is left."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.checkpoint import BundleWriter, FileLayer, V1Writer, merge_bundles, open_checkpoint
from flowengine.checkpoint.files import replace_file
from flowengine.core import dtypes


class FailingDisk(FileLayer):
    """Fails at the `number`-th call that changes something; removing works, or nothing could be tidied."""

    def __init__(self, number: int) -> None:
        self.left = number

    def _call(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "the disk fails")

    def create(self, path: str) -> Any:
        self._call()
        return super().create(path)

    def write(self, file: Any, data: Any) -> None:
        self._call()
        super().write(file, data)

    def sync(self, file: Any) -> None:
        self._call()
        super().sync(file)

    def rename(self, source: str, target: str) -> None:
        self._call()
        super().rename(source, target)


def _bundle(folder: Path, files: FileLayer, value: float) -> None:
    with BundleWriter(str(folder / "m"), files=files) as writer:
        writer.add(b"a", np.full(3, value, np.float32), dtypes.float32)


def _old(folder: Path, files: FileLayer, value: float) -> None:
    with V1Writer(str(folder / "m"), files=files) as writer:
        writer.add(b"a", np.full(3, value, np.float32), dtypes.float32)


def _values(folder: Path) -> float:
    with open_checkpoint(str(folder / "m")) as reader:
        return float(reader.read(b"a")[0])


@pytest.mark.parametrize("write", [_bundle, _old])
def test_a_save_that_fails_leaves_the_one_before(
    write: Callable[[Path, FileLayer, float], None], tmp_path: Path
) -> None:
    write(tmp_path, FileLayer(), 1)
    for number in range(100):
        before = sorted(path.name for path in tmp_path.iterdir())
        try:
            write(tmp_path, FailingDisk(number), 2)
        except OSError:
            assert _values(tmp_path) == 1
            left = {path.name for path in tmp_path.iterdir()} - set(before)
            # New data under its final name waits for an index; nothing else is left over.
            assert all(".data-" in name and "tempstate" not in name for name in left)
        else:
            break
    assert number > 3
    assert _values(tmp_path) == 2


def test_a_small_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    for number in range(20):
        try:
            replace_file(str(path), b"new", sync=True, files=FailingDisk(number))
        except OSError:
            assert path.read_bytes() == b"old"
            assert [each.name for each in tmp_path.iterdir()] == ["checkpoint"]
        else:
            break
    assert number == 4  # created, written, synced, renamed
    assert path.read_bytes() == b"new"


def test_a_merge_that_fails_leaves_the_parts_or_can_be_seen(tmp_path: Path) -> None:
    """Until the first data file has its new name the parts are whole; no index appears before all have."""
    folder, number = tmp_path, 0
    for number in range(20):
        folder = tmp_path / str(number)
        prefixes = [str(folder / f"part{part}" / "m") for part in range(2)]
        for part, prefix in enumerate(prefixes):
            Path(prefix).parent.mkdir(parents=True)
            with BundleWriter(prefix, sync=False) as writer:
                writer.add(b"%d" % part, np.float32(part), dtypes.float32)
        try:
            merge_bundles(prefixes, str(folder / "merged"), files=FailingDisk(number))
        except OSError:
            assert not (folder / "merged.index").exists()
            assert not [path for path in folder.rglob("*tempstate*") if "part" not in path.parent.name]
        else:
            break
    assert number > 4
    with open_checkpoint(str(folder / "merged")) as reader:
        assert [float(reader.read(name)) for name in reader.names()] == [0, 1]
