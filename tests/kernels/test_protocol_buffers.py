"""Messages by a descriptor: what TensorFlow gives, and what the protobuf library writes and reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given

import flowengine as fe
from flowengine.core.dtypes import as_dtype
from flowengine.kernels.io.proto_fields import KINDS

_KINDS = [
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "bytes",
    "uint32",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
]


def _described() -> descriptor_pb2.FileDescriptorSet:
    """Messages S, M with one field of each kind, and R with many."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="x.proto", package="p")
    letters = file.enum_type.add(name="E")
    letters.value.add(name="A", number=0)
    letters.value.add(name="B", number=2)
    small = file.message_type.add(name="S")
    small.field.add(name="a", number=1, type=5, label=1)
    small.field.add(name="b", number=2, type=9, label=1)
    for name, label in (("M", 1), ("R", 3)):
        message = file.message_type.add(name=name)
        for number, kind in enumerate(_KINDS, 1):
            of = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
            message.field.add(name=kind, number=number, type=of, label=label)
        message.field.add(name="e", number=16, type=14, label=label, type_name=".p.E")
        message.field.add(name="s", number=17, type=11, label=label, type_name=".p.S")
    file.message_type[1].field[15].default_value = "B"
    file.message_type[1].field.add(name="d", number=18, type=5, label=1, default_value="7")
    file.message_type[1].field.add(name="ds", number=19, type=9, label=1, default_value="hey")
    packed = file.message_type[2].field.add(name="pk", number=18, type=5, label=3)
    packed.options.packed = True
    packed = file.message_type[2].field.add(name="pf", number=19, type=2, label=3)
    packed.options.packed = True
    return files


_SOURCE = b"bytes://" + _described().SerializeToString()
_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(_described().file[0].SerializeToString())
_S, _M, _R = (message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"p.{name}")) for name in "SMR")


def _run(op: str, *inputs: Any, **attrs: Any) -> Any:
    graph = fe.Graph()
    made = [
        [graph.constant(each) for each in value] if isinstance(value, list) else graph.constant(value)
        for value in inputs
    ]
    attrs.setdefault("descriptor_source", _SOURCE)
    found = getattr(graph.ops, op)(*made, **attrs)
    fetches = [found] if not isinstance(found, tuple | list) else [found[0], *found[1]]
    with fe.blocking.Session(graph) as session:
        return session.run(fetches)


