"""Examples in JSON to serialised ones: features in the order of the text, numbers not packed.

That order and form are what TensorFlow writes; the bytes are compared and hashed, so they are kept.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from google.protobuf import json_format

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto.example_pb2 import Example
from flowengine.ir.wire import bytes_field, varint

_DEPTH_MAX: Final = 32


def example_from_json(text: bytes) -> bytes:
    """The serialised example; InvalidArgumentError for text that is none."""
    example = Example()
    try:
        json_format.Parse(text, example, max_recursion_depth=_DEPTH_MAX)
        listed = json.loads(text)
        if not isinstance(listed, dict):
            raise ValueError("an example is an object")
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"Error while parsing JSON: {error} in {text[:60]!r}") from error
    features = example.features.feature
    names = (listed.get("features") or {}).get("feature") or {}
    entries = b"".join(
        bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, _feature(features[name])))
        for name in names
    )
    return bytes_field(1, entries) if example.HasField("features") else b""


def _feature(feature: Any) -> bytes:
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        return bytes_field(1, b"".join(bytes_field(1, value) for value in feature.bytes_list.value))
    if kind == "float_list":
        values = feature.float_list.value
        return bytes_field(2, b"".join(b"\x0d" + struct.pack("<f", value) for value in values))
    if kind == "int64_list":
        return bytes_field(3, b"".join(b"\x08" + varint(value) for value in feature.int64_list.value))
    return b""
