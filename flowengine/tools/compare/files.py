"""Records as files: .npz archives of plain arrays, which any NumPy reads.

| member | contents |
|---|---|
| `format` | "flowengine record 1" |
| `steps`, `dropped` | one number each |
| `names`, `iterations`, `dtypes`, `shapes` | (n,) texts; a shape is "2,3" |
| `counts` | (n, 3) NaN, infinities, negative infinities |
| `figures` | (n, 4) least, largest, mean, norm |
| `lengths` | (n, 2) elements of the samples and of the whole value; -1 if it was not kept |
| `floats`, `integers`, `complexes` | of all tensors of the kind: samples, whole value, samples, ... |
| `texts`, `text_lengths` | the bytes of all strings, and the length of each |
| `nodes`, `ops`, `origins`, `inputs`, `attributes` | (m,) texts; inputs are divided by spaces |

Texts are bytes of UTF-8 and end in "|".

An archive without `format` holds whole values under the names of their tensors, as `flowengine run --output`
and the script for TensorFlow write them.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.tools.compare.records import NodeRecord, StepRecord
from flowengine.tools.compare.tensors import TensorRecord, record_of

_FORMAT: Final = "flowengine record 1"
_NOT_KEPT: Final = -1
#: The first bytes of a file with one array.
_ARRAY: Final = b"\x93NUMPY"
#: {kind of an array: the member that holds its elements}
_POOLS: Final = {"f": "floats", "i": "integers", "c": "complexes", "O": "texts"}
_DTYPES: Final[Mapping[str, Any]] = {"floats": np.float64, "integers": np.int64, "complexes": np.complex128}


def write_record(record: StepRecord, path: str) -> None:
    """Write a record beside `path`, and rename it: the file is whole, or as it was.

    Raises OSError where it cannot be written.
    """
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            _write(record, file)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)


def read_record(path: str) -> StepRecord:
    """Read a record, or an archive of whole values under the names of tensors.

    Raises OSError where it cannot be opened, InvalidArgumentError for a file that is damaged, of a later
    version, or no such archive.
    """
    with open(path, "rb") as file:
        try:
            members = _members(file)
            return _read(members) if "format" in members else _read_values(members)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: {error.message}") from error
        except Exception as error:  # a damaged archive raises nearly anything
            raise InvalidArgumentError(f"{path} is no record of a step, or damaged: {error}") from error


def _members(file: BinaryIO) -> dict[str, Array]:
    """Return the arrays of an archive."""
    if file.read(len(_ARRAY)) == _ARRAY:
        raise InvalidArgumentError("the file is one array: give a .npz file of named values")
    found = {}
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                found[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return found


def _write(record: StepRecord, file: BinaryIO) -> None:
    tensors, nodes = record.tensors, record.nodes
    pools: dict[str, list[Array]] = {name: [] for name in _POOLS.values()}
    lengths = np.full((len(tensors), 2), _NOT_KEPT, np.int64)
    for row, tensor in enumerate(tensors):
        for column, part in enumerate((tensor.samples, tensor.value)):
            if part is not None:
                lengths[row, column] = part.size
                pools[_POOLS[part.dtype.kind]].append(part)
    texts = [text for part in pools.pop("texts") for text in part.tolist()]
    members = {
        "format": np.array(_FORMAT),
        "steps": np.array(record.steps),
        "dropped": np.array(record.dropped),
        "names": _texts(tensor.name for tensor in tensors),
        "iterations": _texts(tensor.iteration for tensor in tensors),
        "dtypes": _texts(tensor.dtype for tensor in tensors),
        "shapes": _texts(",".join(map(str, tensor.shape)) for tensor in tensors),
        "counts": np.array([tensor.counts for tensor in tensors], np.int64).reshape(-1, 3),
        "figures": np.array([tensor.figures for tensor in tensors], np.float64).reshape(-1, 4),
        "lengths": lengths,
        "texts": np.frombuffer(b"".join(texts), np.uint8),
        "text_lengths": np.array([len(text) for text in texts], np.int64),
        "nodes": _texts(nodes),
        "ops": _texts(node.op for node in nodes.values()),
        "origins": _texts(node.origin for node in nodes.values()),
        "inputs": _texts(" ".join(node.inputs) for node in nodes.values()),
        "attributes": _texts(node.attrs for node in nodes.values()),
    }
    for name, parts in pools.items():
        members[name] = np.concatenate([np.empty(0, _DTYPES[name]), *parts])
    # Not np.savez: it leaves an archive open when the disk is full, whose end then warns.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _texts(texts: Any) -> Array:
    """Return texts as bytes of UTF-8: names are a stranger's, and NumPy drops what they may end with."""
    return np.array([f"{text}|".encode("utf-8", "surrogateescape") for text in texts], np.bytes_)


def _read(members: Mapping[str, Array]) -> StepRecord:
    version = str(members["format"])
    if version != _FORMAT:
        raise InvalidArgumentError(
            f"the record has format {version!r}; this version of FlowEngine reads {_FORMAT!r}"
        )
    ends = np.cumsum(members["text_lengths"], dtype=np.int64).tolist()
    blob = members["texts"].tobytes()
    if ends and ends[-1] != len(blob):
        raise ValueError("its strings are cut")
    texts = np.empty(len(ends), object)
    texts[:] = [blob[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    pools = {
        **{name: members[name].astype(dtype, copy=False) for name, dtype in _DTYPES.items()},
        "texts": texts,
    }
    taken = dict.fromkeys(pools, 0)

    def take(dtype: str, count: int) -> Array | None:
        if count < 0:
            return None
        pool = _pool_of(dtype)
        start = taken[pool]
        taken[pool] = start + count
        part = pools[pool][start : start + count]
        if part.size != count:
            raise ValueError("its elements are cut")
        return part

    tensors = []
    rows = zip(
        _strings(members["names"]),
        _strings(members["iterations"]),
        _strings(members["dtypes"]),
        _strings(members["shapes"]),
        members["counts"].tolist(),
        members["figures"].tolist(),
        members["lengths"].tolist(),
        strict=True,
    )
    for name, iteration, dtype, shape, counts, figures, (samples, whole) in rows:
        dims = tuple(int(dim) for dim in shape.split(",") if dim)
        first = take(dtype, samples)
        if first is None:
            raise ValueError(f"{name} has no samples")
        value = take(dtype, whole)
        tensors.append(
            TensorRecord(name, iteration, dtype, dims, tuple(counts), tuple(figures), first, value)
        )
    parts = [_strings(members[each]) for each in ("nodes", "ops", "inputs", "origins", "attributes")]
    nodes = {
        name: NodeRecord(op, tuple(inputs.split()), origin, attrs)
        for name, op, inputs, origin, attrs in zip(*parts, strict=True)
    }
    return StepRecord(tensors, nodes, int(members["steps"]), int(members["dropped"]))


def _strings(array: Array) -> Sequence[str]:
    return [text[:-1].decode("utf-8", "surrogateescape") for text in array.tolist()]


def _pool_of(dtype: str) -> str:
    if dtype == "string":
        return "texts"
    if dtype.startswith("complex"):
        return "complexes"
    return "integers" if dtype.startswith(("int", "uint", "bool")) else "floats"


def _read_values(members: Mapping[str, Array]) -> StepRecord:
    return StepRecord([*_values(members)])


def _values(members: Mapping[str, Array]) -> Iterator[TensorRecord]:
    for name, value in members.items():
        node, colon, slot = name.rpartition(":")
        full = name if colon and node and slot.isdigit() else f"{name}:0"
        yield record_of(full, "", value, is_kept=True)


__all__ = ["read_record", "write_record"]
