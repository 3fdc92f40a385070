"""A record survives its file, and a damaged file is an error that says so."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.dtypes import DType
from flowengine.testing.strategies import arrays, dtypes
from flowengine.tools.compare import StepRecord, compare_records, read_record, write_record
from flowengine.tools.compare.records import NodeRecord
from flowengine.tools.compare.tensors import TensorRecord, places, record_of


def same(one: TensorRecord, other: TensorRecord) -> bool:
    parts = ((one.samples, other.samples), (one.value, other.value))
    return (
        (one.name, one.iteration, one.dtype, one.shape, one.counts)
        == (other.name, other.iteration, other.dtype, other.shape, other.counts)
        and np.array_equal(one.figures, other.figures, equal_nan=True)
        and all(shown(a) == shown(b) for a, b in parts)
    )


def shown(value: Any) -> str:
    """Return a text that tells -0.0 from 0.0, and takes NaN for NaN."""
    return "" if value is None else f"{value.dtype} {value.tolist()!r}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@given(st.lists(st.tuples(dtypes().flatmap(arrays), st.booleans(), st.text(max_size=5)), max_size=5))
@settings(max_examples=60)
def test_a_record_survives_its_file(folder: Path, values: list[tuple[np.ndarray, bool, str]]) -> None:
    record = StepRecord(
        [
            record_of(f"{number}{text}:0", text, value, is_kept=keeps)
            for number, (value, keeps, text) in enumerate(values)
        ],
        {text: NodeRecord(text, (f"{text.split(' ')[0]}a:0",), "feed", text) for *_, text in values},
        steps=3,
        dropped=2,
    )
    path = str(folder / "step.npz")
    write_record(record, path)
    found = read_record(path)
    assert all(map(same, record.tensors, found.tensors))
    assert len(found.tensors) == len(record.tensors)
    assert [*found.nodes] == [*record.nodes]
    assert (found.steps, found.dropped) == (3, 2)
    for tensor, (value, keeps, _) in zip(found.tensors, values, strict=True):
        array = tensor.array()
        assert (array is None) != keeps
        if array is not None:
            assert array.dtype == value.dtype
            assert repr(array.tolist()) == repr(value.tolist())


def example(folder: Path) -> Path:
    path = folder / "example.npz"
    tensors = [record_of("a:0", "", np.arange(100.0)), record_of("b:0", "", np.array([b"x", b"yz"], object))]
    write_record(StepRecord(tensors, {"a": NodeRecord("Const")}), str(path))
    return path


def test_a_file_that_is_cut_anywhere(folder: Path) -> None:
    data = example(folder).read_bytes()
    cut = folder / "cut.npz"
    for end in range(len(data)):
        cut.write_bytes(data[:end])
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"cut\.npz"):
            read_record(str(cut))


@given(place=st.integers(0, 1 << 20), byte=st.integers(0, 255))
@settings(max_examples=300)
def test_a_file_with_a_wrong_byte_is_read_or_refused(folder: Path, place: int, byte: int) -> None:
    data = bytearray(example(folder).read_bytes())
    data[place % len(data)] = byte
    damaged = folder / "damaged.npz"
    damaged.write_bytes(data)
    with suppress(fe.errors.InvalidArgumentError):
        assert all(isinstance(tensor, TensorRecord) for tensor in read_record(str(damaged)).tensors)


def test_a_later_version(folder: Path) -> None:
    path = folder / "later.npz"
    np.savez(path, format=np.array("flowengine record 2"))
    with pytest.raises(
        fe.errors.InvalidArgumentError, match="'flowengine record 2'; this version of FlowEngine reads"
    ):
        read_record(str(path))


def test_members_that_do_not_fit(folder: Path) -> None:
    path = folder / "short.npz"
    with np.load(example(folder)) as whole:
        members = dict(whole)
    for name in ("floats", "texts", "figures", "lengths", "text_lengths"):
        np.savez(path, **{**members, name: members[name][:-1]})
        with pytest.raises(fe.errors.InvalidArgumentError, match="damaged"):
            read_record(str(path))


def test_files_of_other_kinds(folder: Path) -> None:
    path = folder / "other.npz"
    np.save(folder / "array.npy", np.zeros(2))
    path.write_bytes((folder / "array.npy").read_bytes())
    with pytest.raises(fe.errors.InvalidArgumentError, match="one array"):
        read_record(str(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(fe.errors.InvalidArgumentError, match="no record of a step, or damaged"):
        read_record(str(path))
    values: dict[str, Any] = {"y": np.ones(2), "scope/z:1": np.zeros(3)}
    np.savez(path, **values)
    found = read_record(str(path))
    assert [tensor.name for tensor in found.tensors] == ["y:0", "scope/z:1"]
    assert compare_records(found, found).equal == 2
    with pytest.raises(FileNotFoundError):
        read_record(str(folder / "missing.npz"))


@given(size=st.integers(0, 10_000))
def test_places_are_fixed_in_order_and_within(size: int) -> None:
    found = places(size).tolist()
    assert found == sorted(set(found))
    assert len(found) == min(size, 64)
    assert not found or (found[0], found[-1]) == (0, size - 1)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "complex64", "uint64"])
def test_types_of_their_own(name: str) -> None:
    dtype: DType = fe.dtypes.as_dtype(name)
    value = np.array([1, 2, 3], dtype.as_numpy_dtype)
    record = record_of("a:0", "", value, is_kept=True)
    assert record.dtype == name
    array = record.array()
    assert array is not None
    assert array.dtype == value.dtype
    assert array.tolist() == value.tolist()
    assert record.figures[2] == 2.0
