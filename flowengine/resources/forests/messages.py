"""Trees and ensembles as messages of protocol buffers, with the fields of TensorFlow's `boosted_trees.proto`.

A message is an object with a slot for each field. Bytes come out as protocol buffers write them: fields in
order of their numbers, numbers that are zero left out, lists of numbers packed. Of fields that are not known
nothing is kept.

>>> Tree([TreeNode(leaf=Leaf(scalar=0.5))]).to_bytes().hex(" ")
'0a 07 0a 05 1d 00 00 00 3f'
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from flowengine.checkpoint.wire import BYTES, FIXED32, VARINT, bytes_field, fields, fixed32_field, varint
from flowengine.checkpoint.wire import field as int_field
from flowengine.core.accounting import ask_for

#: What one message takes at the least, as an object with its fields.
_MESSAGE_BYTES: Final = 120
#: So many messages are read between two looks at what there is room for.
_MESSAGES_PER_CHECK: Final = 4096
_FLOAT: Final = struct.Struct("<f")
_ALL_BITS: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    kind      "int32", "int64", "bool", "float", or one of these in a list with "*" behind it, or the message
              of a field that holds one, or a list of them where `many`
    group     fields of one group exclude each other: the last that is read stays
    """

    number: int
    name: str
    kind: Any
    many: bool = False
    group: str = ""


class Reading:
    """Counts messages while they are read, and asks for what they take."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def message(self) -> None:
        self._count += 1
        if self._count % _MESSAGES_PER_CHECK == 0:
            ask_for(self._count * _MESSAGE_BYTES)


class ForestMessage:
    """The base of all messages. Numbers of 32 bits are Python's, rounded when they are written."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    __slots__ = ()

    def to_bytes(self) -> bytes:
        return b"".join(_written(self))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, reading: Reading | None = None) -> Self:
        """ValueError where the bytes are no such message; ResourceExhaustedError where it is too large."""
        reading = reading or Reading()
        reading.message()
        result = cls()
        by_number = {each.number: each for each in cls.FIELDS}
        #: {name: the bytes of a message that may come in parts}
        parts: dict[str, bytearray] = {}
        for number, wire, value in fields(data):
            each = by_number.get(number)
            if each is None:
                continue
            if each.group:
                for other in cls.FIELDS:
                    if other.group == each.group and other is not each:
                        parts.pop(other.name, None)
            if isinstance(each.kind, str):
                _read_numbers(result, each, wire, value)
            elif wire != BYTES:
                raise ValueError(f"field {each.name} is no message")
            elif each.many:
                getattr(result, each.name).append(each.kind.from_bytes(value, reading))
            else:
                parts.setdefault(each.name, bytearray()).extend(value)
        for each in cls.FIELDS:
            if each.name in parts:
                setattr(result, each.name, each.kind.from_bytes(bytes(parts[each.name]), reading))
        return result


def _written(message: ForestMessage) -> Iterator[bytes]:
    for each in message.FIELDS:
        value = getattr(message, each.name)
        kind = each.kind
        if not isinstance(kind, str):
            for one in value if each.many else [] if value is None else [value]:
                yield bytes_field(each.number, one.to_bytes())
        elif kind.endswith("*"):
            if value and kind == "float*":
                yield bytes_field(each.number, struct.pack(f"<{len(value)}f", *value))
            elif value:
                yield bytes_field(each.number, b"".join(map(varint, value)))
        elif value:
            if kind == "float":
                yield fixed32_field(each.number, int.from_bytes(_FLOAT.pack(value), "little"))
            else:
                yield int_field(each.number, int(value))


def _read_numbers(message: ForestMessage, each: Field, wire: int, value: Any) -> None:
    base = each.kind.rstrip("*")
    many = base != each.kind
    expected = FIXED32 if base == "float" else VARINT
    if wire == expected:
        found = [_float_of(value) if base == "float" else _int_of(value, base)]
    elif wire == BYTES and many:
        found = _packed(value, base)
    else:
        raise ValueError(f"field {each.name} is of wire type {wire}")
    if many:
        getattr(message, each.name).extend(found)
    else:
        setattr(message, each.name, found[0])


