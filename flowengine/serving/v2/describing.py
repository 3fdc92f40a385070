"""The metadata of the server and of a model, and readiness, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from flowengine.saved_model.signatures import SignatureTensor
from flowengine.serving.models.versions import ServedVersion
from flowengine.serving.v2.datatypes import datatype_of
from flowengine.serving.v2.signatures import chosen_signature

#: Triton's names of the extensions that are spoken.
EXTENSIONS: Final = (
    "binary_tensor_data",
    "model_repository",
    "model_repository(unload_dependents)",
    "parameters",
)


def write_server(version: str) -> bytes:
    """Write the metadata of a server of this version."""
    return _json({"name": "flowengine", "version": version, "extensions": list(EXTENSIONS)})


def write_model(model: str, numbers: Iterable[int], version: ServedVersion) -> bytes:
    """Write the metadata of a model: the inputs and outputs of its default signature.

    numbers   the versions that answer

    Raises InvalidArgumentError if no signature is the default one.
    """
    signature = chosen_signature(model, version.signatures)
    return _json(
        {
            "name": model,
            "versions": [str(number) for number in sorted(numbers)],
            "platform": _platform(version),
            "inputs": _tensors(signature.inputs),
            "outputs": _tensors(signature.outputs),
        }
    )


def write_ready(model: str | None, *, is_ready: bool) -> bytes:
    """Write whether a model, or without one the server, is ready."""
    return _json({"ready": is_ready} if model is None else {"name": model, "ready": is_ready})


def _platform(version: ServedVersion) -> str:
    files = {path for path, _, _ in version.fingerprint or ()}
    is_saved_model = bool(files & {"saved_model.pb", "saved_model.pbtxt"})
    return "tensorflow_savedmodel" if is_saved_model else "tensorflow_graphdef"


def _tensors(tensors: Mapping[str, SignatureTensor]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": datatype_of(each.dtype), "shape": _shape(each)}
        for name, each in tensors.items()
    ]


def _shape(tensor: SignatureTensor) -> list[int]:
    """The shape, -1 for free dimensions; that of an unknown rank cannot be said, and is given as one."""
    dims = tensor.shape.dims
    return [-1] if dims is None else [-1 if size is None else size for size in dims]


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


__all__ = ["EXTENSIONS", "write_model", "write_ready", "write_server"]
