"""`:classify` and `:regress`: examples of named features as serialized `tf.Example`s, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.ir.proto.example_pb2 import Example, Feature
from flowengine.saved_model.signatures import DEFAULT_SIGNATURE, SignatureFacts
from flowengine.serving.text.values import encoded, kind_of, shown
from flowengine.serving.text.writing import written
from flowengine.serving.v1.predicting import document_of, signature_name
from flowengine.serving.v1.tensors import decoded, is_bytes, type_name

#: The input of a signature that takes examples, and the outputs, by TensorFlow's convention.
_INPUTS: Final = "inputs"
_CLASSES: Final = "classes"
_SCORES: Final = "scores"
_OUTPUTS: Final = "outputs"
_METHODS: Final = {
    "classify": ("classification", "tensorflow/serving/classify"),
    "regress": ("regression", "tensorflow/serving/regress"),
}


class ExamplesRequest(NamedTuple):
    """A request for classes or regressions.

    signature   the name of the signature
    examples    serialized, (N,) objects of bytes; the input "inputs"
    """

    signature: str
    examples: Array


def read_examples(body: bytes) -> Pieces[ExamplesRequest]:
    """Read the body of a request; InvalidArgumentError in TensorFlow Serving's words."""
    document = yield from document_of(body)
    name = signature_name(document)
    context = _example(document["context"]) if "context" in document else b""
    if "examples" not in document:
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} When method is classify, key 'examples' is expected and was not "
            "found"
        )
    given = document["examples"]
    if not isinstance(given, list | np.ndarray):
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} Expecting 'examples' value to be an list/array"
        )
    if not len(given):
        raise InvalidArgumentError(f"JSON Value: {shown(document)} 'examples' value is an empty array")
    examples = np.empty(len(given), object)
    for place, each in enumerate(given):
        # Serialized messages behind each other are one, with the fields of the last.
        examples[place] = context + _example(each)
        yield
    return ExamplesRequest(name, examples)


def _example(given: Any) -> bytes:
    if not isinstance(given, dict):
        raise InvalidArgumentError(f"Example must be JSON object but got JSON {kind_of(given)}")
    example = Example()
    for name, content in given.items():
        try:
            feature = example.features.feature[name]
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"Example feature: {name} has a name that is no UTF-8") from None
        if isinstance(content, np.ndarray):
            content = content.tolist()
        for value in content if isinstance(content, list) else [content]:
            _add(feature, name, value)
    return example.SerializeToString()


