"""Binary or text, GraphDef, MetaGraphDef or SavedModel: told apart by content."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.graphfile import (
    graph_def_to_text,
    load_graph,
    load_meta_graph,
    load_saved_model,
    parse_graph_def,
)
from flowengine.ir.proto import FunctionDefLibrary, GraphDef, MetaGraphDef, SavedModel

TEXT = """
# A comment.
node { name: "a" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "b" op: "Identity" input: "a" }
versions { producer: 21 }
"""
GRAPH = text_format.Parse(TEXT, GraphDef())


def meta_graph(*tags: str) -> MetaGraphDef:
    meta = MetaGraphDef(graph_def=GRAPH)
    meta.meta_info_def.tags.extend(tags)
    # Long enough to be mistaken for text.
    for index in range(40):
        meta.meta_info_def.stripped_op_list.op.add(name=f"Op{index}")
    meta.signature_def["serving_default"].inputs["x"].name = "a:0"
    meta.collection_def["variables"].bytes_list.value.append(b"\x00\xff")
    return meta


def test_a_graph_in_each_form() -> None:
    for data in (
        TEXT,
        TEXT.encode(),
        GRAPH.SerializeToString(),
        bytearray(GRAPH.SerializeToString()),
        memoryview(GRAPH.SerializeToString()),
        GRAPH,
        graph_def_to_text(GRAPH),
    ):
        assert parse_graph_def(data) == GRAPH
    assert parse_graph_def(b"") == parse_graph_def("") == GraphDef()


def test_the_name_may_look_like_anything() -> None:
    for name in ("n" * 200, "node", "meta_info_def {", "é", "saved_model_schema_version: 1"):
        graph = GraphDef()
        graph.node.add(name=name, op="NoOp")
        assert parse_graph_def(graph.SerializeToString()) == graph
        assert parse_graph_def(graph_def_to_text(graph).encode()) == graph


def test_a_meta_graph_in_each_form() -> None:
    meta = meta_graph("serve")
    bare = MetaGraphDef(graph_def=GRAPH)
    for each in (meta, bare):
        for data in (each.SerializeToString(), text_format.MessageToString(each).encode()):
            assert parse_graph_def(data) == GRAPH
            assert load_meta_graph(data).graph_def == GRAPH
    loaded = load_graph(meta.SerializeToString())
    assert loaded.signatures["serving_default"].inputs["x"].name == "a:0"
    assert loaded.collections["variables"].bytes_list.value[0] == b"\x00\xff"
    assert loaded.meta_graph == meta


def test_a_saved_model_in_each_form(tmp_path: Path) -> None:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph("train"), meta_graph("serve")])
    saved.meta_graphs[0].graph_def.node[0].name = "training"
    binary, text = tmp_path / "binary", tmp_path / "text"
    for folder, name, data in (
        (binary, "saved_model.pb", saved.SerializeToString()),
        (text, "saved_model.pbtxt", text_format.MessageToString(saved).encode()),
    ):
        folder.mkdir()
        (folder / name).write_bytes(data)
        assert parse_graph_def(data) == GRAPH
        for path in (folder, str(folder), folder / name):
            loaded = load_saved_model(path)
            assert loaded.graph_def == GRAPH
            assert loaded.directory == folder
        assert load_saved_model(folder, "train").graph_def.node[0].name == "training"
        with pytest.raises(NotFoundError, match=r"no graph with the tag 'gpu'.*train; serve"):
            load_saved_model(folder, "gpu")
    with pytest.raises(NotFoundError, match=r"saved_model\.pbtxt"):
        load_saved_model(tmp_path)


def test_graphs_without_tags_are_told_as_such(tmp_path: Path) -> None:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph("train"), meta_graph()])
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(
        NotFoundError, match=r"no graph with the tag 'gpu' \(its graphs' tags: train; \(none\)\)"
    ):
        load_saved_model(tmp_path, "gpu")
    assert load_saved_model(tmp_path, ()).other_tags == (("train",),)
    assert load_saved_model(tmp_path, "train").other_tags == ((),)


def test_the_graph_without_tags_must_be_there(tmp_path: Path) -> None:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph("train"), meta_graph("serve")])
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(NotFoundError, match=r"no graph without tags \(its graphs' tags: train; serve\)"):
        load_saved_model(tmp_path, ())


def test_bytes_of_several_graphs_do_not_say_which() -> None:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph("a"), meta_graph("b")])
    for data in (saved.SerializeToString(), text_format.MessageToString(saved)):
        with pytest.raises(InvalidArgumentError, match="load_saved_model"):
            parse_graph_def(data)


def test_one_graph_needs_no_tag(tmp_path: Path) -> None:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph("anything")])
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert load_saved_model(tmp_path).graph_def == GRAPH


def test_a_graph_of_nameless_functions_only() -> None:
    """Its bytes are those of a MetaGraphDef, too, whose graph is a node without a name."""
    graph_def = GraphDef()
    graph_def.library.function.add().signature.SetInParent()
    data = graph_def.SerializeToString()
    assert MetaGraphDef.FromString(data).graph_def.node
    assert load_graph(data).graph_def == graph_def
    assert load_graph(data).meta_graph is None


def test_a_meta_graph_whose_node_has_no_name_is_no_library() -> None:
    """The importer is to say what is wrong with it: nothing may be read as an empty graph."""
    bare = MetaGraphDef()
    bare.graph_def.node.add(op="NoOp")
    told = MetaGraphDef(graph_def=bare.graph_def)
    told.meta_info_def.tags.append("serve")
    for meta_graph_def in (bare, told):
        assert load_graph(meta_graph_def.SerializeToString()).graph_def == bare.graph_def
    # As a GraphDef it would be a library of one gradient.
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[bare])
    assert load_graph(saved.SerializeToString()).meta_graph is not None


def test_a_graph_of_functions_only() -> None:
    library = FunctionDefLibrary()
    library.function.add().signature.name = "f"
    graph = GraphDef(library=library)
    assert parse_graph_def(graph.SerializeToString()) == graph


def test_unknown_parts_of_a_saved_model_in_text_are_passed_over() -> None:
    text = "saved_model_schema_version: 1 meta_graphs { graph_def { } object_graph_def { nodes { } } }"
    assert parse_graph_def(text) == GraphDef()


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"PK\x03\x04" + bytes(30),
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}",
        b"hello, world",
        "hello, world",
        "node { name: 3 }",
        "node { name: 'a' colour: 'red' }",
        '{"node": []}',
        b"\xff" * 50,
        "node { name: 'a'",
        "node { attr { key: 'x' value { type: DT_FLAOT } } }",
    ],
)
def test_foreign_data_is_a_clear_error(data: bytes | str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"(no|is no) GraphDef"):
        parse_graph_def(data)


def test_data_that_is_cut_off_is_an_error_or_a_shorter_graph() -> None:
    whole = GRAPH.SerializeToString()
    for length in range(1, len(whole)):
        try:
            found = parse_graph_def(whole[:length])
        except InvalidArgumentError:
            continue
        assert len(found.node) < len(GRAPH.node) or found.versions.producer != 21


def test_text_nested_too_deeply_is_an_error() -> None:
    depth = 100_000
    text = "node { attr { key: 'f' value { " + "func { attr { value { " * depth + "} } } " * depth + "} } }"
    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        parse_graph_def(text)


def test_bytes_nested_too_deeply_are_an_error() -> None:
    value = b""
    for _ in range(2000):
        value = _field(10, _field(2, _field(2, value)))  # AttrValue.func.attr[...].value
    data = _field(1, _field(1, b"n") + _field(2, b"Op") + _field(5, _field(2, value)))
    with pytest.raises(InvalidArgumentError):
        parse_graph_def(data)


def _field(number: int, content: bytes) -> bytes:
    length, out = len(content), b""
    while length > 127:
        out += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + out + bytes([length]) + content


@given(st.binary(max_size=200) | st.text(max_size=100))
def test_no_input_does_worse_than_an_invalid_argument(data: bytes | str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        parse_graph_def(data)
