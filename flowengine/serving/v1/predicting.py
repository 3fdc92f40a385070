"""`:predict`: a request by rows or columns as arrays, and arrays as its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE, SignatureFacts, SignatureTensor
from flowengine.serving.text.reading import reading
from flowengine.serving.text.values import array_of, shown
from flowengine.serving.text.writing import written
from flowengine.serving.v1.tensors import is_bytes, tensor_of, type_name

_ROWS: Final = "instances"
_COLUMNS: Final = "inputs"
#: The end of an output's name whose strings are bytes.
_BYTES: Final = "_bytes"


class PredictRequest(NamedTuple):
    """A request for predictions.

    signature   the name of the signature
    inputs      {input: array}
    by_rows     whether it lists instances; the answer then lists predictions
    """

    signature: str
    inputs: dict[str, Array]
    by_rows: bool


def read_predict(body: bytes, signatures: Mapping[str, SignatureFacts]) -> Pieces[PredictRequest]:
    """Read the body of a request.

    signatures   of the model, by name

    Raises InvalidArgumentError for anything that is not a request of one of them, in TensorFlow Serving's
    words.
    """
    document = yield from document_of(body)
    name = signature_name(document) or DEFAULT_SIGNATURE
    if name not in signatures:
        raise InvalidArgumentError(f'Serving signature name: "{name}" not found in signature def')
    inputs = signatures[name].inputs
    if not inputs:
        raise InvalidArgumentError(f"Failed to get input map for signature: {name}")
    if _ROWS in document and _COLUMNS in document:
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} Not formatted correctly expecting only one of '{_COLUMNS}' or "
            f"'{_ROWS}' keys to exist "
        )
    if _ROWS in document:
        return PredictRequest(name, _of_rows(document, inputs), by_rows=True)
    if _COLUMNS in document:
        return PredictRequest(name, _of_columns(document[_COLUMNS], inputs), by_rows=False)
    raise InvalidArgumentError(f"Missing '{_COLUMNS}' or '{_ROWS}' key")


def document_of(body: bytes) -> Pieces[dict[str, Any]]:
    """Read the object that a body is; InvalidArgumentError for anything else."""
    document = yield from reading(body)
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"JSON Value: {shown(document)} Is not object")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    """Return the name of the signature that is asked for, "" for none."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} not formatted correctly. 'signature_name' key must be a string "
            "value."
        )
    return name


def _of_rows(document: Mapping[str, Any], inputs: Mapping[str, SignatureTensor]) -> dict[str, Array]:
    rows = document[_ROWS]
    if not isinstance(rows, list | np.ndarray):
        raise InvalidArgumentError(f"JSON Value: {shown(document)} Expecting '{_ROWS}' to be an list/array")
    if not len(rows):
        raise InvalidArgumentError(f"JSON Value: {shown(document)} No values in '{_ROWS}' array")
    if not isinstance(rows[0], dict) and len(inputs) > 1:
        raise InvalidArgumentError(
            f"{_ROWS} is a plain list, but expecting list of objects as multiple input tensors required as "
            "per tensorinfo_map"
        )
    if isinstance(rows, list) and _is_named(rows[0]):
        return _of_named_rows(rows, inputs)
    if isinstance(rows, list):
        for place, row in enumerate(rows):
            if _is_named(row):
                raise InvalidArgumentError(
                    f"Expecting value/list but got object at item {place} of input list"
                )
    name = min(inputs)
    try:
        return {name: tensor_of(rows, inputs[name].dtype)}
    except InvalidArgumentError:
        _check_each(rows, name, inputs[name], key="")
        raise


def _of_named_rows(rows: Sequence[Any], inputs: Mapping[str, SignatureTensor]) -> dict[str, Array]:
    wanted = inputs.keys()
    if all(_is_named(row) and row.keys() == wanted for row in rows):
        try:
            return {name: tensor_of([row[name] for row in rows], each.dtype) for name, each in inputs.items()}
        except InvalidArgumentError:
            pass  # whose row is told below
    shapes: dict[str, tuple[int, ...]] = {}
    for place, row in enumerate(rows):
        if not _is_named(row):
            raise InvalidArgumentError(f"Expecting object but got list at item {place} of input list")
        for name, value in row.items():
            try:
                if name not in inputs:
                    raise InvalidArgumentError(f"JSON object: does not have named input: {name}")
                _check(value, inputs[name], shapes, name)
            except InvalidArgumentError as error:
                raise _failed(place, f" key: {name}", error) from None
        if row.keys() != wanted:
            raise InvalidArgumentError(
                f"Failed to process element: {place} of '{_ROWS}' list. JSON object: {shown(row)} keys must "
                f"be equal to: {','.join(sorted(wanted))}"
            )
    return {
        name: np.stack([tensor_of(row[name], each.dtype) for row in rows]) for name, each in inputs.items()
    }


