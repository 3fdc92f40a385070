"""Many small arrays in one small file: those of a type lie end to end, an index tells which is where.

Read by both sides, hence written for Python 3.7.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def save(path: Any, arrays: dict[str, Any]) -> None:
    """File {name: array}."""
    index: list[Any] = []
    parts: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        index.append([name, array.dtype.name, list(array.shape)])
        parts.setdefault(array.dtype.name, []).append(array.reshape(-1))
    data = {key: np.concatenate(values) for key, values in parts.items()}
    named: dict[str, Any] = dict(data, index=np.frombuffer(json.dumps(index).encode(), np.uint8))
    np.savez_compressed(path, **named)


def load(path: Any) -> dict[str, Any]:
    """The {name: array} that were filed."""
    places: dict[str, int] = {}
    result: dict[str, Any] = {}
    with np.load(path) as data:
        flat: dict[str, Any] = {key: data[key] for key in data.files}
    for name, dtype, shape in json.loads(flat["index"].tobytes().decode()):
        start = places.get(dtype, 0)
        end = places[dtype] = start + int(np.prod(shape, dtype=np.int64))
        result[name] = flat[dtype][start:end].reshape(shape)
    return result