def _texts(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _decoded(texts: Any, message: str, fields: dict[str, str], **attrs: Any) -> Any:
    return [
        np.asarray(value).tolist()
        for value in _run(
            "DecodeProtoV2",
            texts,
            message_type=message,
            field_names=list(fields),
            output_types=[as_dtype(dtype) for dtype in fields.values()],
            **attrs,
        )
    ]


def _encoded(sizes: Any, message: str, fields: dict[str, Any], **attrs: Any) -> Any:
    (found,) = _run(
        "EncodeProto",
        np.array(sizes, np.int32),
        list(fields.values()),
        field_names=list(fields),
        message_type=message,
        **attrs,
    )
    return found.tolist()


def test_fields_of_every_kind_are_read() -> None:
    message: Any = _M(
        double=1.5, int32=-3, uint64=2**64 - 1, uint32=2**32 - 1, string="hi", bytes=b"\xff", bool=True
    )
    message.sint32, message.sint64, message.fixed32, message.sfixed64 = -5, -(2**40), 9, -1
    message.e = 2
    message.s.a = 4
    text = message.SerializeToString()
    expected = {
        "double": 1.5,
        "int32": -3,
        "uint64": 2**64 - 1,
        "uint32": 2**32 - 1,
        "string": b"hi",
        "bytes": b"\xff",
        "bool": True,
        "sint32": -5,
        "sint64": -(2**40),
        "fixed32": 9,
        "sfixed64": -1,
        "e": 2,
        "s": b"\x08\x04",
    }
    types = {name: KINDS[_M.DESCRIPTOR.fields_by_name[name].type].dtypes[-1] for name in expected}
    sizes, *values = _decoded(_texts(text), "p.M", types)
    assert sizes == [[1] * len(expected)]
    assert values == [[[value]] for value in expected.values()]


def test_what_is_missing_is_the_default_and_rows_are_filled_up() -> None:
    many: Any = _R(int32=[1, -2], string=["a", "b", "c"], pk=[5, 6], pf=[1, 2.5])
    many.s.add().a = 4
    texts = _texts(many.SerializeToString(), b"").reshape(2, 1)
    types = {"string": "string", "pk": "int32", "pf": "float32", "s": "string", "int32": "int64"}
    sizes, *values = _decoded(texts, "p.R", types)
    assert sizes == [[[3, 2, 2, 1, 2]], [[0, 0, 0, 0, 0]]]
    assert values == [
        [[[b"a", b"b", b"c"]], [[b"", b"", b""]]],
        [[[5, 6]], [[0, 0]]],
        [[[1.0, 2.5]], [[0.0, 0.0]]],
        [[[b"\x08\x04"]], [[b""]]],
        [[[1, -2]], [[0, 0]]],
    ]
    assert _decoded(_texts(b""), "p.M", {"d": "int32", "ds": "string", "e": "int32"}) == [
        [[0, 0, 0]],
        [[7]],
        [[b"hey"]],
        [[2]],
    ]


def test_the_last_one_counts_another_wire_type_does_not_and_a_name_twice_is_empty() -> None:
    assert _decoded(_texts(b"\x28\x05\x28\x06"), "p.M", {"int32": "int32"}) == [[[1]], [[6]]]
    assert _decoded(_texts(b"\x2d\0\0\0\0"), "p.M", {"int32": "int32"}) == [[[0]], [[0]]]
    sizes = _run(
        "DecodeProtoV2",
        _texts(b"\x28\x05"),
        message_type="p.M",
        field_names=["int32", "int32"],
        output_types=[as_dtype("int32"), as_dtype("int64")],
    )
    assert [np.asarray(value).tolist() for value in sizes] == [[[1, 0]], [[5]], [[0]]]


def test_text_and_unknown_fields() -> None:
    fields = {"int32": "int32", "string": "string", "s": "string"}
    text = _texts(b'int32: 5 string: "x" s { a: 3 }')
    assert _decoded(text, "p.M", fields, message_format="text") == [
        [[1, 1, 1]],
        [[5]],
        [[b"x"]],
        [[b"\x08\x03"]],
    ]
    inner = _texts(b"\x8a\x01\x05\x08\x04\xf8\x07\x05")
    assert _decoded(inner, "p.M", {"s": "string"})[1] == [[b"\x08\x04\xf8\x07\x05"]]
    assert _decoded(inner, "p.M", {"s": "string"}, sanitize=True)[1] == [[b"\x08\x04"]]


def test_messages_of_our_own_and_of_a_file(tmp_path: Path) -> None:
    text = _texts(b"\n\x0a\n\x08\n\x01x\x12\x03\x1a\x01\n")
    local = _decoded(text, "tensorflow.Example", {"features": "string"}, descriptor_source=b"local://")
    assert local == [[[1]], [[b"\n\x08\n\x01x\x12\x03\x1a\x01\n"]]]
    path = tmp_path / "described"
    path.write_bytes(_described().SerializeToString())
    assert _decoded(_texts(b"\x28\x05"), "p.M", {"int32": "int32"}, descriptor_source=str(path)) == [
        [[1]],
        [[5]],
    ]


def test_fields_are_written_in_the_order_of_their_numbers() -> None:
    values = {"string": np.array([[b"b"]], object), "int32": np.array([[3]], np.int32)}
    assert _encoded([[1, 1]], "p.M", values) == [b"(\x03J\x01b"]
    packed = {
        "pk": np.array([[3, 4, 5]], np.int32),
        "pf": np.array([[1.5, 2]], np.float32),
        "bytes": np.array([[b"a", b"", b"c"]], object),
        "int32": np.array([[1, 2]], np.int64),
    }
    assert _encoded([[2, 1, 3, 2]], "p.R", packed) == [
        b"(\x01(\x02R\x01aR\x00R\x01c\x92\x01\x02\x03\x04\x9a\x01\x04\x00\x00\xc0?"
    ]
    wide = {"int32": np.array([[2**40], [-1]], np.int64)}
    assert _encoded([[1], [1]], "p.M", wide) == [b"(\x00", b"(" + b"\xff" * 9 + b"\x01"]
    assert _encoded(np.zeros((0, 1)), "p.R", {"pk": np.zeros((0, 3), np.int32)}) == []


_NUMBERS = {
    "int32": ("int32", -(2**31), 2**31 - 1),
    "sint32": ("int32", -(2**31), 2**31 - 1),
    "sfixed32": ("int32", -(2**31), 2**31 - 1),
    "uint32": ("uint32", 0, 2**32 - 1),
    "fixed32": ("uint32", 0, 2**32 - 1),
    "int64": ("int64", -(2**63), 2**63 - 1),
    "sint64": ("int64", -(2**63), 2**63 - 1),
    "sfixed64": ("int64", -(2**63), 2**63 - 1),
    "uint64": ("uint64", 0, 2**64 - 1),
    "fixed64": ("uint64", 0, 2**64 - 1),
    "bool": ("bool", 0, 1),
    "pk": ("int32", -(2**31), 2**31 - 1),
}


@given(st.data(), st.sampled_from(sorted(_NUMBERS)))
def test_the_library_reads_what_is_written_and_we_what_it_writes(data: Any, name: str) -> None:
    dtype, low, high = _NUMBERS[name]
    values = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=4))
    (text,) = _encoded([[len(values)]], "p.R", {name: np.array([values], dtype)})
    message = _R.FromString(text)
    assert list(getattr(message, name)) == values
    assert text == message.SerializeToString()
    assert _decoded(_texts(text), "p.R", {name: dtype})[1] == [values]