def _add(feature: Feature, name: str, value: Any) -> None:
    if value is None or isinstance(value, list) or (isinstance(value, dict) and not is_bytes(value)):
        raise InvalidArgumentError(f"Feature: {name} has element with unexpected JSON type: {kind_of(value)}")
    if isinstance(value, bool | int):
        kind = "int64"
        if value >= 2**63:
            raise InvalidArgumentError(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    else:
        kind = "float" if isinstance(value, float) else "bytes"
    present = feature.WhichOneof("kind")
    if present is not None and present != f"{kind}_list":
        raise InvalidArgumentError(
            f"Unexpected element type in feature: {name} expecting type: {present.removesuffix('_list')}"
        )
    if kind == "int64":
        feature.int64_list.value.append(int(value))
    elif kind == "float":
        feature.float_list.value.append(float(np.float32(value)))
    else:
        feature.bytes_list.value.append(encoded(value) if isinstance(value, str) else decoded(value))


def signature_for(what: str, name: str, signatures: Mapping[str, SignatureFacts]) -> SignatureFacts:
    """Return the signature that classifies or regresses; InvalidArgumentError if it is for something else.

    what   "classify" or "regress"
    """
    name = name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise InvalidArgumentError(f"No signature was found with the name: {name}")
    facts = signatures[name]
    noun, method = _METHODS[what]
    if facts.method != method:
        raise InvalidArgumentError(
            f"Expected {noun} signature method_name to be {method}. Was: {facts.method}"
        )
    if len(facts.inputs) != 1:
        raise InvalidArgumentError("Expected one input Tensor.")
    if _INPUTS not in facts.inputs:
        raise InvalidArgumentError(f"No {noun} inputs found in SignatureDef: {facts.described()}")
    if what == "regress":
        if len(facts.outputs) != 1:
            raise InvalidArgumentError("Expected one output Tensor.")
        if _OUTPUTS not in facts.outputs:
            raise InvalidArgumentError(f"No regression outputs found in SignatureDef: {facts.described()}")
    else:
        if len(facts.outputs) not in (1, 2):
            raise InvalidArgumentError(f"Expected one or two output Tensors, found {len(facts.outputs)}")
        if _CLASSES not in facts.outputs and _SCORES not in facts.outputs:
            raise InvalidArgumentError(
                f'Expected classification signature outputs to contain at least one of "{_CLASSES}" or '
                f'"{_SCORES}". Signature was: {facts.described()}'
            )
    return facts


def write_classification(outputs: Mapping[str, Any], count: int) -> Pieces[list[bytes]]:
    """Write classes and scores of so many examples; InvalidArgumentError for outputs of another form."""
    classes, scores = (
        _checked(outputs, name, wanted, count)
        for name, wanted in ((_CLASSES, dtypes.string), (_SCORES, dtypes.float32))
    )
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        raise InvalidArgumentError(
            f"Tensors class and score should match in dim_size(1). Got {classes.shape[1]} vs. "
            f"{scores.shape[1]}"
        )
    present = classes if classes is not None else scores
    assert present is not None
    pieces, before = [b'{"results": '], b"["
    for row in range(count):
        names = [b""] * present.shape[1] if classes is None else classes[row].tolist()
        values = np.zeros(present.shape[1], np.float32) if scores is None else scores[row]
        texts = b"".join((yield from written(values)))[1:-1].split(b",")
        pairs = [b"[%b, %b]" % (_text(name), text) for name, text in zip(names, texts, strict=False)]
        pieces.append(before + b"[" + b", ".join(pairs) + b"]")
        before = b", "
    return [*pieces, b"]}"]


def _checked(outputs: Mapping[str, Any], name: str, wanted: Any, count: int) -> Array | None:
    if name not in outputs:
        return None
    array = np.asarray(outputs[name])
    if array.ndim != 2:
        raise InvalidArgumentError(
            f"Expected Tensor shape: [batch_size num_classes] but got {list(array.shape)}"
        )
    found = dtypes.string if array.dtype.kind in "OS" else dtypes.as_dtype(array.dtype)
    if found is not wanted:
        raise InvalidArgumentError(
            f"Expected {name} Tensor of DT_{type_name(wanted).upper()}. Got: DT_{type_name(found).upper()}"
        )
    if len(array) != count:
        raise InvalidArgumentError(f"Expected {name} output batch size of {count}. Got: {len(array)}")
    return array


def write_regression(outputs: Mapping[str, Any], count: int) -> Pieces[list[bytes]]:
    """Write the values of so many examples; InvalidArgumentError for an output of another form."""
    array = np.asarray(outputs[_OUTPUTS])
    if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        raise InvalidArgumentError(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{list(array.shape)}"
        )
    if len(array) != count:
        raise InvalidArgumentError(
            f"Input batch size did not match output batch size: {count} vs. {len(array)}"
        )
    if array.dtype != np.float32:
        found = type_name(dtypes.as_dtype(array.dtype)).upper()
        raise InvalidArgumentError(f"Expected output Tensor of DT_FLOAT. Got: DT_{found}")
    pieces = yield from written(array.reshape(-1))
    return [b'{"results": ', *pieces, b"}"]


def _text(name: bytes) -> bytes:
    return json.dumps(name.decode("utf-8", "surrogateescape"), ensure_ascii=False).encode(
        "utf-8", "surrogateescape"
    )


__all__ = [
    "ExamplesRequest",
    "read_examples",
    "signature_for",
    "write_classification",
    "write_regression",
]
