"""Kinds of files that hold no graph, recognised by their first bytes, with what to do next."""

from __future__ import annotations

import re
from typing import Final

#: What runs here of a model of Keras, and of the converted models that TensorFlow writes.
_EXPORT: Final = "in TensorFlow, keras.models.load_model(FILE).export(DIR) writes a directory that runs here"
_SOURCE: Final = "what it was converted from runs here"
_REBUILD: Final = "its model has to be rebuilt as a graph of TensorFlow's ops first"
_WEIGHTS: Final = "weights without a graph: name the graph, and feed or restore the weights"
_UNPACK: Final = "unpack it, and name the graph or the SavedModel's folder in it"
_FEED: Final = "which --feed NAME=FILE feeds to a graph: name the graph first"
_UTF8: Final = "write it as UTF-8, which graphs in text form are read as"
_DOWNLOAD: Final = "a download that failed often leaves one: fetch the model itself"

_PYTORCH: Final = f"a PyTorch file: {_REBUILD}"
_ONNX: Final = f"an ONNX model: onnxruntime runs it, and {_SOURCE} if that was TensorFlow's"
#: Bytes at the beginning that may tell of a file's kind, and those of a text that are looked at.
_BEGINNING: Final = 1024
_TEXT_BYTES: Final = 1 << 20

#: (what a file begins with, at which byte, what it is and what helps)
_KINDS: Final = (
    (b"\x89HDF\r\n", 0, f"a HDF5 file, as Keras writes weights and models: {_EXPORT}"),
    (
        b"version https://git-lfs.github.com/spec/",
        0,
        "a Git LFS pointer, which stands for a file that was not downloaded: git lfs pull fetches it",
    ),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", 0, _PYTORCH),
    (
        b"PK\x03\x04",
        0,
        f"a zip archive, as Keras' .keras files are: {_EXPORT}; of another archive, unpack it",
    ),
    (b"TFL3", 4, f"a TensorFlow Lite model: {_SOURCE}"),
    (b"GGUF", 0, f"a GGUF file of llama.cpp: {_REBUILD}"),
    (b"ftrt", 0, f"a TensorRT engine: {_SOURCE}"),
    (b"RKNN", 0, f"a model for Rockchip's processors: {_SOURCE}"),
    (b"CBM1", 0, f"a model of CatBoost: {_REBUILD}"),
    (b"{L\0\0\0\0\0\0\0\x07learner", 0, f"a model of XGBoost: {_REBUILD}"),
    (b"ML\xefR", 0, f"bytecode of MLIR: {_SOURCE}"),
    (b"ftyp", 4, "a film: feed its frames, as an array or as pictures, and name the graph first"),
    (b"\xff\xfe", 0, f"text in UTF-16: {_UTF8}"),
    (b"\xfe\xff", 0, f"text in UTF-16: {_UTF8}"),
    (b"\x1f\x8b", 0, f"a gzip archive: {_UNPACK}"),
    (b"BZh", 0, f"a bzip2 archive: {_UNPACK}"),
    (b"\xfd7zXZ\0", 0, f"an xz archive: {_UNPACK}"),
    (b"\x28\xb5\x2f\xfd", 0, f"a Zstandard archive: {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", 0, f"a 7z archive: {_UNPACK}"),
    (b"Rar!\x1a\x07", 0, f"a RAR archive: {_UNPACK}"),
    (b"ustar", 257, f"a tar archive: {_UNPACK}"),
    (b"\x89PNG", 0, f"an image, {_FEED}"),
    (b"\xff\xd8\xff", 0, f"an image, {_FEED}"),
    (b"GIF8", 0, f"an image, {_FEED}"),
    (b"II*\0", 0, f"an image, {_FEED}"),
    (b"MM\0*", 0, f"an image, {_FEED}"),
    (b"WEBP", 8, f"an image, {_FEED}"),
    (b"WAVE", 8, f"a WAV file, {_FEED}"),
    (b"\x93NUMPY", 0, f"an array, {_FEED}"),
    (b"PAR1", 0, "a Parquet file, a table that a graph may be fed from: name the graph first"),
    (b"ARROW1", 0, "an Arrow file, a table: write it as .csv or .parquet to feed it to a graph"),
    (b"SQLite format 3\0", 0, "a SQLite database: write the table as .csv to feed it to a graph"),
    (b"%PDF-", 0, "a PDF document: name the graph that it is about"),
    (b"\x7fELF", 0, "a program or library in machine code: name the graph that it was built from"),
    (b"MZ", 0, "a program or library of Windows: name the graph that it was built from"),
    (b"#!", 0, "a script: run it by its interpreter; if it builds a graph, have it write a .pb"),
)
#: (what a JSON document says near its beginning, what it is and what helps), the more special first
_JSON_KINDS: Final = (
    (b'"graph-model"', f"a graph model of TensorFlow.js: {_SOURCE}"),
    (b'"layers-model"', f"a layers model of TensorFlow.js: {_SOURCE}"),
    (b'"nbformat"', "a Jupyter notebook: open it in Jupyter; if it builds a graph, have it write a .pb"),
    (b'"learner"', f"a model of XGBoost: {_REBUILD}"),
    (b'"arg_nodes"', f"a symbol file of MXNet: {_REBUILD}"),
    (b'"keras_version"', f"the architecture of a Keras model, without weights: {_EXPORT}"),
    (b'"class_name"', f"the configuration of a Keras object, without weights: {_EXPORT}"),
    (
        b'"architectures"',
        "the configuration of a Hugging Face model: export the model itself to a SavedModel",
    ),
    (b'"model_type"', "the configuration of a Hugging Face model: export the model itself to a SavedModel"),
    (
        b"",
        "a JSON document, and no graph; a file of inputs goes to --feed FILE.json",
    ),
)
#: (what a text begins with, without spaces; what it is and what helps)
_TEXT_KINDS: Final = (
    (rb"(?i)<!doctype html|<html", f"a web page: {_DOWNLOAD}"),
    (rb"(?s)<\?xml.{0,200}<PMML|<PMML", f"a PMML model: {_REBUILD}"),
    (rb"(?s)(<\?xml.{0,80})?<net ", f"a model of OpenVINO: {_SOURCE}"),
    (rb"<\?xml|<svg", "an XML document, which holds no graph"),
    (rb"(//[^\n]*\n|\s)*(module\b[^\n]*\{|func\.func )", f"a module of MLIR as text: {_SOURCE}"),
    (rb"HloModule ", f"a module of XLA as text: {_SOURCE}"),
    (
        rb"(?s)(#[^\n]*\n|\s)*model *\{\s*(ssd|faster_rcnn|center_net|context_rcnn) *\{",
        "the configuration of an object detector: export_inference_graph writes the graph that it describes",
    ),
    (rb"tree\nversion=", f"a model of LightGBM: {_REBUILD}"),
    (rb"\[net\]", f"the configuration of a Darknet model: {_REBUILD}"),
    (rb'(?s)name: *"[^"\n]*"\s+(layer|layers|input) *[:{]', f"a network of Caffe: {_REBUILD}"),
    (
        rb"model_checkpoint_path:",
        "the list of a folder's checkpoints: name a graph with --restore, or flowengine checkpoint ls FOLDER",
    ),
    (rb"(?s)item *\{\s*(id|name)", "a label map: name the graph, with --labels for this file"),
    (
        rb"(?m)(import|from) \w[\w.]*|def \w+\(",
        "a Python program: run it with python; if it builds a graph, have it write a .pb",
    ),
)
#: An ONNX model begins with the version of its format and the name of its producer.
_ONNX_BEGINNING: Final = re.compile(rb"\x08[\x01-\x1f](\x12.[\x20-\x7e]{2,}|\x3a|\x42)", re.S)
#: A safetensors file begins with the length of a JSON header, in 8 bytes, and the header.
_SAFETENSORS: Final = re.compile(rb".{6}\0\0\{\s*\"", re.S)
#: A pickle of protocol 2 to 5 ends with a dot; a long one has a frame.
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05][\x95c\x8c}\](]")
#: A record of an event file: 8 bytes of its length, 4 of a checksum, a wall time and the format's version.
_EVENTS: Final = b"brain.Event:"


