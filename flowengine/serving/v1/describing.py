"""The status of a model's versions, and the metadata of its signatures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from flowengine.core.errors import NotFoundError, OpError
from flowengine.ir.proto import DataType
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.models.versions import ServedVersion, load_failure

#: {code of an error: its name in a status}
_CODES: Final = {
    0: "OK",
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
}


def write_status(model: str, versions: Iterable[ServedVersion], number: int | None) -> bytes:
    """Write the status of a model's versions, or of one by its number; NotFoundError if there is none."""
    found = sorted(versions, key=lambda each: -each.number)
    if number is not None:
        found = [each for each in found if each.number == number]
        if not found:
            raise NotFoundError(f"Could not find version {number} of model {model}")
    if not found:
        raise NotFoundError(f"Could not find any versions of model {model}")
    return _json({"model_version_status": [_status(each) for each in found]})


def _status(version: ServedVersion) -> dict[str, Any]:
    code, message = told(version.error)
    return {
        "version": str(version.number),
        "state": version.state.name,
        "status": {"error_code": code, "error_message": message},
    }


def told(error: OpError | None) -> tuple[str, str]:
    """Return the name of an error's code, and what a client is to know of it: no message of the model."""
    if error is None:
        return "OK", ""
    return _CODES.get(error.error_code, "UNKNOWN"), load_failure(error)


def write_metadata(model: str, version: ServedVersion) -> bytes:
    """Write the signatures of a version: types, shapes and names of tensors."""
    signatures = {name: _signature(each) for name, each in version.signatures.items()}
    return _json(
        {
            "model_spec": {"name": model, "signature_name": "", "version": str(version.number)},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }
    )


def _signature(facts: SignatureFacts) -> dict[str, Any]:
    return {
        "inputs": _tensors(facts.inputs),
        "outputs": _tensors(facts.outputs),
        "method_name": facts.method,
        "defaults": {},
    }


def _tensors(tensors: Mapping[str, SignatureTensor]) -> dict[str, Any]:
    return {name: _tensor(each) for name, each in tensors.items()}


def _tensor(tensor: SignatureTensor) -> dict[str, Any]:
    dims = tensor.shape.dims
    shape = {
        "dim": [{"size": str(-1 if size is None else size), "name": ""} for size in dims or ()],
        "unknown_rank": dims is None,
    }
    return {
        "dtype": DataType.Name(cast("Any", tensor.dtype.number)),
        "tensor_shape": shape,
        "name": tensor.tensors[0],
    }


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


__all__ = ["told", "write_metadata", "write_status"]
