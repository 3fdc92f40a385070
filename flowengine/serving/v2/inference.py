"""`infer`: a request as arrays, and arrays as its answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.text.reading import reading
from flowengine.serving.v2.binary import read_binary
from flowengine.serving.v2.data import read_data
from flowengine.serving.v2.datatypes import BINARY_ONLY, datatype_of, dtype_of
from flowengine.serving.v2.parameters import RequestParameters, parameters_of, read_parameters
from flowengine.serving.v2.raw import read_raw
from flowengine.serving.v2.signatures import check_dense, chosen_signature

#: Dimensions that a tensor may have, and the most of one.
_RANK_MAX: Final = 64
_SIZE_MAX: Final = 2**62
#: Bytes that are no UTF-8, as they stand in a string that was read.
_NO_UTF8: Final = re.compile("[\ud800-\udfff]")
#: Characters of an unknown name that an error shows.
_SHOWN: Final = 100


class InferRequest(NamedTuple):
    """A request for an inference.

    signature         the name of the signature
    inputs            {input: array}
    outputs           {output: whether as binary data}, in the order of the answer
    id                given back in the answer; None for none
    timeout_seconds   how long the step may take; None for no bound of its own
    """

    signature: str
    inputs: dict[str, Array]
    outputs: dict[str, bool]
    id: str | None = None
    timeout_seconds: float | None = None


def read_infer(
    body: bytes, header_length: int | None, model: str, signatures: Mapping[str, SignatureFacts]
) -> Pieces[InferRequest]:
    """Read the body of a request.

    header_length   the bytes of JSON before the binary data; None for all of the body, 0 for a raw binary
                    request, which has no JSON
    model           its name, for messages

    Raises InvalidArgumentError for anything that is not a request of one of the signatures.
    """
    if header_length == 0:
        signature = chosen_signature(model, signatures)
        name, array = yield from read_raw(signature, memoryview(body))
        return InferRequest(signature.name, {name: array}, dict.fromkeys(_outputs(signature), True))
    text = body if header_length is None else body[:header_length]
    document = yield from reading(text, whole=True)
    if not isinstance(document, dict):
        raise InvalidArgumentError("the request is no object of JSON")
    parameters = read_parameters(document)
    signature = chosen_signature(model, signatures, parameters.signature)
    identifier = document.get("id")
    if identifier is not None and not _is_text(identifier):
        raise InvalidArgumentError("Unable to parse 'id': it is no string of UTF-8")
    rest = memoryview(body)[len(text) :]
    reader = _InputReader(model, signature, rest)
    inputs = yield from reader.read(document)
    outputs = _asked_outputs(document, model, signature, parameters)
    return InferRequest(signature.name, inputs, outputs, identifier, parameters.timeout_seconds)


class _InputReader:
    """The inputs of one request, and the binary data that follows its JSON."""

    def __init__(self, model: str, signature: SignatureFacts, rest: memoryview) -> None:
        self._model = model
        self._signature = signature
        self._rest = rest

    def read(self, document: Mapping[str, Any]) -> Pieces[dict[str, Array]]:
        listed = _objects(document, "inputs")
        found: dict[str, Array] = {}
        for each in listed:
            name = _text(each, "name")
            if name in found:
                raise InvalidArgumentError(f"input '{name}' already exists in request")
            found[name] = yield from self._array(name, each)
        if self._rest:
            raise InvalidArgumentError(
                f"unexpected additional input data for model '{self._model}': {len(self._rest)} bytes follow "
                "those of its inputs"
            )
        wanted = self._signature.inputs
        missing = [name for name, each in wanted.items() if name not in found and each.default is None]
        if missing:
            raise InvalidArgumentError(
                f"expected {len(wanted)} inputs but got {len(found)} inputs for model '{self._model}'. Got "
                f"input(s) {sorted(found)}, but missing required input(s) {missing}. Please provide all "
                "required input(s)."
            )
        return found

    def _array(self, name: str, given: Mapping[str, Any]) -> Pieces[Array]:
        dtype = self._dtype(name, given)
        shape, count = _shape(name, given)
        parameters = parameters_of(given, f"input '{name}'")
        ways = {
            "'data'": "data" in given,
            "'binary_data_size'": "binary_data_size" in parameters,
            "'shared_memory_region'": "shared_memory_region" in parameters,
        }
        present = [way for way, is_given in ways.items() if is_given]
        if len(present) != 1:
            raise InvalidArgumentError(
                "Input must set only one of the following fields: 'data', 'binary_data_size' in "
                f"'parameters'. But {'set ' + ' '.join(present) if present else 'no field is set'} for input "
                f"'{name}'"
            )
        if present[0] == "'data'":
            return (yield from read_data(name, dtype, shape, count, given["data"]))
        if present[0] == "'shared_memory_region'":
            raise InvalidArgumentError(f"'shared_memory_region' is not supported, for input '{name}'")
        return (yield from read_binary(name, dtype, shape, count, self._taken(name, parameters)))

    def _dtype(self, name: str, given: Mapping[str, Any]) -> DType:
        known = self._signature.inputs.get(name)
        if known is None:
            raise InvalidArgumentError(
                f"unexpected inference input '{name[:_SHOWN]}' for model '{self._model}'"
            )
        datatype = _text(given, "datatype", f" of input '{name}'")
        dtype = dtype_of(datatype)
        if dtype is None:
            raise InvalidArgumentError(f"invalid datatype {datatype[:40]!r} for input '{name}'")
        check_dense(f"input '{name}'", known)
        if known.dtype is not dtype:
            raise InvalidArgumentError(
                f"inference input '{name}' data-type is '{datatype}', but model '{self._model}' expects "
                f"'{datatype_of(known.dtype)}'"
            )
        return dtype

    def _taken(self, name: str, parameters: Mapping[str, Any]) -> memoryview:
        """As much of the binary data as the next input has of it."""
        size = parameters["binary_data_size"]
        if type(size) is not int or size < 0:
            raise InvalidArgumentError(
                f"Unable to parse 'binary_data_size' of input '{name}': it is no number of bytes"
            )
        if size > len(self._rest):
            raise InvalidArgumentError(
                f"unexpected size for input '{name}', expecting {size - len(self._rest)} additional bytes "
                f"for model '{self._model}'"
            )
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _shape(name: str, given: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
    """The shape that is given for an input, and the number of its elements."""
    shape = given.get("shape")
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if (
        not isinstance(shape, list)
        or len(shape) > _RANK_MAX
        or not all(type(each) is int and each >= 0 for each in shape)
        or math.prod(each for each in shape if each) > _SIZE_MAX
    ):
        raise InvalidArgumentError(
            f"Unable to parse 'shape' of input '{name}': it is no list of up to {_RANK_MAX} whole numbers "
            "from 0"
        )
    return tuple(shape), math.prod(shape)


def _asked_outputs(
    document: Mapping[str, Any], model: str, signature: SignatureFacts, parameters: RequestParameters
) -> dict[str, bool]:
    known = _outputs(signature)
    found: dict[str, bool] = {}
    for each in _objects(document, "outputs") if "outputs" in document else []:
        name = _text(each, "name")
        if name not in known:
            raise InvalidArgumentError(f"unexpected inference output '{name[:_SHOWN]}' for model '{model}'")
        own = parameters_of(each, f"output '{name}'")
        for unsupported in ("classification", "shared_memory_region"):
            if unsupported in own:
                raise InvalidArgumentError(f"'{unsupported}' is not supported, for output '{name}'")
        is_binary = own.get("binary_data", parameters.binary_outputs)
        if not isinstance(is_binary, bool):
            raise InvalidArgumentError(f"Unable to parse 'binary_data' of output '{name}': it is no boolean")
        found[name] = is_binary
    outputs = found or dict.fromkeys(known, parameters.binary_outputs)
    for name, is_binary in outputs.items():
        check_dense(f"output '{name}'", known[name])
        datatype = datatype_of(known[name].dtype)
        if datatype in BINARY_ONLY and not is_binary:
            raise not_in_json(datatype)
    return outputs


def not_in_json(datatype: str) -> InvalidArgumentError:
    """Return the error for an output whose type JSON has no values of."""
    return InvalidArgumentError(
        f"sending {datatype} data via JSON is not supported. Please use the binary data format for output"
    )


def _outputs(signature: SignatureFacts) -> Mapping[str, SignatureTensor]:
    """The outputs that are tensors; a node that is only run has no value."""
    return {name: each for name, each in signature.outputs.items() if ":" in each.tensors[0]}


def _is_text(value: Any) -> bool:
    """Whether a value is a string that was UTF-8 in the body."""
    return isinstance(value, str) and not _NO_UTF8.search(value)


def _objects(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    listed = document.get(key)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InvalidArgumentError(f"Unable to parse '{key}': it is no list of objects")
    return listed


def _text(given: Mapping[str, Any], key: str, where: str = "") -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise InvalidArgumentError(f"Unable to parse '{key}'{where}: it is no string")
    return value


def json_length(given: bytes | None, size: int) -> int | None:
    """Return the bytes of JSON in a body, by its header `Inference-Header-Content-Length`; None without one.

    given   the value of the header
    size    the bytes of the body, expanded

    Raises InvalidArgumentError for a header that is no such number.

    >>> from flowengine.serving.v2.inference import json_length
    >>> json_length(b"120", 136)
    120
    """
    if given is None:
        return None
    if not given.isdigit():
        shown = json.dumps(given[:40].decode("latin-1"))
        raise InvalidArgumentError(f"Unable to parse Inference-Header-Content-Length, got: {shown}")
    if len(given.lstrip(b"0")) > 19 or int(given) > size:
        raise InvalidArgumentError(
            f"inference header size should be in range (0, {size}), got: {given[:40].decode('latin-1')}"
        )
    return int(given)


__all__ = ["InferRequest", "json_length", "not_in_json", "read_infer"]
