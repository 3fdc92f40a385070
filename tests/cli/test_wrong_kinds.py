"""Over thirty kinds of file that hold no graph: an error names each in one sentence, with a remedy."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import struct
import tarfile
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
Write = Callable[[Path], Any]
DIGITS: Final = Path(__file__).resolve().parents[1] / "data" / "digits" / "digits.pb"
#: Words of which each remedy has one.
REMEDIES: Final = (
    "name",
    "unpack",
    "run",
    "feed",
    "write",
    "rebuilt",
    "converted",
    "export",
    "fetch",
    "open",
    "shows",
    "compare",
)


def content(data: bytes | str) -> Write:
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data)


def document(**values: Any) -> Write:
    return content(json.dumps(values))


def archive(*members: str) -> Write:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name in members:
                file.writestr(name, b"\x80\x02.")

    return write


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as file:
        file.addfile(tarfile.TarInfo("model/saved_model.pb"))


def sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(8))


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table weights (x real)")
    connection.commit()
    connection.close()


def events(path: Path) -> None:
    event = b"\x09" + struct.pack("<d", 1.5e9) + b"\x1a\x0dbrain.Event:2"
    path.write_bytes(struct.pack("<QI", len(event), 0) + event + bytes(4))


def safetensors(path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def arrays(path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, w=np.ones(3))
    path.write_bytes(buffer.getvalue())


KINDS: Final[dict[str, tuple[Write, str]]] = {
    # Models and weights of other programs.
    "model.h5": (content(b"\x89HDF\r\n\x1a\n" + bytes(40)), "a HDF5 file"),
    "model.keras": (archive("metadata.json", "config.json"), ".keras files"),
    "model.pt": (archive("net/data.pkl", "net/version"), "a PyTorch file"),
    "traced.pt": (archive("net/code/__torch__.py", "net/constants.pkl"), "a PyTorch file"),
    "old.pth": (content(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."), "a PyTorch file"),
    "model.onnx": (
        content(b"\x08\x07\x12\x07pytorch\x1a\x032.1:\x04\x12\x02abB\x04\x0a\x00\x10\x11"),
        "an ONNX model",
    ),
    "model.tflite": (content(b"\x1c\0\0\0TFL3" + bytes(30)), "a TensorFlow Lite model"),
    "model.safetensors": (safetensors, "a safetensors file"),
    "model.gguf": (content(b"GGUF\x03\0\0\0" + bytes(16)), "a GGUF file"),
    "model.plan": (content(b"ftrt" + bytes(20)), "a TensorRT engine"),
    "model.pkl": (content(pickle.dumps({"w": [1.0] * 9})), "a pickle of Python objects"),
    "model.pmml": (content('<?xml version="1.0"?>\n<PMML version="4.4"/>'), "a PMML model"),
    "openvino.xml": (content('<?xml version="1.0"?>\n<net name="x" version="11"/>'), "a model of OpenVINO"),
    "lightgbm.txt": (content("tree\nversion=v4\nnum_class=1\n"), "a model of LightGBM"),
    "xgboost.json": (document(learner={"gradient_booster": {}}), "a model of XGBoost"),
    "xgboost.ubj": (content(b"{L\0\0\0\0\0\0\0\x07learner{" + bytes(9)), "a model of XGBoost"),
    "model.cbm": (content(b"CBM1" + bytes(30)), "a model of CatBoost"),
    "model.rknn": (content(b"RKNN" + bytes(30)), "a model for Rockchip's processors"),
    "model.mlirbc": (content(b"ML\xefR" + bytes(30)), "bytecode of MLIR"),
    "model.mlir": (content("// made\nmodule @jit attributes {} {\n"), "a module of MLIR as text"),
    "model.hlo": (content("HloModule main\n\nENTRY e {}\n"), "a module of XLA as text"),
    "pipeline.config": (content("# faster\nmodel {\n  ssd {\n    num_classes: 90\n"), "an object detector"),
    "mxnet.json": (document(nodes=[], arg_nodes=[0]), "a symbol file of MXNet"),
    "yolo.cfg": (content("[net]\nbatch=1\n"), "a Darknet model"),
    "deploy.prototxt": (content('name: "AlexNet"\nlayer {\n  name: "data"\n}\n'), "a network of Caffe"),
    "model.json": (document(format="layers-model"), "a layers model of TensorFlow.js"),
    "architecture.json": (document(class_name="Sequential", config={}), "a Keras object"),
    "config.json": (document(architectures=["Bert"], model_type="bert"), "a Hugging Face model"),
    # Archives and what a download leaves.
    "model.tar": (tar, "a tar archive"),
    "model.tar.gz": (lambda path: path.write_bytes(gzip.compress(b"x")), "a gzip archive"),
    "model.tar.bz2": (lambda path: path.write_bytes(bz2.compress(b"x")), "a bzip2 archive"),
    "model.tar.xz": (lambda path: path.write_bytes(lzma.compress(b"x")), "an xz archive"),
    "model.zip": (archive("saved_model.pb"), "a zip archive"),
    "model.7z": (content(b"7z\xbc\xaf\x27\x1c" + bytes(20)), "a 7z archive"),
    "pointer.pb": (content("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "git lfs pull"),
    "page.pb": (content("\n<!DOCTYPE html><html><title>404</title></html>"), "a web page"),
    # Pictures, sounds, data.
    "cat.png": (content(b"\x89PNG\r\n\x1a\n" + bytes(20)), "an image"),
    "cat.jpg": (content(b"\xff\xd8\xff\xe0" + bytes(20)), "an image"),
    "cat.gif": (content(b"GIF89a" + bytes(20)), "an image"),
    "cat.webp": (content(b"RIFF\x20\0\0\0WEBPVP8 " + bytes(20)), "an image"),
    "word.wav": (sound, "a WAV file"),
    "film.mp4": (content(b"\0\0\0\x18ftypmp42" + bytes(20)), "a film"),
    "wide.pbtxt": (content('node { name: "x" }'.encode("utf-16")), "text in UTF-16"),
    "x.npy": (lambda path: np.save(path, np.ones(3)), "an array"),
    "x.npz": (arrays, "an .npz file of arrays"),
    "x.parquet": (content(b"PAR1" + bytes(20)), "a Parquet file"),
    "x.db": (database, "a SQLite database"),
    "x.json": (document(x=[1, 2]), "a JSON document"),
    "x.csv": (content("a,b\n1,2\n"), "is a table"),
    "paper.pdf": (content(b"%PDF-1.7\n"), "a PDF document"),
    # Programs and what lies around a model.
    "train.py": (content("import tensorflow as tf\n"), "a Python program"),
    "train.sh": (content("#!/bin/sh\n"), "a script"),
    "train.ipynb": (document(cells=[], nbformat=4), "a Jupyter notebook"),
    "libop.so": (content(b"\x7fELF\x02\x01\x01" + bytes(20)), "machine code"),
    "labels.txt": (content("cat\ndog\n"), "is text, but no graph"),
    "map.pbtxt": (content("item {\n  id: 1\n  name: 'cat'\n}\n"), "a label map"),
    "checkpoint": (content('model_checkpoint_path: "model.ckpt-1"\n'), "the list of a folder's checkpoints"),
    "events.out.tfevents.1": (events, "an event file of TensorBoard"),
    "model.ckpt-1.index": (content(b"\0\0\x01"), "a part of a checkpoint"),
    # Graphs that are damaged, and nothing at all.
    "empty.pb": (content(b""), "is empty"),
    "cut.pb": (lambda path: path.write_bytes(DIGITS.read_bytes()[:-100]), "cut off"),
    "cut.pbtxt": (content('node { name: "x" op: "Placeholder"'), "no graph that can be run"),
    "zeros.pb": (content(bytes(64)), "no graph"),
    "random.pb": (content(random.Random(0).randbytes(512)), "no graph"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_no_graph_is_told_in_a_sentence(name: str, tmp_path: Path, capsys: Output) -> None:
    write, told = KINDS[name]
    path = tmp_path / name
    write(path)
    assert main(["inspect", str(path)]) == failure.UNREADABLE_GRAPH
    said = capsys.readouterr().err
    assert told in said
    assert any(word in said.replace(str(path), "") for word in REMEDIES)
    assert said.count("\n") == 1
    assert len(said) - len(str(path)) < 300


@pytest.mark.parametrize("name", ["model.h5", "model.onnx", "cat.png", "model.safetensors", "config.json"])
def test_a_folder_of_such_files_is_told_by_one_of_them(name: str, tmp_path: Path, capsys: Output) -> None:
    write, told = KINDS[name]
    (tmp_path / "variables").mkdir()
    write(tmp_path / name)
    (tmp_path / "zz.txt").write_text("notes")
    assert main(["run", str(tmp_path)]) == failure.UNREADABLE_GRAPH
    said = capsys.readouterr().err
    assert f"is a directory without saved_model.pb: {name} in it is" in said
    assert told in said


def test_an_empty_folder_is_told(tmp_path: Path, capsys: Output) -> None:
    assert main(["run", str(tmp_path)]) == failure.UNREADABLE_GRAPH
    assert "it is empty: name a GraphDef (.pb, .pbtxt)" in capsys.readouterr().err


def test_there_are_thirty_kinds_and_more() -> None:
    assert len({told for _, told in KINDS.values()}) >= 30
