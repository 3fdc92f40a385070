"""The state file: TensorFlow's text, any path, folders that move."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import BundleWriter, V1Writer
from flowengine.checkpoint.files import checkpoint_prefix, remove_checkpoint
from flowengine.checkpoint.state import latest_checkpoint, read_state, write_state
from flowengine.core import dtypes
from flowengine.core.errors import DataLossError

#: As TensorFlow 1.15 wrote it.
THEIRS = r"""model_checkpoint_path: "/data/run/\303\274-2"
all_model_checkpoint_paths: "model-1"
all_model_checkpoint_paths: "/data/run/\303\274-2"
all_model_checkpoint_timestamps: 1.5
all_model_checkpoint_timestamps: 25000000000.0
last_preserved_timestamp: 1.0
"""


def empty_checkpoint(prefix: Path) -> str:
    with BundleWriter(str(prefix), sync=False):
        pass
    return str(prefix)


def test_what_tensorflow_wrote(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(THEIRS)
    state = read_state(str(tmp_path))
    assert state is not None
    assert state.latest == "/data/run/ü-2"
    assert state.all == (str(tmp_path / "model-1"), "/data/run/ü-2")


def test_other_ways_to_write_text(tmp_path: Path) -> None:
    text = "# by hand\nmodel_checkpoint_path : 'a\\x2d\\'1' ; all_model_checkpoint_paths:'b',\n"
    (tmp_path / "checkpoint").write_text(text)
    state = read_state(str(tmp_path))
    assert state is not None
    assert (state.latest, state.all) == (str(tmp_path / "a-'1"), (str(tmp_path / "b"),))
    text = 'last_preserved_timestamp: 1.5 all_model_checkpoint_timestamps: 2 model_checkpoint_path: "c"'
    (tmp_path / "checkpoint").write_text(text)
    state = read_state(str(tmp_path))
    assert state is not None
    assert (state.latest, state.all) == (str(tmp_path / "c"), ())


@pytest.mark.parametrize(
    "text", ["model_checkpoint_path", "{", "model_checkpoint_path: 3", '"a"', 'model_checkpoint_path: "a']
)
def test_what_is_no_state_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(text)
    with pytest.raises(DataLossError, match="not a checkpoint state file"):
        latest_checkpoint(str(tmp_path))


def test_nothing_is_no_state(tmp_path: Path) -> None:
    assert read_state(str(tmp_path)) is None
    assert latest_checkpoint(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_text("")
    assert latest_checkpoint(str(tmp_path)) is None


@given(
    st.lists(
        st.binary(min_size=1, max_size=20).filter(
            lambda b: not set(b) & set(b"/\x00") and b not in (b".", b"..")
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_path_comes_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[bytes], relative: bool
) -> None:
    folder = str(tmp_path_factory.mktemp("state"))
    prefixes = [os.path.join(folder, os.fsdecode(name)) for name in names]
    write_state(folder, prefixes, relative=relative, sync=False)
    state = read_state(folder)
    assert state is not None
    assert (state.latest, list(state.all)) == (prefixes[-1], prefixes)


def test_a_folder_may_move(tmp_path: Path) -> None:
    for relative in (True, False):
        old, new = tmp_path / f"old{relative}", tmp_path / f"new{relative}"
        old.mkdir()
        write_state(str(old), [empty_checkpoint(old / f"m-{n}") for n in range(4)], relative=relative)
        old.rename(new)
        for number in (3, 2, 1, 0):
            assert latest_checkpoint(str(new)) == str(new / f"m-{number}")
            remove_checkpoint(str(new / f"m-{number}"))
        assert latest_checkpoint(str(new)) is None


def test_what_lies_elsewhere_is_named_as_it_is(tmp_path: Path) -> None:
    other = empty_checkpoint(tmp_path / "other")
    (tmp_path / "run").mkdir()
    write_state(str(tmp_path / "run"), [other], name="best")
    assert latest_checkpoint(str(tmp_path / "run"), "best") == other
    assert other in (tmp_path / "run" / "best").read_text()


def test_a_file_means_its_checkpoint(tmp_path: Path) -> None:
    prefix = empty_checkpoint(tmp_path / "m-1")
    for ending in ("", ".index", ".data-00000-of-00001", ".meta"):
        assert checkpoint_prefix(prefix + ending) == prefix
    assert checkpoint_prefix("some.index") == "some.index"


def test_a_state_is_printable_text(tmp_path: Path) -> None:
    """Whatever bytes a path has: as protobuf's own text has them, one line a checkpoint."""
    names = [bytes([byte]) * 2 for byte in range(1, 256) if byte != ord("/") and byte != ord(".")]
    prefixes = [os.path.join(str(tmp_path), os.fsdecode(name)) for name in names]
    write_state(str(tmp_path), prefixes, sync=False)
    lines = (tmp_path / "checkpoint").read_bytes().split(b"\n")
    assert len(lines) == len(prefixes) + 2
    assert all(0x20 <= byte < 0x7F for line in lines for byte in line)
    state = read_state(str(tmp_path))
    assert state is not None
    assert list(state.all) == prefixes


def test_removing_takes_either_format_and_no_folder(tmp_path: Path) -> None:
    new = empty_checkpoint(tmp_path / "new")
    old = tmp_path / "old"
    with V1Writer(str(old), sync=False) as writer:
        writer.add(b"x", np.zeros(1, np.float32), dtypes.float32)
    folder = tmp_path / "folder"
    empty_checkpoint(folder)
    folder.mkdir()
    (folder / "kept").touch()
    for prefix in (new, str(old), str(folder), str(tmp_path / "gone")):
        remove_checkpoint(prefix)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (folder / "kept").exists()
