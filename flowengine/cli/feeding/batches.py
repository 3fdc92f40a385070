"""Many values in one file: the records of a TFRecord file, and lines of JSON.

{"x": [1, 2], "name": "a"}      one object with a value for each input,
{"x": [3, 4], "name": "b"}      and the next line is the next row of the batch
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any, Final

import numpy as np

from flowengine.core.errors import OpError

RECORD_SUFFIXES: Final = (".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz")
LINES_SUFFIXES: Final = (".jsonl", ".ndjson")
#: The key under which TensorFlow Serving's JSON has bytes.
_BASE64: Final = "b64"


def read_records(path: str) -> Any:
    """Read the records of a TFRecord file, with gzip by its name: strings, (N,).

    Raises ValueError for a damaged file, OSError where it cannot be read.
    """
    from flowengine.resources.records import source_of
    from flowengine.resources.tf_records import tf_records

    name = os.fsencode(path)
    compression = "GZIP" if path.lower().endswith(".gz") else ""
    found: list[bytes] = []
    try:
        with open(path, "rb") as file:
            for block in tf_records(source_of(file, compression, name), name):
                found += [record for _, record in block]
    except OpError as error:
        raise ValueError(error.message) from error
    values = np.empty(len(found), dtype=object)
    values[:] = found
    return values


def read_json(text: str, source: str) -> Any:
    """Read a value in JSON; bytes are `{"b64": "..."}`, as TensorFlow Serving has them.

    Raises ValueError for any other text and for what is nested too deeply.
    """
    try:
        return _with_bytes(json.loads(text))
    except RecursionError:
        raise ValueError(f"{source} is nested too deeply") from None


def read_lines(path: str) -> list[Any]:
    """Read a file with a value in JSON on each line; empty lines are skipped.

    Raises ValueError, with the number of the line, for a line that is no JSON.
    """
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    found.append(read_json(line, "it"))
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from None
    if not found:
        raise ValueError("it has no line")
    return found


def read_inputs(path: str) -> dict[str, Any]:
    """Read values for several inputs: a JSON object, or one on each line as a row of a batch.

    Raises ValueError where there is something else, or where lines differ in their inputs.
    """
    if not path.lower().endswith(LINES_SUFFIXES):
        with open(path, encoding="utf-8") as file:
            return _object(read_json(file.read(), path), "it")
    rows = [_object(row, f"line {number}") for number, row in enumerate(read_lines(path), 1)]
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            raise ValueError(f"line {number} has {_listed(row)}, and the first has {_listed(rows[0])}")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f'{what} is no JSON object of inputs, such as {{"x": [1, 2]}}')
    return value


def _listed(row: dict[str, Any]) -> str:
    return ", ".join(row) or "nothing"


def _with_bytes(value: Any) -> Any:
    """The value with bytes in the place of `{"b64": ...}`."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_BASE64} and isinstance(value[_BASE64], str):
        try:
            return base64.b64decode(value[_BASE64], validate=True)
        except binascii.Error as error:
            raise ValueError(f'"{_BASE64}" is not base64: {error}') from None
    return {key: _with_bytes(each) for key, each in value.items()}


__all__ = [
    "LINES_SUFFIXES",
    "RECORD_SUFFIXES",
    "read_inputs",
    "read_json",
    "read_lines",
    "read_records",
]
