"""Models for the tests of the Open Inference Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import flowengine as fe

#: {name in the protocol: type}
TYPES: Final = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "string",
}


def export_identity(path: Path, datatype: str) -> Path:
    """Write a SavedModel that gives back its matrix of a type, y, and its transpose, z."""
    graph = fe.Graph()
    x = graph.placeholder(TYPES[datatype], [None, None], name="x")
    outputs = {"y": fe.identity(x), "z": fe.transpose(x)}
    with fe.blocking.Session(graph) as session:
        signatures: dict[str, Any] = {"serving_default": ({"x": x}, outputs)}
        session.call(fe.saved_model.save, path, signatures=signatures)
    return path


def export_sum(path: Path) -> Path:
    """Write a SavedModel that adds and subtracts two rows, by the names of Triton's example `simple`."""
    graph = fe.Graph()
    inputs = {name: graph.placeholder("int32", [None, 16], name=name) for name in ("INPUT0", "INPUT1")}
    a, b = inputs.values()
    with fe.blocking.Session(graph) as session:
        signatures: dict[str, Any] = {"serving_default": (inputs, {"OUTPUT0": a + b, "OUTPUT1": a - b})}
        session.call(fe.saved_model.save, path, signatures=signatures)
    return path