def _packed(value: memoryview, base: str) -> list[Any]:
    if base == "float":
        if len(value) % _FLOAT.size:
            raise ValueError("a list of numbers ends within one")
        return list(struct.unpack(f"<{len(value) // _FLOAT.size}f", value))
    # A field before each number makes a message of them.
    found: list[Any] = []
    position = 0
    while position < len(value):
        end = position
        while end < len(value) and value[end] >= 0x80:
            end += 1
        if end == len(value) or end - position > 9:
            raise ValueError("an integer does not end")
        number = sum((value[i] & 0x7F) << 7 * (i - position) for i in range(position, end + 1))
        found.append(_int_of(number, base))
        position = end + 1
    return found


def _float_of(bits: int) -> float:
    number: float = _FLOAT.unpack(bits.to_bytes(4, "little"))[0]
    return number


def _int_of(value: int, base: str) -> Any:
    if base == "bool":
        return value != 0
    width = 32 if base == "int32" else 64
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


@dataclass(slots=True)
class Vector(ForestMessage):
    """Numbers, one for each logit."""

    value: list[float] = field(default_factory=list)

    FIELDS: ClassVar = (Field(1, "value", "float*"),)


@dataclass(slots=True)
class SparseVector(ForestMessage):
    """Numbers at some places."""

    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    FIELDS: ClassVar = (Field(1, "index", "int32*"), Field(2, "value", "float*"))


@dataclass(slots=True)
class Leaf(ForestMessage):
    """The value at a leaf: a number, or a vector with one for each logit."""

    vector: Vector | None = None
    sparse_vector: SparseVector | None = None
    scalar: float = 0.0

    FIELDS: ClassVar = (
        Field(1, "vector", Vector, group="leaf"),
        Field(2, "sparse_vector", SparseVector, group="leaf"),
        Field(3, "scalar", "float"),
    )

    def values(self) -> list[float]:
        return [self.scalar] if self.vector is None else list(self.vector.value)

    @classmethod
    def of(cls, values: list[float]) -> Leaf:
        """A leaf with one value or a vector of several."""
        return cls(scalar=values[0]) if len(values) == 1 else cls(vector=Vector(values))


@dataclass(slots=True)
class BucketizedSplit(ForestMessage):
    """Examples whose bucket is at most `threshold` go left."""

    feature_id: int = 0
    threshold: int = 0
    left_id: int = 0
    right_id: int = 0
    dimension_id: int = 0
    default_direction: int = 0

    FIELDS: ClassVar = (
        Field(1, "feature_id", "int32"),
        Field(2, "threshold", "int32"),
        Field(3, "left_id", "int32"),
        Field(4, "right_id", "int32"),
        Field(5, "dimension_id", "int32"),
        Field(6, "default_direction", "int32"),
    )


@dataclass(slots=True)
class CategoricalSplit(ForestMessage):
    """Examples whose bucket is `value` go left."""

    feature_id: int = 0
    value: int = 0
    left_id: int = 0
    right_id: int = 0
    dimension_id: int = 0

    FIELDS: ClassVar = (
        Field(1, "feature_id", "int32"),
        Field(2, "value", "int32"),
        Field(3, "left_id", "int32"),
        Field(4, "right_id", "int32"),
        Field(5, "dimension_id", "int32"),
    )


@dataclass(slots=True)
class DenseSplit(ForestMessage):
    """Examples whose feature is at most `threshold` go left."""

    feature_id: int = 0
    threshold: float = 0.0
    left_id: int = 0
    right_id: int = 0

    FIELDS: ClassVar = (
        Field(1, "feature_id", "int32"),
        Field(2, "threshold", "float"),
        Field(3, "left_id", "int32"),
        Field(4, "right_id", "int32"),
    )


Split = BucketizedSplit | CategoricalSplit | DenseSplit


@dataclass(slots=True)
class NodeMetadata(ForestMessage):
    """The gain of a split, and the leaf that was there before it."""

    gain: float = 0.0
    original_leaf: Leaf | None = None

    FIELDS: ClassVar = (Field(1, "gain", "float"), Field(2, "original_leaf", Leaf))


