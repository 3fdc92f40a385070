"""The object graphs of TensorFlow 2: in a SavedModel's MetaGraphDef, and in a checkpoint written by objects.

Few graphs have one, so its messages are in a module of their own that is loaded with the first.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.proto import MetaGraphDef
from flowengine.ir.proto.saved_object_graph_pb2 import SavedObjectGraph

#: The field of a MetaGraphDef that holds it; not declared there, so that text forms without it are read.
_FIELD: Final = 7


def object_graph_of(meta: MetaGraphDef) -> SavedObjectGraph | None:
    """The objects that a MetaGraphDef describes; None where it describes none.

    Raises InvalidArgumentError for what is no object graph.
    """
    unknown = UnknownFieldSet(meta)
    for index in range(len(unknown)):
        field = unknown[index]
        if field.field_number == _FIELD:
            try:
                return SavedObjectGraph.FromString(field.data)
            except (DecodeError, TypeError) as error:
                raise InvalidArgumentError(f"the SavedModel's object graph cannot be read: {error}") from None
    return None
