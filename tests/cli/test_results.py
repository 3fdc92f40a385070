"""Values on their way out: as text, as JSON, and in files that can be fed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from flowengine.cli import results
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable


def strings(*items: bytes) -> Any:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(2.5), "y:0 = 2.5"),
        (np.int64(7), "y:0 = 7"),
        (np.True_, "y:0 = True"),
        (b"abc", 'y:0 = "abc"'),
        (None, "y:0 done"),
        (np.array([1, 2], np.int32), "y:0  int32 [2]\n[1, 2]"),
        (strings(b"a", b"\x1b[2J"), 'y:0  string [2]\n["a", "\\u001b[2J"]'),
        (np.zeros((0, 3), np.float32), "y:0  float32 [0, 3]\n[]"),
    ],
)
def test_readable(value: Any, text: str) -> None:
    assert results.readable("y:0", value) == text


def test_a_large_array_is_shown_by_its_ends() -> None:
    assert len(results.readable("y:0", np.arange(100_000))) < 200


def test_names_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb c\\u202ed"
    assert "\x1b" not in results.readable("a\x1b]0;:0", np.float32(1))


def test_json_says_what_json_cannot() -> None:
    value = np.array([np.nan, np.inf, -np.inf, 1.5], np.float32)
    assert results.as_json(value) == {
        "dtype": "float32",
        "shape": [4],
        "value": ["NaN", "Infinity", "-Infinity", 1.5],
    }
    assert results.as_json(np.complex64(1 + 2j)) == {"dtype": "complex64", "shape": [], "value": [1.0, 2.0]}
    words = results.as_json(strings(b"ok", b"\xff"))
    assert words is not None
    assert words["value"] == ["ok", "\\xff"]
    assert results.as_json(ml_dtypes.bfloat16(1.5)) == {"dtype": "bfloat16", "shape": [], "value": 1.5}
    assert results.as_json(None) is None


@given(npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, min_side=0)))
def test_every_array_becomes_valid_json(array: Any) -> None:
    if array.dtype.kind in "mM":
        return
    document = {"values": {"y:0": results.as_json(array)}}
    assert json.loads(results.dumps(document)) == json.loads(results.dumps(document))


def test_archives_keep_dtype_shape_and_any_name(tmp_path: Path) -> None:
    values = {
        "scope/a:0": np.arange(6, dtype=np.int16).reshape(2, 3),
        "file": np.float64(0.1),
        "half:1": np.array([1.5], ml_dtypes.bfloat16),
        "words:0": strings(b"a", b"bcd"),
    }
    path = str(tmp_path / "out.npz")
    results.write(path, values, {})
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive.files) == set(values)
        np.testing.assert_array_equal(archive["scope/a:0"], values["scope/a:0"])
        assert archive["scope/a:0"].dtype == np.int16
        assert archive["file"].shape == ()
        assert archive["half:1"].dtype == np.float32
        assert archive["words:0"].tolist() == [b"a", b"bcd"]
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]


def test_a_string_that_would_lose_its_end_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    path.write_bytes(b"before")
    with pytest.raises(CommandError, match="zero byte"):
        results.write(str(path), {"s:0": b"ab\0"}, {})
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        results.write(str(tmp_path / "none" / "out.npy"), {"y:0": np.float32(1)}, {})
    assert caught.value.code == STEP_ERROR


@pytest.mark.parametrize(("name", "count"), [("a.txt", 1), ("a", 1), ("a.npy", 2)])
def test_kinds_of_file_that_cannot_hold_the_values(name: str, count: int) -> None:
    with pytest.raises(CommandError) as caught:
        results.check_output(name, count)
    assert caught.value.code == USAGE


@given(st.text(max_size=20))
def test_printable_is_one_line_and_printable(text: str) -> None:
    assert printable(text).isprintable()