@dataclass(slots=True)
class TreeNode(ForestMessage):
    """A leaf or a split: at most one of the first four fields is set."""

    leaf: Leaf | None = None
    bucketized_split: BucketizedSplit | None = None
    categorical_split: CategoricalSplit | None = None
    dense_split: DenseSplit | None = None
    metadata: NodeMetadata | None = None

    FIELDS: ClassVar = (
        Field(1, "leaf", Leaf, group="node"),
        Field(2, "bucketized_split", BucketizedSplit, group="node"),
        Field(3, "categorical_split", CategoricalSplit, group="node"),
        Field(4, "dense_split", DenseSplit, group="node"),
        Field(777, "metadata", NodeMetadata),
    )

    @property
    def split(self) -> Split | None:
        return self.bucketized_split or self.categorical_split or self.dense_split

    def values(self) -> list[float]:
        """What a leaf says, or the leaf that was here before the split; nothing where there was none."""
        if self.leaf is not None:
            return self.leaf.values()
        if self.metadata is None or self.metadata.original_leaf is None:
            return []
        return self.metadata.original_leaf.values()


@dataclass(slots=True)
class Tree(ForestMessage):
    """Nodes; the first is the root, and nodes name others by their places."""

    nodes: list[TreeNode] = field(default_factory=list)

    FIELDS: ClassVar = (Field(1, "nodes", TreeNode, many=True),)


@dataclass(slots=True)
class PrunedNode(ForestMessage):
    """Where a node of a tree before pruning is now, and what its logits changed by."""

    new_node_id: int = 0
    logit_change: list[float] = field(default_factory=list)

    FIELDS: ClassVar = (Field(1, "new_node_id", "int32"), Field(2, "logit_change", "float*"))


@dataclass(slots=True)
class TreeMetadata(ForestMessage):
    """How far a tree has grown.

    post_pruned_nodes_meta    one for each node before pruning; empty where nothing was pruned
    """

    num_layers_grown: int = 0
    is_finalized: bool = False
    post_pruned_nodes_meta: list[PrunedNode] = field(default_factory=list)

    FIELDS: ClassVar = (
        Field(2, "num_layers_grown", "int32"),
        Field(3, "is_finalized", "bool"),
        Field(4, "post_pruned_nodes_meta", PrunedNode, many=True),
    )


@dataclass(slots=True)
class GrowingMetadata(ForestMessage):
    """How far an ensemble has grown; the nodes of its last layer are from a start to before an end."""

    num_trees_attempted: int = 0
    num_layers_attempted: int = 0
    last_layer_node_start: int = 0
    last_layer_node_end: int = 0

    FIELDS: ClassVar = (
        Field(1, "num_trees_attempted", "int64"),
        Field(2, "num_layers_attempted", "int64"),
        Field(3, "last_layer_node_start", "int32"),
        Field(4, "last_layer_node_end", "int32"),
    )


@dataclass(slots=True)
class TreeEnsemble(ForestMessage):
    """Trees with a weight and metadata each."""

    trees: list[Tree] = field(default_factory=list)
    tree_weights: list[float] = field(default_factory=list)
    tree_metadata: list[TreeMetadata] = field(default_factory=list)
    growing_metadata: GrowingMetadata | None = None

    FIELDS: ClassVar = (
        Field(1, "trees", Tree, many=True),
        Field(2, "tree_weights", "float*"),
        Field(3, "tree_metadata", TreeMetadata, many=True),
        Field(4, "growing_metadata", GrowingMetadata),
    )


@dataclass(slots=True)
class DebugOutput(ForestMessage):
    """The features by which an example was split, and its logit before the first split and after each."""

    feature_ids: list[int] = field(default_factory=list)
    logits_path: list[float] = field(default_factory=list)

    FIELDS: ClassVar = (Field(1, "feature_ids", "int32*"), Field(2, "logits_path", "float*"))


__all__ = [
    "BucketizedSplit",
    "CategoricalSplit",
    "DebugOutput",
    "DenseSplit",
    "Field",
    "ForestMessage",
    "GrowingMetadata",
    "Leaf",
    "NodeMetadata",
    "PrunedNode",
    "Reading",
    "SparseVector",
    "Split",
    "Tree",
    "TreeEnsemble",
    "TreeMetadata",
    "TreeNode",
    "Vector",
]
