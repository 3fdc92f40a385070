"""Files of many values: records, JSON with bytes in it, lines of JSON, arrays of texts."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.failure import CommandError
from flowengine.cli.feeding.batches import read_json
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.feeding.sources import ValueTarget, read_source
from flowengine.cli.main import main
from flowengine.core.dtypes import DType, float32, string
from flowengine.core.shapes import TensorShape
from flowengine.ir.proto.example_pb2 import Example
from flowengine.resources.event_files import framed

Output = pytest.CaptureFixture[str]
RECORDS = [b"one\0", b"", b"\xff\0\0"]
OPTIONS = ImageOptions()


def target(dtype: DType, shape: list[int | None] | None) -> ValueTarget:
    return ValueTarget("x:0", dtype, TensorShape(shape))


def fed(source: object, dtype: DType = string, shape: list[int | None] | None = None) -> list[Any]:
    found: list[Any] = np.asarray(
        read_source(str(source), target(dtype, shape), OPTIONS), dtype=object
    ).tolist()
    return found


def written(path: Path, records: list[bytes]) -> Path:
    data = b"".join(map(framed, records))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecords.gz"])
def test_the_records_of_a_file_are_a_batch(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, RECORDS)
    assert fed(path, shape=[None]) == RECORDS
    with pytest.raises(CommandError, match="its shape is"):
        fed(path, shape=[])
    with pytest.raises(CommandError, match="holds records, for a string tensor, and this is float32"):
        fed(path, float32)
    assert read_source(str(written(path, RECORDS[:1])), target(string, []), OPTIONS) == RECORDS[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CommandError, match="cannot read"):
        fed(path, shape=[None])


@given(st.recursive(st.binary(), lambda parts: st.lists(parts, max_size=4)))
def test_bytes_in_json(value: Any) -> None:
    def encoded(each: Any) -> Any:
        if isinstance(each, list):
            return [encoded(part) for part in each]
        return {"b64": base64.b64encode(each).decode()}

    assert read_json(json.dumps(encoded(value)), "it") == value


def test_bytes_keep_the_zeros_at_their_ends(tmp_path: Path) -> None:
    text = json.dumps([{"b64": base64.b64encode(each).decode()} for each in RECORDS])
    (tmp_path / "a.json").write_text(text)
    assert fed(tmp_path / "a.json", shape=[None]) == RECORDS
    assert fed(text, shape=[None]) == RECORDS
    (tmp_path / "a.json").write_text('{"b64": "?"}')
    with pytest.raises(CommandError, match="is not base64"):
        fed(tmp_path / "a.json")


def test_an_array_of_objects_may_hold_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for shape in ((3,), (1, 3), (3, 1)):
        for order in ("C", "F"):
            values = np.empty(3, dtype=object)
            values[:] = RECORDS
            np.save(path, np.asarray(values.reshape(shape), order=order), allow_pickle=True)
            assert fed(path) == values.reshape(shape).tolist()
    np.save(path, np.array(["é", b"b"], dtype=object), allow_pickle=True)
    assert fed(path) == ["é".encode(), b"b"]


def test_examples_in_an_array_of_bytes_keep_the_zeros_at_their_end(tmp_path: Path) -> None:
    """NumPy drops them; a tf.Example whose last number is 0 is no message without."""
    examples = []
    for number in (5, 0, 300):
        example = Example()
        example.features.feature["n"].int64_list.value.append(number)
        examples.append(example.SerializeToString())
    texts = [b"\n", b"\nab", b"\x00\x01", b"b", b"", b"\n\x03\n\x01"]
    values = np.array([*examples, *texts])
    assert values[1] + b"\0" == examples[1]
    path = tmp_path / "x.npy"
    np.save(path, values.reshape(3, 3))
    assert list(itertools.chain(*fed(path))) == [*examples, *texts]


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_of_pickle_is_read(protocol: int, tmp_path: Path) -> None:
    values = np.empty(2, dtype=object)
    values[:] = [b"a\xff\0", "text"]
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (2,)})
        pickle.dump(values, file, protocol=protocol)
    assert fed(path) == [b"a\xff\0", b"text"]


@pytest.mark.parametrize("value", [1, [b"nested"], {"a": 1}, print, Path()], ids=repr)
def test_no_other_object_is_read(value: Any, tmp_path: Path) -> None:
    values = np.empty(1, dtype=object)
    values[0] = value
    np.save(tmp_path / "a.npy", values, allow_pickle=True)
    with pytest.raises(CommandError, match="cannot read"):
        fed(tmp_path / "a.npy")


@pytest.fixture
def path(save: Callable[[fe.Graph], str]) -> str:
    """`lengths` is the sizes of `texts`, plus `more`."""
    graph = fe.Graph()
    texts = graph.placeholder("string", [None], name="texts")
    more = graph.placeholder("int32", [None], name="more")
    graph.ops.AddV2(graph.ops.StringLength(texts), more, name="lengths")
    return save(graph)


def test_one_file_for_all_inputs(path: str, tmp_path: Path, capsys: Output) -> None:
    rows = [
        {"texts": {"b64": base64.b64encode(each).decode()}, "more": 10 * number}
        for number, each in enumerate(RECORDS)
    ]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n\n".join(map(json.dumps, rows)) + "\n")
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps({key: [row[key] for row in rows] for key in rows[0]}))
    for file in (lines, whole):
        assert main(["run", path, "--feed", str(file), "--fetch", "lengths"]) == 0
        assert capsys.readouterr().out == "lengths:0  int32 [3]\n[ 4, 10, 23]\n"
    more = tmp_path / "more.jsonl"
    more.write_text("1\n2\n3\n")
    feeds = ["--feed", f"more={more}", "--feed", 'texts=["a", "b", "c"]']
    assert main(["run", path, *feeds, "--fetch", "lengths"]) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"texts": "a"}\n{"more": 1}\n', "line 2 has more, and the first has texts"),
        ('{"texts": "a"}\n{"texts"\n', "line 2: "),
        ("[1]\n", "line 1 is no JSON object of inputs"),
        ("", "it has no line"),
    ],
)
def test_lines_that_do_not_fit(text: str, told: str, path: str, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    assert main(["run", path, "--feed", str(file), "--fetch", "lengths"]) == failure.BAD_FEED
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "dtype", "told"),
    [
        ("iris.dat", float32, "a float32 is fed from .npy, .npz, .json and .jsonl files, and images"),
        ("iris.dat", string, "for its bytes, or --feed"),
    ],
)
def test_the_hint_for_a_file_fits_the_placeholder(
    name: str, dtype: DType, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("1,2\n3,4\n")
    with pytest.raises(CommandError) as caught:
        fed(name, dtype, [None, 2] if dtype is float32 else [None])
    assert told in str(caught.value)
    assert ("@iris.dat" in str(caught.value)) == (dtype is string)
