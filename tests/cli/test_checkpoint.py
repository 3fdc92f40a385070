"""`flowengine checkpoint`: ls, show, diff and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.checkpoint import BundleWriter, V1Writer
from flowengine.checkpoint.state import write_state
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.core import dtypes

Output = pytest.CaptureFixture[str]
BFLOAT16 = dtypes.bfloat16.as_numpy_dtype


def strings(*values: bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def write(
    prefix: Path, first: float = 0.0, kind: Any = BundleWriter, step: int = 7, more: bool = True
) -> str:
    with kind(str(prefix), sync=False) as writer:
        writer.add(b"layer/w", np.array([[first, 1.5], [2, np.nan]], np.float32), dtypes.float32)
        writer.add(b"step", np.array(step), dtypes.int64)
        if more:
            writer.add(b"words", strings(b"one", b""), dtypes.string)
            writer.add(b"brain", np.array([1.5, 2.5], BFLOAT16), dtypes.bfloat16)
            writer.add_slice(b"p", (2, 2), ((0, 1), None), np.array([[1, 2]], np.int16), dtypes.int16)
            writer.add_slice(b"p", (2, 2), ((1, 1), None), np.array([[3, 4]], np.int16), dtypes.int16)
    return str(prefix)


@pytest.mark.parametrize("kind", [BundleWriter, V1Writer])
def test_ls_of_a_checkpoint(kind: Any, tmp_path: Path, capsys: Output) -> None:
    prefix = write(tmp_path / "m", kind=kind)
    assert main(["checkpoint", "ls", prefix]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "brain  bfloat16 [2]  4 bytes",
        "layer/w  float32 [2, 2]  16 bytes",
        "p  int16 [2, 2]  8 bytes  in 2 slices",
        "step  int64 []  8 bytes",
        "words  string [2]",
    ]
    assert "5 tensors, 36 bytes and 1 of strings" in shown.err
    assert main(["checkpoint", "ls", prefix, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tensors"][2] == {"name": "p", "dtype": "int16", "shape": [2, 2], "bytes": 8, "slices": 2}


def test_ls_of_a_directory(tmp_path: Path, capsys: Output) -> None:
    prefixes = [write(tmp_path / f"m-{n}") for n in (5, 10)]
    write_state(str(tmp_path), prefixes)
    assert main(["checkpoint", "ls", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{prefixes[0]}  5 tensors, ")
    assert lines[1].endswith("  latest")
    assert main(["checkpoint", "ls", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["checkpoints"]
    assert [each["latest"] for each in found] == [False, True]


def test_ls_of_a_relative_directory_names_the_latest_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Absolute paths in the file `checkpoint` are those of the same files."""
    write_state(str(tmp_path), [write(tmp_path / "m-5")], relative=False)
    monkeypatch.chdir(tmp_path.parent)
    assert main(["checkpoint", "ls", tmp_path.name]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{tmp_path.name}/m-5  5 tensors, ")
    assert line.endswith("  latest")


def test_ls_of_a_directory_of_format_v1(tmp_path: Path, capsys: Output) -> None:
    whole = write(tmp_path / "m-2", kind=V1Writer)
    (tmp_path / "m-2.meta").write_bytes(b"")
    (tmp_path / "m-2.meta").touch()
    parts = [write(tmp_path / f"m-{n}-00000-of-00001", kind=V1Writer) for n in (5, 10)]
    patterns = [each.replace("00000", "?????") for each in parts]
    write_state(str(tmp_path), [whole, *patterns])
    assert main(["checkpoint", "ls", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["checkpoints"]
    assert {each["prefix"] for each in found} == {whole, *patterns}
    assert found[-1]["prefix"] == patterns[1]
    assert [each["latest"] for each in found] == [False, False, True]
    assert all(each["tensors"] == 5 and each["bytes"] for each in found)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_a_part_that_is_a_pointer(ending: str, tmp_path: Path, capsys: Output) -> None:
    prefix = write(tmp_path / "m")
    Path(prefix + ending).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    assert main(["checkpoint", "show", prefix]) == failure.UNREADABLE_GRAPH
    said = capsys.readouterr().err
    assert f"m{ending}: it is a Git LFS pointer" in said
    assert "git lfs pull" in said


def test_a_file_or_a_directory_means_its_checkpoint(tmp_path: Path, capsys: Output) -> None:
    prefix = write(tmp_path / "m-5", step=5)
    write_state(str(tmp_path), [prefix])
    exported = tmp_path / "exported" / "variables"
    exported.mkdir(parents=True)
    write(exported / "variables", step=9)
    places = (prefix, f"{prefix}.index", f"{prefix}.data-00000-of-00001", str(tmp_path))
    for place in places:
        assert main(["checkpoint", "show", place, "step"]) == 0
        assert capsys.readouterr().out == "step = 5\n"
    assert main(["checkpoint", "show", str(tmp_path / "exported"), "step"]) == 0
    assert capsys.readouterr().out == "step = 9\n"
    assert main(["checkpoint", "ls", str(tmp_path / "exported")]) == 0
    assert "layer/w" in capsys.readouterr().out


def test_show(tmp_path: Path, capsys: Output) -> None:
    prefix = write(tmp_path / "m")
    assert main(["checkpoint", "show", prefix, "p", "w*"]) == 0
    assert capsys.readouterr().out == 'p  int16 [2, 2]\n[[1, 2],\n [3, 4]]\nwords  string [2]\n["one", ""]\n'
    assert main(["checkpoint", "show", prefix]) == 0
    assert "5 tensors, 36 bytes, every checksum matches" in capsys.readouterr().out
    assert main(["checkpoint", "show", prefix, "layer/w", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["tensors"]["layer/w"]["value"]
    assert value == [[0, 1.5], [2, "NaN"]]
    assert main(["checkpoint", "show", prefix, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sound"] is True


def test_diff(tmp_path: Path, capsys: Output) -> None:
    one, same = write(tmp_path / "one"), write(tmp_path / "same", kind=V1Writer)
    assert main(["checkpoint", "diff", one, same]) == 0
    assert capsys.readouterr().out == "5 tensors are equal, 0 differ\n"
    other = write(tmp_path / "other", first=0.25, step=8, more=False)
    with BundleWriter(other, sync=False) as writer:
        writer.add(b"layer/w", np.array([[0.25, 1.5], [2, np.nan]], np.float32), dtypes.float32)
        writer.add(b"step", np.array(8, np.int32), dtypes.int32)
        writer.add(b"new", np.array(True), dtypes.bool_)
        writer.add(b"words", strings(b"one", b"two"), dtypes.string)
        writer.add(b"brain", np.array([1.5, 2.5], BFLOAT16), dtypes.bfloat16)
    assert main(["checkpoint", "diff", one, other]) == failure.STEP_ERROR
    assert capsys.readouterr().out.splitlines() == [
        f"only in {one}: p",
        f"only in {other}: new",
        "step: int64 [] -> int32 []",
        "layer/w: 1 of 4 elements differ, by 0.25 at most",
        "words: 1 of 2 elements differ",
        "1 tensors are equal, 5 differ",
    ]
    assert main(["checkpoint", "diff", one, other, "--only", "layer/*", "--tolerance", "0.3"]) == 0
    capsys.readouterr()
    assert main(["checkpoint", "diff", one, other, "--json"]) == failure.STEP_ERROR
    document = json.loads(capsys.readouterr().out)
    assert document["changed"][0] == {"name": "layer/w", "elements": 1, "total": 4, "largest": 0.25}


def test_export_to_npz(tmp_path: Path, capsys: Output) -> None:
    target = tmp_path / "m.npz"
    assert main(["checkpoint", "export", write(tmp_path / "m"), str(target)]) == 0
    with np.load(target) as archive:
        values = {name: archive[name] for name in archive.files}
    assert values.keys() == {"layer/w", "step", "words", "brain", "p"}
    assert values["brain"].dtype == np.float32
    assert values["words"].tolist() == [b"one", b""]
    assert values["p"].tolist() == [[1, 2], [3, 4]]
    assert "kept 5 tensors" in capsys.readouterr().err


def test_export_to_safetensors(tmp_path: Path, capsys: Output) -> None:
    prefix, target = write(tmp_path / "m"), tmp_path / "m.safetensors"
    assert main(["checkpoint", "export", prefix, str(target)]) == failure.STEP_ERROR
    assert "'words' is of type string" in capsys.readouterr().err
    assert not target.exists()
    options = [f"--only={name}" for name in ("brain", "layer/w", "p", "step")]
    assert main(["checkpoint", "export", prefix, str(target), *options]) == 0
    content = target.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, values = json.loads(content[8 : 8 + size]), content[8 + size :]
    assert size % 8 == 0
    assert header["brain"] == {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    assert header["layer/w"] == {"dtype": "F32", "shape": [2, 2], "data_offsets": [4, 20]}
    first, last = header["step"]["data_offsets"]
    assert int.from_bytes(values[first:last], "little") == 7
    assert last == len(values)


def test_what_cannot_be_read(tmp_path: Path, capsys: Output) -> None:
    prefix = write(tmp_path / "model-1")
    assert main(["checkpoint", "ls", str(tmp_path / "model-2")]) == failure.UNREADABLE_GRAPH
    assert f"did you mean {prefix}?" in capsys.readouterr().err
    assert main(["checkpoint", "show", str(tmp_path)]) == failure.UNREADABLE_GRAPH
    assert "without a file 'checkpoint'" in capsys.readouterr().err
    assert main(["checkpoint", "show", prefix, "layer/v"]) == failure.USAGE
    assert "did you mean layer/w?" in capsys.readouterr().err
    assert main(["checkpoint", "diff", prefix, prefix, "--only", "none"]) == failure.USAGE
    assert main(["checkpoint", "export", prefix, "m.zip"]) == failure.USAGE
    assert "must end in .npz or .safetensors" in capsys.readouterr().err
    assert main(["checkpoint", "export", prefix, str(tmp_path / "no" / "m.npz")]) == failure.STEP_ERROR
    assert main(["checkpoint", "frobnicate"]) == failure.USAGE
    assert main(["checkpoint"]) == failure.OK
    assert "List the differences between two checkpoints." in capsys.readouterr().out
    data = Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    capsys.readouterr()
    assert main(["checkpoint", "show", prefix]) == failure.UNREADABLE_GRAPH
    assert "DataLossError" in capsys.readouterr().err
    (tmp_path / "checkpoint").write_text("{")
    assert main(["checkpoint", "ls", str(tmp_path)]) == failure.UNREADABLE_GRAPH
    assert "not a checkpoint state file" in capsys.readouterr().err
