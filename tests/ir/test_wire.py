"""Messages that TensorFlow wrote with every field set: ours say the same in binary and in text."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from flowengine.ir.proto import (
    GraphDef,
    MetaGraphDef,
    OpList,
    QueueRunnerDef,
    SavedModel,
    TensorProto,
    VariableDef,
)

RECORDED = Path(__file__).with_name("recorded")
KINDS: list[type[Message]] = [
    GraphDef,
    MetaGraphDef,
    OpList,
    QueueRunnerDef,
    SavedModel,
    TensorProto,
    VariableDef,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_has_its_number_type_and_name(kind: type[Message]) -> None:
    data = RECORDED.joinpath(f"{kind.__name__}.binpb").read_bytes()
    message = kind.FromString(data)
    assert message == text_format.Parse(RECORDED.joinpath(f"{kind.__name__}.txtpb").read_text(), kind())
    assert message.SerializeToString(deterministic=True) == data
    # Nothing of it was taken for a field that is not known.
    message.DiscardUnknownFields()
    assert message.SerializeToString(deterministic=True) == data


def test_names_of_their_own() -> None:
    """Two libraries that register the same file or message cannot be loaded in one process."""
    for kind in KINDS:
        assert kind.DESCRIPTOR.full_name.startswith("flowengine.ir.proto.")
        assert kind.DESCRIPTOR.file.name.startswith("flowengine/ir/proto/")
