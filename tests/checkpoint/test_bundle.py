"""Checkpoints of format V2: TensorFlow's own, round trips, damage, and what a crash leaves."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.checkpoint import BundleReader, BundleWriter, merge_bundles
from flowengine.checkpoint.files import free_total
from flowengine.checkpoint.slices import to_index
from flowengine.checkpoint.table import TableReader, TableWriter
from flowengine.core import dtypes
from flowengine.core.errors import DataLossError, InvalidArgumentError, NotFoundError
from tests.tools.disks import Recorder, disks_after

pytestmark = pytest.mark.everywhere

WRITTEN = Path(__file__).with_name("written_by_tensorflow")
NUMERIC = tuple(d for d in dtypes.ALL if d.size)


def same(left: Any, right: Any) -> bool:
    """Equal to the last bit, in type and in shape."""
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.hasobject:
        return bool(left.tolist() == right.tolist())
    return bool(left.tobytes() == right.tobytes())


def strings(*values: bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_all(prefix: Path) -> dict[bytes, Any]:
    with BundleReader(str(prefix)) as reader:
        return {name: reader.read(name) for name in reader.names()}


def append(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def write_small(prefix: Path, first: float = 0.0) -> None:
    with BundleWriter(str(prefix), sync=False) as writer:
        writer.add(b"a", np.array([first, 1.5], np.float32), dtypes.float32)
        writer.add(b"words", strings(b"one", b"", b"three"), dtypes.string)
        writer.add_slice(b"p", (2, 2), ((0, 1), None), np.array([[1, 2]], np.int16), dtypes.int16)
        writer.add_slice(b"p", (2, 2), ((1, 1), None), np.array([[3, 4]], np.int16), dtypes.int16)


# -- TensorFlow's own -------------------------------------------------------------------------------


def test_values_that_tensorflow_wrote() -> None:
    values = read_all(WRITTEN / "whole")
    assert same(values[b"floats"], np.arange(6, dtype=np.float32).reshape(2, 3))
    assert same(values[b"halves"], np.arange(3, dtype=np.float16))
    assert values[b"strings"].tolist() == [b"ab", b"", b"x" * 300]
    assert same(values[b"int64"], np.arange(-2, 2))
    assert same(values[b"int32"], np.array([-1, 2], np.int32))
    assert same(values[b"flags"], np.array([True, False]))
    assert same(values[b"complex"], np.array([1 + 2j], np.complex64))
    assert same(values[b"empty"], np.zeros((0, 3), np.float32))
    assert values[b"scalar"].shape == ()
    assert values[b"scalar"][()] == b"one"
    assert same(values[b"uint8"], np.array([7, 200], np.uint8))
    assert same(values[b"bfloat16"], np.array([1.5, 2], dtypes.bfloat16.as_numpy_dtype))


def test_slices_that_tensorflow_wrote() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    with BundleReader(str(WRITTEN / "parts")) as reader:
        assert reader.names() == [b"parts", b"step"]
        assert same(reader.read(b"parts"), whole)
        assert same(reader.read(b"parts", ((1, 2), (1, 3))), whole[1:3, 1:4])
        assert same(reader.read(b"step"), np.int32(5))


def test_the_same_values_become_the_same_bytes(tmp_path: Path) -> None:
    with BundleReader(str(WRITTEN / "whole")) as reader, BundleWriter(str(tmp_path / "whole")) as writer:
        order = sorted(reader.names(), key=lambda name: (reader.entry(name).offset, reader.entry(name).size))
        for name in order:
            writer.add(name, reader.read(name), reader.dtype(name))
    with BundleReader(str(WRITTEN / "parts")) as reader, BundleWriter(str(tmp_path / "parts")) as writer:
        values = reader.read(b"parts")
        writer.add_slice(b"parts", (3, 4), ((0, 2), None), values[:2], dtypes.float32)
        writer.add_slice(b"parts", (3, 4), ((2, 1), (0, 4)), values[2:], dtypes.float32)
        writer.add(b"step", reader.read(b"step"), dtypes.int32)
    for stem in ("whole", "parts"):
        for file in (f"{stem}.index", f"{stem}.data-00000-of-00001"):
            assert (tmp_path / file).read_bytes() == (WRITTEN / file).read_bytes(), file


# -- round trips ------------------------------------------------------------------------------------


@st.composite
def tensors(draw: st.DrawFn) -> tuple[dtypes.DType, Any]:
    dtype = draw(st.sampled_from([*NUMERIC, dtypes.string]))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = int(np.prod(shape))
    if dtype is dtypes.string:
        elements = draw(st.lists(st.binary(max_size=200), min_size=count, max_size=count))
        return dtype, strings(*elements).reshape(shape)
    raw = draw(st.binary(min_size=count * dtype.size, max_size=count * dtype.size))
    if dtype.is_bool:
        raw = bytes(byte & 1 for byte in raw)
    array = np.frombuffer(raw, dtype.as_numpy_dtype).reshape(shape)
    return dtype, array.T.copy().T if draw(st.booleans()) else array


@given(st.dictionaries(st.binary(min_size=1, max_size=20).filter(lambda n: n[0] > 0), tensors(), max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: dict[bytes, Any]) -> None:
    prefix = str(tmp_path_factory.mktemp("round") / "model")
    with BundleWriter(prefix, sync=False) as writer:
        for name, (dtype, array) in values.items():
            writer.add(name, array, dtype)
    with BundleReader(prefix) as reader:
        assert reader.names() == sorted(values)
        for name, (dtype, array) in values.items():
            assert reader.dtype(name) is dtype
            assert same(reader.read(name), array)


@given(st.data(), st.binary(min_size=1, max_size=6).filter(lambda n: n[0] > 0))
def test_slices_make_up_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: bytes
) -> None:
    rows, columns = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 4))
    whole = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    cuts = sorted(data.draw(st.sets(st.integers(0, rows), max_size=4)) | {0, rows})
    prefix = str(tmp_path_factory.mktemp("slices") / "model")
    with BundleWriter(prefix, sync=False) as writer:
        for start, end in itertools.pairwise(cuts):
            part = ((start, end - start), None)
            writer.add_slice(name, whole.shape, part, whole[start:end], dtypes.int64)
    first = data.draw(st.integers(0, rows - 1))
    length = data.draw(st.integers(1, rows - first))
    with BundleReader(prefix) as reader:
        assert reader.names() == [name]
        assert same(reader.read(name), whole)
        assert same(reader.read(name, ((first, length), (0, 1))), whole[first : first + length, :1])


def test_large_and_strided_tensors(tmp_path: Path) -> None:
    large = np.random.default_rng(1).random((3000, 500), dtype=np.float32)
    brain = large[:, :7].astype(dtypes.bfloat16.as_numpy_dtype)
    values = {b"whole": large, b"turned": large.T, b"every": large[::3, ::7], b"brain": brain.T}
    with BundleWriter(str(tmp_path / "m"), sync=False) as writer:
        for name, array in values.items():
            writer.add(name, array, dtypes.as_dtype(array.dtype))
    for name, array in read_all(tmp_path / "m").items():
        assert same(array, values[name])


def test_an_index_of_many_blocks(tmp_path: Path) -> None:
    entries = {b"key/%06d" % (n * n) + b"x" * (n % 90): b"v" * (n % 300) for n in range(6000)}
    path = tmp_path / "table"
    with path.open("wb") as file:
        writer = TableWriter(lambda data: append(file, data))
        for key in sorted(entries):
            writer.add(key, entries[key])
        writer.finish()
    table = TableReader(str(path))
    assert dict(table) == entries
    assert all(table.get(key) == value for key, value in list(entries.items())[::50])
    assert table.get(b"key/") is None
    assert table.get(b"zzz") is None
    table.close()


# -- damage -----------------------------------------------------------------------------------------


def test_damage_at_any_byte_is_found(tmp_path: Path) -> None:
    write_small(tmp_path / "m")
    intact = read_all(tmp_path / "m")
    for file in sorted(tmp_path.iterdir()):
        content = file.read_bytes()
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << (place % 8)
            file.write_bytes(damaged)
            try:
                values = read_all(tmp_path / "m")
            except DataLossError:
                continue
            assert values.keys() == intact.keys()
            assert all(same(values[name], intact[name]) for name in intact)
        file.write_bytes(content)


def test_a_file_that_is_cut_off_is_found(tmp_path: Path) -> None:
    write_small(tmp_path / "m")
    for file in sorted(tmp_path.iterdir()):
        content = file.read_bytes()
        for size in range(len(content)):
            file.write_bytes(content[:size])
            with pytest.raises(DataLossError):
                read_all(tmp_path / "m")
        file.write_bytes(content)


def test_damage_names_file_and_tensor(tmp_path: Path) -> None:
    write_small(tmp_path / "m")
    path = tmp_path / "m.data-00000-of-00001"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with BundleReader(str(tmp_path / "m")) as reader:
        with pytest.raises(DataLossError, match=r"m\.data-00000-of-00001: tensor 'a'"):
            reader.read(b"a")
        assert reader.read(b"words").tolist() == [b"one", b"", b"three"]


def test_a_missing_data_file(tmp_path: Path) -> None:
    write_small(tmp_path / "m")
    (tmp_path / "m.data-00000-of-00001").unlink()
    with pytest.raises(NotFoundError, match="tensor 'a'"):
        read_all(tmp_path / "m")


# -- wrong use --------------------------------------------------------------------------------------


def test_wrong_use_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="none"):
        BundleReader(str(tmp_path / "none"))
    one = np.zeros(1, np.float32)
    with BundleWriter(str(tmp_path / "m")) as writer:
        writer.add(b"a", one, dtypes.float32)
        with pytest.raises(InvalidArgumentError, match="duplicate key: a"):
            writer.add(b"a", one, dtypes.float32)
        with pytest.raises(InvalidArgumentError, match="not float64"):
            writer.add(b"b", one, dtypes.float64)
        with pytest.raises(InvalidArgumentError, match="reaches beyond"):
            writer.add_slice(b"c", (3,), ((3, 1),), one, dtypes.float32)
        writer.add_slice(b"c", (3,), ((0, 1),), one, dtypes.float32)
        writer.add_slice(b"c", (3,), ((2, 1),), one, dtypes.float32)
    with BundleReader(str(tmp_path / "m")) as reader:
        with pytest.raises(NotFoundError, match="Key z not found"):
            reader.read(b"z")
        with pytest.raises(InvalidArgumentError, match="do not cover"):
            reader.read(b"c")
        assert same(reader.read(b"c", ((2, 1),)), one)


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError), BundleWriter(str(tmp_path / "m")) as writer:
        writer.add(b"", np.zeros(1, np.float32), dtypes.float32)
    assert list(tmp_path.iterdir()) == []


# -- merging ----------------------------------------------------------------------------------------


def test_merging(tmp_path: Path) -> None:
    whole = np.arange(8, dtype=np.float32).reshape(4, 2)
    prefixes = [str(tmp_path / f"temp{n}" / "part") for n in range(2)]
    for number, prefix in enumerate(prefixes):
        with BundleWriter(prefix) as writer:
            rows = whole[2 * number : 2 * number + 2]
            writer.add_slice(b"shared", (4, 2), ((2 * number, 2), None), rows, dtypes.float32)
            writer.add(b"own%d" % number, np.array(number), dtypes.int64)
    merge_bundles(prefixes, str(tmp_path / "merged"))
    values = read_all(tmp_path / "merged")
    assert same(values[b"shared"], whole)
    assert [int(values[b"own0"]), int(values[b"own1"])] == [0, 1]
    assert sorted(p.name for p in tmp_path.glob("merged*")) == [
        "merged.data-00000-of-00002",
        "merged.data-00001-of-00002",
        "merged.index",
    ]
    assert list(tmp_path.glob("temp*/*")) == []


@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("spelled", ["into", "../{}/into"])
def test_merging_into_one_of_those_that_are_merged(tmp_path: Path, other: int, spelled: str) -> None:
    prefixes = [str(tmp_path / name) for name in ("into", "from")]
    for number, prefix in enumerate(prefixes):
        with BundleWriter(prefix) as writer:
            writer.add(b"own%d" % number, np.array(number), dtypes.int64)
    merge_bundles(prefixes if other else prefixes[::-1], str(tmp_path / spelled.format(tmp_path.name)))
    assert {name: int(value) for name, value in read_all(tmp_path / "into").items()} == {
        b"own0": 0,
        b"own1": 1,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "into.data-00000-of-00002",
        "into.data-00001-of-00002",
        "into.index",
    ]


def test_of_a_checkpoint_without_tensors_nothing_is_left_by_merging(tmp_path: Path) -> None:
    for name in ("none", "nothing"):
        with BundleWriter(str(tmp_path / name)):
            pass
    merge_bundles([str(tmp_path / "none"), str(tmp_path / "nothing")], str(tmp_path / "merged"))
    assert read_all(tmp_path / "merged") == {}
    assert [path.name for path in tmp_path.iterdir()] == ["merged.index"]
    write_small(tmp_path / "one")
    merge_bundles([str(tmp_path / "merged"), str(tmp_path / "one")], str(tmp_path / "all"))
    assert {path.stem for path in tmp_path.iterdir()} == {"all"}


def test_a_part_that_is_read_keeps_no_more_than_itself(tmp_path: Path) -> None:
    whole = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    with BundleWriter(str(tmp_path / "m")) as writer:
        writer.add(b"x", whole, dtypes.float32)
    with BundleReader(str(tmp_path / "m")) as reader:
        for part in (((10, 2), None), ((0, 1000), (1, 1)), ((5, 0), None)):
            found = reader.read(b"x", part)
            assert same(found, whole[to_index(part)])
            assert found.flags.owndata


def test_a_tensor_in_two_checkpoints_cannot_be_merged(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_small(tmp_path / name)
    with pytest.raises(InvalidArgumentError, match="Duplicate tensor keyed by a "):
        merge_bundles([str(tmp_path / "one"), str(tmp_path / "two")], str(tmp_path / "merged"))
    assert read_all(tmp_path / "one").keys() == read_all(tmp_path / "two").keys()


def test_of_several_all_but_one_may_be_missing(tmp_path: Path) -> None:
    write_small(tmp_path / "one")
    stored = read_all(tmp_path / "one")
    prefixes = [str(tmp_path / "none"), str(tmp_path / "one")]
    with pytest.raises(NotFoundError):
        merge_bundles(prefixes, str(tmp_path / "merged"))
    with pytest.raises(InvalidArgumentError, match="At least one prefix checkpoint must exist"):
        merge_bundles(prefixes[:1], str(tmp_path / "merged"), missing=True)
    for missing in (False, True):
        with pytest.raises(InvalidArgumentError, match="no checkpoints were given to merge"):
            merge_bundles([], str(tmp_path / "merged"), missing=missing)
    assert sorted(tmp_path.glob("merged*")) == []
    merge_bundles(prefixes, str(tmp_path / "merged"), missing=True)
    merged = read_all(tmp_path / "merged")
    assert merged.keys() == stored.keys()
    assert all(same(merged[name], stored[name]) for name in stored)


# -- crashes ----------------------------------------------------------------------------------------


def test_a_crash_leaves_the_last_complete_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_small(folder / "m", first=1.0)
    before = {str(p): p.read_bytes() for p in folder.iterdir()}
    recorder = Recorder()
    with BundleWriter(str(folder / "m"), files=recorder) as writer:
        writer.add(b"a", np.array([2.0, 1.5], np.float32), dtypes.float32)
    assert read_all(folder / "m")[b"a"][0] == 2.0
    complete = max(n for n, call in enumerate(recorder.calls) if call[0] == "sync_folder")
    for done, disk in disks_after(before, recorder.calls):
        shutil.rmtree(folder)
        folder.mkdir()
        for path, data in disk.items():
            Path(path).write_bytes(data)
        first = read_all(folder / "m")[b"a"][0]
        assert first == 2.0 or (first == 1.0 and done <= complete)


def test_no_data_file_takes_the_name_of_one_that_is_there(tmp_path: Path) -> None:
    """Of those of a complete checkpoint one is in use; which of several, its index knows."""
    prefix = str(tmp_path / "m")
    for total in (1, 2, 4):
        (tmp_path / f"m.data-00000-of-{total:05d}").touch()
    assert free_total(prefix, 1) == 1, "without an index nobody uses them"
    (tmp_path / "m.index").touch()
    assert [free_total(prefix, shards) for shards in (1, 2, 3, 4, 5)] == [3, 3, 3, 5, 5]


def test_writing_again_takes_turns_between_names(tmp_path: Path) -> None:
    for number in range(4):
        write_small(tmp_path / "m", first=float(number))
        assert read_all(tmp_path / "m")[b"a"][0] == number
        assert len(list(tmp_path.iterdir())) == 2
