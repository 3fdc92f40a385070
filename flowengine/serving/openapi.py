"""The OpenAPI description of a server: the paths of its models, with requests and answers by signature."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from flowengine.core import dtypes
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE, SignatureFacts, SignatureTensor
from flowengine.serving.v2.datatypes import BINARY_ONLY, datatype_of, dtype_of

#: One value of JSON for bytes that are no text.
_BASE64: Final = {
    "type": "object",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
    "additionalProperties": False,
}
_SIZE: Final = {"type": "integer", "minimum": 0}
_FLOATS: Final = {"float32": "float", "float64": "double"}
_ERROR: Final = {
    "description": "The request was refused, or failed; the sentence says why.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}},
                "required": ["error"],
            }
        }
    },
}


def write_openapi(
    models: Iterable[tuple[str, Mapping[str, SignatureFacts]]], *, prefix: str, version: str
) -> bytes:
    """Write the OpenAPI description of models.

    models    (name, {name of a signature: its facts}) of each
    prefix    the path that the server is mounted under, "" for none
    version   of the server
    """
    paths: dict[str, Any] = {}
    for name, signatures in models:
        part = quote(name)
        every = list(signatures.values())
        if every:
            paths[f"/v1/models/{part}:predict"] = _post(
                f"Predict with {name}, by rows or columns", map(_predict, every), map(_predicted, every)
            )
        for method in ("classify", "regress"):
            if any(each.method.endswith(f"/{method}") for each in every):
                paths[f"/v1/models/{part}:{method}"] = _post(
                    f"{method.capitalize()} examples with {name}", [_EXAMPLES], [_object(results=_list({}))]
                )
        carried = [each for each in every if _is_carried(each)]
        if carried:
            paths[f"/v2/models/{part}/infer"] = _post(
                f"Infer with {name}, by the Open Inference Protocol",
                map(_infer, carried),
                map(_inferred, carried),
            )
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Models served by FlowEngine", "version": version},
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _post(summary: str, requests: Iterable[Any], answers: Iterable[Any]) -> dict[str, Any]:
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": _any(requests)}}},
            "responses": {
                "200": {
                    "description": "The answer of the model",
                    "content": {"application/json": {"schema": _any(answers)}},
                },
                "default": _ERROR,
            },
        }
    }


def _any(schemas: Iterable[Any]) -> Any:
    listed = list(schemas)
    return listed[0] if len(listed) == 1 else {"anyOf": listed}


def _object(required: Iterable[str] | None = None, **properties: Any) -> dict[str, Any]:
    wanted = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": wanted}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_EXAMPLES: Final = _object(
    ["examples"],
    signature_name={"type": "string"},
    context={"type": "object"},
    examples=_list({"type": "object"}),
)


def _predict(facts: SignatureFacts) -> dict[str, Any]:
    """The body of a request for predictions: rows if all inputs have some, or columns."""
    columns: Any = {name: _value(each.dtype, each.shape.dims) for name, each in facts.inputs.items()}
    forms = {"inputs": _alone_too(columns, facts.inputs)}
    if all(each.shape.dims != () for each in facts.inputs.values()) and facts.inputs:
        rows: Any = {name: _value(each.dtype, _row(each)) for name, each in facts.inputs.items()}
        forms["instances"] = {**_list(_alone_too(rows, facts.inputs)), "minItems": 1}
    schema = _object([], signature_name={"const": facts.name}, **forms)
    schema["title"] = f"signature {facts.name}"
    schema["required"] = [] if facts.name == DEFAULT_SIGNATURE else ["signature_name"]
    schema["oneOf"] = [{"required": [form]} for form in forms]
    return schema


def _alone_too(properties: dict[str, Any], tensors: Mapping[str, SignatureTensor]) -> Any:
    """Values by name; the only value also without its name."""
    required = [name for name, each in tensors.items() if each.default is None]
    named = _object(required, **properties)
    return {"anyOf": [named, *properties.values()]} if len(properties) == 1 else named


def _predicted(facts: SignatureFacts) -> dict[str, Any]:
    columns = {name: _value(each.dtype, each.shape.dims) for name, each in facts.outputs.items()}
    rows = {name: _value(each.dtype, _row(each)) for name, each in facts.outputs.items()}
    alone = len(columns) == 1
    return {
        "title": f"signature {facts.name}",
        "oneOf": [
            _object(predictions=_list(next(iter(rows.values())) if alone else _object(**rows))),
            _object(outputs=next(iter(columns.values())) if alone else _object(**columns)),
        ],
    }


def _row(tensor: SignatureTensor) -> tuple[int | None, ...] | None:
    """The shape of one row of a tensor; None for an unknown one."""
    return None if tensor.shape.dims is None else tuple(tensor.shape.dims[1:])


def _value(dtype: dtypes.DType, dims: tuple[int | None, ...] | None) -> Any:
    """Nested lists of elements by their shape; anything for an unknown shape or type."""
    element = _element(dtype)
    if dims is None or element is None:
        return {}
    for size in reversed(dims):
        element = _list(element)
        if size is not None:
            element |= {"minItems": size, "maxItems": size}
    return element


def _element(dtype: dtypes.DType) -> Any:
    if dtype is dtypes.string:
        return {"anyOf": [{"type": "string"}, _BASE64]}
    if dtype is dtypes.bool_:
        return {"type": "boolean"}
    if dtype.is_integer:
        return {"type": "integer", "minimum": int(dtype.min), "maximum": int(dtype.max)}
    if dtype.is_floating:
        named = {"format": _FLOATS[dtype.name]} if dtype.name in _FLOATS else {}
        return {"type": "number", **named}
    return None


def _is_carried(facts: SignatureFacts) -> bool:
    return all(
        dtype_of(datatype_of(each.dtype)) is not None and not each.is_sparse and not each.is_composite
        for each in (*facts.inputs.values(), *facts.outputs.values())
    )


def _infer(facts: SignatureFacts) -> dict[str, Any]:
    """The body of a request of the Open Inference Protocol; binary data is described by its parameter."""
    inputs = [_tensor(name, each) for name, each in facts.inputs.items()]
    outputs = _object(["name"], name={"enum": list(facts.outputs)}, parameters={"type": "object"})
    parameters: dict[str, Any] = _object([], signature_name={"const": facts.name})
    is_default = facts.name == DEFAULT_SIGNATURE
    if not is_default:
        parameters["required"] = ["signature_name"]
    return {
        "title": f"signature {facts.name}",
        **_object(
            ["inputs"] if is_default else ["inputs", "parameters"],
            id={"type": "string"},
            parameters=parameters,
            inputs=_list(_any(inputs) if inputs else {}),
            outputs=_list(outputs),
        ),
    }


def _inferred(facts: SignatureFacts) -> dict[str, Any]:
    outputs = [_tensor(name, each) for name, each in facts.outputs.items()]
    return {
        "title": f"signature {facts.name}",
        **_object(
            ["model_name", "model_version", "outputs"],
            id={"type": "string"},
            model_name={"type": "string"},
            model_version={"type": "string"},
            outputs=_list(_any(outputs) if outputs else {}),
        ),
    }


def _tensor(name: str, tensor: SignatureTensor) -> dict[str, Any]:
    datatype = datatype_of(tensor.dtype)
    dims = tensor.shape.dims
    shape = _list(_SIZE)
    if dims is not None:
        shape |= {"minItems": len(dims), "maxItems": len(dims)}
    if dims:
        shape["prefixItems"] = [_SIZE if size is None else {"const": size} for size in dims]
    size = _object(binary_data_size=_SIZE)
    forms = [{"required": ["parameters"]}]
    data: dict[str, Any] = {}
    if datatype not in BINARY_ONLY:
        element = {"type": "string"} if datatype == "BYTES" else _element(tensor.dtype)
        data["data"] = {"type": "array", "description": "elements, flat or nested by the shape"}
        if dims is not None and len(dims) < 2:
            data["data"]["items"] = element
        forms.append({"required": ["data"]})
    described = _object(
        ["name", "shape", "datatype"],
        name={"const": name},
        shape=shape,
        datatype={"const": datatype},
        **data,
        parameters=size,
    )
    described["oneOf"] = forms
    return described


__all__ = ["write_openapi"]
