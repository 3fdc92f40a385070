"""Checkpoints of format V1: TensorFlow's own, round trips and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import BundleReader, V1Reader, V1Writer, open_checkpoint
from flowengine.core import dtypes
from flowengine.core.errors import DataLossError, InvalidArgumentError, NotFoundError
from flowengine.ir.wire import decode_varints, encode_varints, read_varint, varint

WRITTEN = Path(__file__).with_name("written_by_tensorflow")
NUMERIC = tuple(d for d in dtypes.COMPUTED if d.size)


def test_both_formats_hold_what_tensorflow_wrote() -> None:
    with V1Reader(str(WRITTEN / "whole.v1")) as old, BundleReader(str(WRITTEN / "whole")) as new:
        assert set(old.names()) == set(new.names()) - {b"bfloat16"}
        for name in old.names():
            assert old.dtype(name) is new.dtype(name)
            assert old.shape(name) == new.shape(name)
            left, right = old.read(name), new.read(name)
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            assert left.tolist() == right.tolist()


def test_slices() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    with V1Reader(str(WRITTEN / "parts.v1")) as reader:
        assert reader.read(b"parts").tolist() == whole.tolist()
        assert reader.read(b"parts", ((1, 2), (1, 3))).tolist() == whole[1:3, 1:4].tolist()


def test_the_same_values_become_the_same_bytes(tmp_path: Path) -> None:
    order = b"floats halves strings int64 int32 flags complex empty scalar uint8".split()
    with V1Reader(str(WRITTEN / "whole.v1")) as reader, V1Writer(str(tmp_path / "whole")) as writer:
        for name in order:
            writer.add(name, reader.read(name), reader.dtype(name))
    with V1Reader(str(WRITTEN / "parts.v1")) as reader, V1Writer(str(tmp_path / "parts")) as writer:
        values = reader.read(b"parts")
        writer.add_slice(b"parts", (3, 4), ((0, 2), None), values[:2], dtypes.float32)
        writer.add_slice(b"parts", (3, 4), ((2, 1), (0, 4)), values[2:], dtypes.float32)
        writer.add(b"step", reader.read(b"step"), dtypes.int32)
    for stem in ("whole", "parts"):
        assert (tmp_path / stem).read_bytes() == (WRITTEN / f"{stem}.v1").read_bytes(), stem


@given(st.sampled_from(NUMERIC), st.integers(0, 6), st.data())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, dtype: dtypes.DType, count: int, data: st.DataObject
) -> None:
    raw = data.draw(st.binary(min_size=count * dtype.size, max_size=count * dtype.size))
    if dtype.is_bool:
        raw = bytes(byte & 1 for byte in raw)
    array = np.frombuffer(raw, dtype.as_numpy_dtype)
    path = str(tmp_path_factory.mktemp("round") / "model")
    with V1Writer(path, sync=False) as writer:
        writer.add(b"x", array, dtype)
    with open_checkpoint(path) as reader:
        assert reader.dtype(b"x") is dtype
        assert reader.read(b"x").tobytes() == raw


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_many_integers_at_once_are_as_one_by_one(values: list[int]) -> None:
    encoded = encode_varints(np.array(values, dtype=np.uint64))
    assert encoded == b"".join(map(varint, values))
    decoded, used = decode_varints(encoded)
    assert used == len(encoded)
    assert decoded.tolist() == values
    if values:
        assert read_varint(encoded, 0)[0] == values[0]


def test_damage_at_any_byte_is_found(tmp_path: Path) -> None:
    def read_all(path: Path) -> dict[bytes, Any]:
        with V1Reader(str(path)) as reader:
            return {name: reader.read(name).tolist() for name in reader.names()}

    path = tmp_path / "m"
    content = (WRITTEN / "parts.v1").read_bytes()
    path.write_bytes(content)
    intact = read_all(path)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            values = read_all(path)
        except DataLossError:
            continue
        assert values == intact
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(DataLossError):
            read_all(path)


def test_damage_that_is_met_when_a_tensor_is_read_names_it(tmp_path: Path) -> None:
    path = tmp_path / "m"
    writer = V1Writer(str(path))
    for name in (b"a", b"b"):
        writer.add(name, np.arange(100_000, dtype=np.float32) * 1.25, dtypes.float32)
    writer.finish()
    content = bytearray(path.read_bytes())
    content[len(content) - 100_000] ^= 1
    path.write_bytes(content)
    with V1Reader(str(path)) as reader:
        assert reader.read(b"a")[4] == 5
        with pytest.raises(DataLossError, match=r"tensor 'b': "):
            reader.read(b"b")


def test_wrong_use_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="Failed to find any matching files"):
        open_checkpoint(str(tmp_path / "none"))
    path = tmp_path / "text"
    path.write_text("no checkpoint " * 10)
    with pytest.raises(DataLossError, match="not an sstable"):
        open_checkpoint(str(path))
    one = np.zeros(1, np.float32)
    writer = V1Writer(str(tmp_path / "m"))
    writer.add(b"a", one, dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="duplicate"):
        writer.add(b"a", one, dtypes.float32)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text"]


def test_what_a_file_does_not_hold_is_told() -> None:
    with V1Reader(str(WRITTEN / "whole.v1")) as reader:
        for ask in (reader.read, reader.dtype, reader.shape, reader.slices):
            with pytest.raises(NotFoundError, match=r"gone.* not found in checkpoint files"):
                ask(b"gone")


def test_slices_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    two = np.zeros((2, 4), np.float32)
    rest = ((2, 2), None)
    writer = V1Writer(str(tmp_path / "m"), sync=False)
    with pytest.raises(InvalidArgumentError, match=r"has shape \[2, 4\], its specification says \[3, 4\]"):
        writer.add_slice(b"a", (4, 4), ((0, 3), None), two, dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="not float64"):
        writer.add_slice(b"a", (4, 4), ((0, 2), None), two, dtypes.float64)
    writer.add_slice(b"a", (4, 4), ((0, 2), None), two, dtypes.float32)
    for shape, dtype in (((4, 4), dtypes.int32), ((5, 4), dtypes.float32), ((5, 4), dtypes.int32)):
        with pytest.raises(InvalidArgumentError, match="different shapes or types"):
            writer.add_slice(b"a", shape, rest, two.astype(dtype.as_numpy_dtype), dtype)
    writer.add_slice(b"a", (4, 4), rest, two + 1, dtypes.float32)
    writer.finish()
    with V1Reader(str(tmp_path / "m")) as reader:
        assert reader.read(b"a").tolist() == [[0] * 4] * 2 + [[1] * 4] * 2