def _check_each(rows: Any, name: str, tensor: SignatureTensor, key: str) -> None:
    """Raise the error of the first row that does not fit, or does not fit those before."""
    shapes: dict[str, tuple[int, ...]] = {}
    for place, row in enumerate(rows):
        try:
            _check(row, tensor, shapes, name)
        except InvalidArgumentError as error:
            raise _failed(place, key, error) from None


def _check(value: Any, tensor: SignatureTensor, shapes: dict[str, tuple[int, ...]], name: str) -> None:
    found = tensor_of(value, tensor.dtype)
    expected = shapes.setdefault(name, found.shape)
    size = int(np.prod(expected))
    if found.size != size:
        raise InvalidArgumentError(f"Expecting tensor size: {size} but got: {found.size}")
    if found.shape != expected:
        raise InvalidArgumentError(
            f"Expecting shape {_shape_text(expected)} but got: {_shape_text(found.shape)}"
        )


def _failed(place: int, key: str, error: InvalidArgumentError) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Failed to process element: {place}{key} of '{_ROWS}' list. Error: INVALID_ARGUMENT: {error.message}"
    )


def _shape_text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _is_named(row: Any) -> bool:
    return isinstance(row, dict) and not is_bytes(row)


def _of_columns(given: Any, inputs: Mapping[str, SignatureTensor]) -> dict[str, Array]:
    if not _is_named(given):
        if len(inputs) > 1:
            raise InvalidArgumentError(
                f"{_COLUMNS} is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        name = min(inputs)
        return {name: tensor_of(given, inputs[name].dtype)}
    found = {}
    for name, each in inputs.items():
        if name not in given:
            raise InvalidArgumentError(f"Missing named input: {name} in '{_COLUMNS}' object.")
        found[name] = tensor_of(given[name], each.dtype)
    return found


def write_predict(outputs: Mapping[str, Any], *, by_rows: bool) -> Pieces[list[bytes]]:
    """Write the answer to a request, in pieces of text.

    outputs   {output: array}

    Raises InvalidArgumentError for outputs without rows, or of different numbers of rows, if the request had
    rows, and for a type that JSON has no values of.
    """
    if not outputs:
        raise InvalidArgumentError("Cannot convert empty tensor map to JSON")
    arrays = {name: array_of(outputs[name]) for name in sorted(outputs)}
    for array in arrays.values():
        if array.dtype.kind == "c":
            raise InvalidArgumentError(
                "Failed to write JSON value for tensor type: " + type_name(dtypes.as_dtype(array.dtype))
            )
    if by_rows:
        return (yield from _write_rows(arrays))
    pieces = [b'{"outputs": ']
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        pieces += yield from _write(name, array)
    else:
        before = b"{"
        for name, array in arrays.items():
            pieces.append(before + _key(name))
            pieces += yield from _write(name, array)
            before = b", "
        pieces.append(b"}")
    return [*pieces, b"}"]


def _write_rows(arrays: Mapping[str, Array]) -> Pieces[list[bytes]]:
    count = None
    for name, array in arrays.items():
        if array.ndim == 0:
            raise InvalidArgumentError(f"Tensor name: {name} has no shape information ")
        if count is not None and len(array) != count:
            raise InvalidArgumentError(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: {count}"
            )
        count = len(array)
    pieces = [b'{"predictions": ']
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        pieces += yield from _write(name, array)
        return [*pieces, b"}"]
    before = b"[{"
    for row in range(count or 0):
        for name, array in arrays.items():
            pieces.append(before + _key(name))
            pieces += yield from _write(name, array[row])
            before = b", "
        before = b"}, {"
    pieces.append(b"}]}" if count else b"[]}")
    return pieces


def _write(name: str, array: Array) -> Pieces[list[bytes]]:
    return written(array, as_base64=name.endswith(_BYTES))


def _key(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode() + b": "


__all__ = [
    "PredictRequest",
    "document_of",
    "read_predict",
    "signature_name",
    "write_predict",
]
