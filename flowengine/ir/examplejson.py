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
        _field(1, _field(1, name.encode()) + _field(2, _feature(features[name]))) for name in names
    )
    return _field(1, entries) if example.HasField("features") else b""


def _feature(feature: Any) -> bytes:
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        return _field(1, b"".join(_field(1, value) for value in feature.bytes_list.value))
    if kind == "float_list":
        values = feature.float_list.value
        return _field(2, b"".join(b"\x0d" + struct.pack("<f", value) for value in values))
    if kind == "int64_list":
        return _field(3, b"".join(b"\x08" + _varint(value % 2**64) for value in feature.int64_list.value))
    return b""


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
