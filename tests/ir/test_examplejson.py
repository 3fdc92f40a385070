"""Examples as JSON: what is none is refused, however deep it lies."""

from __future__ import annotations

import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.examplejson import example_from_json
from flowengine.ir.proto.example_pb2 import Example


def test_an_example() -> None:
    text = b'{"features": {"feature": {"b": {"int64List": {"value": [1, "2"]}}, "a": {"floatList": {}}}}}'
    example = Example.FromString(example_from_json(text))
    assert list(example.features.feature["b"].int64_list.value) == [1, 2]
    assert example.features.feature["a"].WhichOneof("kind") == "float_list"
    assert example_from_json(b"{}") == b""


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"what": 1}',
        b'"features"',
        b'{"features": [1]}',
        b'{"features": {"feature": [1]}}',
        b'{"features": {"feature": {"a": {"int64List": {"value": ["x"]}}}}}',
        b"[" * 100_000,
        b'{"features":' * 100_000,
    ],
    ids=[
        "empty",
        "a list",
        "cut off",
        "no text",
        "unknown",
        "a text",
        "a list within",
        "a list for a map",
        "no number",
        "deep lists",
        "deep",
    ],
)
def test_text_that_is_no_example(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="Error while parsing JSON"):
        example_from_json(text)