@pytest.mark.parametrize(
    ("texts", "message", "fields", "attrs", "error", "told"),
    [
        ([b""], "p.M", {"nope": "int32"}, {}, "InvalidArgumentError", "Unknown field: nope"),
        ([b""], "p.Nope", {"int32": "int32"}, {}, "InvalidArgumentError", "No descriptor found for .*Nope"),
        ([b""], "p.M", {"int32": "float32"}, {}, "InvalidArgumentError", "Incompatible type for field int32"),
        ([b"\x28"], "p.M", {"int32": "int32"}, {}, "DataLossError", "does not end"),
        ([b"\x4a\x05a"], "p.M", {"string": "string"}, {}, "DataLossError", "cut off"),
        (
            [b'int32: "5'],
            "p.M",
            {"int32": "int32"},
            {"message_format": "text"},
            "DataLossError",
            "text protobuf",
        ),
        ([b""], "p.M", {"int32": "int32"}, {"message_format": "json"}, "InvalidArgumentError", "json"),
        ([], "p.M", {"int32": "int32"}, {}, "InvalidArgumentError", "at least one"),
        ([b""], "p.M", {}, {"descriptor_source": b"bytes://\xff"}, "InvalidArgumentError", "descriptor set"),
        ([b""], "p.M", {}, {"descriptor_source": b"/no/such"}, "InvalidArgumentError", "is no file"),
    ],
)
def test_what_cannot_be_read_is_told(
    texts: list[bytes], message: str, fields: dict[str, str], attrs: Any, error: str, told: str
) -> None:
    with pytest.raises(getattr(fe.errors, error), match=told):
        _decoded(_texts(*texts), message, fields, **attrs)


@pytest.mark.parametrize(
    ("sizes", "values", "told"),
    [
        ([[3]], {"pk": np.array([[3, 4]], np.int32)}, "3 > 2 at message 0 field 0"),
        ([[1]], {"pk": np.array([[3.0]], np.float32)}, "Incompatible type for field pk"),
        ([[1]], {"pk": np.array([[3], [4]], np.int32)}, "expected: \\[2,1\\]"),
        ([1], {"pk": np.array([3], np.int32)}, "at least"),
        ([[1]], {"zz": np.array([[3]], np.int32)}, "Unknown field: zz"),
        (
            [[1, 1]],
            {"pk": np.array([[3]], np.int32), "int32": np.array([[3], [3]], np.int32)},
            "up to the last dimension",
        ),
    ],
)
def test_what_cannot_be_written_is_told(sizes: Any, values: Any, told: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=told):
        _encoded(sizes, "p.R", values)