def kind_of(data: bytes) -> str | None:
    """Return the kind of these bytes' content, with an article and what to do; None if the kind is unknown.

    >>> kind_of(b"TFL3 is not at the beginning")
    >>> kind_of(bytes([137]) + b"PNG and more").partition(",")[0]
    'an image'
    """
    beginning = bytes(data[:_BEGINNING])
    found = _of_archive(beginning)
    found = found or next((kind for magic, at, kind in _KINDS if data[at : at + len(magic)] == magic), None)
    return found or _of_text(bytes(data[:_TEXT_BYTES])) or _of_binary(beginning)


def _of_archive(beginning: bytes) -> str | None:
    """The kind of a zip archive, by the names of its first members."""
    if not beginning.startswith(b"PK\x03\x04"):
        return None
    if b"/data.pkl" in beginning or b"/code/" in beginning:
        return _PYTORCH
    return f"an .npz file of arrays, {_FEED}" if b".npy" in beginning else None


def _of_text(data: bytes) -> str | None:
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"{" and text[1:].lstrip()[:1] in (b'"', b"}"):
        return next(kind for key, kind in _JSON_KINDS if key in text)
    return next((kind for pattern, kind in _TEXT_KINDS if re.match(pattern, text)), None)


def _of_binary(beginning: bytes) -> str | None:
    if _SAFETENSORS.match(beginning):
        return f"a safetensors file, {_WEIGHTS}"
    if _PICKLE.match(beginning):
        return f"a pickle of Python objects, which is never loaded: {_REBUILD}"
    if _EVENTS in beginning:
        return "an event file of TensorBoard: tensorboard --logdir FOLDER shows it"
    return _ONNX if _ONNX_BEGINNING.match(beginning) else None


__all__ = ["kind_of"]
