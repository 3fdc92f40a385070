"""Writes one message of each kind with every field set, in binary and in text, with TensorFlow's own classes.

    python record.py     (a Python that has TensorFlow 2; the files appear beside this script)

`test_wire.py` reads both with ours.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor as Field
from tensorflow.core.framework import graph_pb2, op_def_pb2, tensor_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, queue_runner_pb2, saved_model_pb2

HERE = Path(__file__).parent
#: Not declared here, and kept as unknown fields.
LEFT_OUT = {"object_graph_def", "type_spec"}
DEPTH = 4

counter = itertools.count(1)


def scalar(field: Any) -> Any:
    number = next(counter)
    if field.type == Field.TYPE_STRING:
        return f"{field.name}_{number}"
    if field.type == Field.TYPE_BYTES:
        return bytes([0, 255, number % 256])
    if field.type == Field.TYPE_BOOL:
        return True
    if field.type == Field.TYPE_ENUM:
        values = [v.number for v in field.enum_type.values if v.number and "DO_NOT_USE" not in v.name]
        return values[number % len(values)]
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return number + 0.5
    return number


def members(kind: Any) -> int:
    """How many entries show every member of a oneof; two where there is none."""
    return max([2, *(len(oneof.fields) for oneof in kind.oneofs)]) if kind is not None else 2


def fill(message: Any, depth: int, choice: int) -> None:
    """Set every field; of a oneof the member that `choice` says."""
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if field.name in LEFT_OUT or (oneof and oneof.fields[choice % len(oneof.fields)] is not field):
            continue
        if field.message_type is None:
            if field.is_repeated:
                getattr(message, field.name).extend([scalar(field), scalar(field)])
            else:
                setattr(message, field.name, scalar(field))
        elif field.message_type.full_name == "google.protobuf.Any":
            continue
        elif field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            entries = getattr(message, field.name)
            for offset in range(members(value.message_type)):
                if value.message_type is None:
                    entries[scalar(key)] = scalar(value)
                elif depth:
                    fill(entries[scalar(key)], depth - 1, choice + offset)
        elif depth and field.is_repeated:
            for offset in range(members(field.message_type)):
                fill(getattr(message, field.name).add(), depth - 1, choice + offset)
        elif depth:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), depth - 1, choice + 1)


def main() -> None:
    for kind in (
        graph_pb2.GraphDef,
        op_def_pb2.OpList,
        tensor_pb2.TensorProto,
        variable_pb2.VariableDef,
        queue_runner_pb2.QueueRunnerDef,
        meta_graph_pb2.MetaGraphDef,
        saved_model_pb2.SavedModel,
    ):
        message = kind()
        deep = kind in (meta_graph_pb2.MetaGraphDef, saved_model_pb2.SavedModel)
        fill(message, 3 if deep else DEPTH, 0)
        name = kind.DESCRIPTOR.name
        (HERE / f"{name}.binpb").write_bytes(message.SerializeToString(deterministic=True))
        (HERE / f"{name}.txtpb").write_text(text_format.MessageToString(message))


if __name__ == "__main__":
    main()
