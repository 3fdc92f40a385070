"""The list of ops that may run in a box: made of traits, asked wherever a kernel is found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError, PermissionDeniedError
from flowengine.ir.graph import Node
from flowengine.ir.proto import GraphDef
from flowengine.ir.trait_checks.outward import CallsPython, ReadsFiles, WritesFiles
from flowengine.ir.traits import Trait, When
from flowengine.kernels.load import registry as kernel_registry
from flowengine.ops.load import registry
from flowengine.sandbox import confine
from flowengine.sandbox.allowed_ops import AllowedKernels, AllowedOps
from tests.kernels.test_file_access import READING, WRITING
from tests.tools.recorded import find_cases
from tests.tools.replay import prepared_case

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

_NONE: Final = AllowedOps(reads=False, writes=False)
_READING: Final = AllowedOps(reads=True, writes=False)
_WRITING: Final = AllowedOps(reads=False, writes=True)


def _node(op: str, **attrs: Any) -> Node:
    definition = registry()[op]
    return Node("x", op, attrs=definition.with_defaults(attrs), op_def=definition)


# What is on the list


def test_what_reads_needs_files_and_what_writes_needs_a_place_for_them() -> None:
    assert "name them by `read` or `write`" in str(_NONE.why_not(_node("ReadFile")))
    assert _READING.why_not(_node("ReadFile")) is None
    assert _WRITING.why_not(_node("ReadFile")) is None
    for allowed in (_NONE, _READING):
        assert "name folders by `write`" in str(allowed.why_not(_node("WriteFile")))
    assert _WRITING.why_not(_node("WriteFile")) is None


@pytest.mark.parametrize("allowed", [_NONE, _READING, _WRITING])
def test_python_is_never_called(allowed: AllowedOps) -> None:
    for op in ("PyFunc", "PyFuncStateless"):
        assert "functions of a Python program" in str(allowed.why_not(_node(op, token=b"x")))


@pytest.mark.parametrize(
    ("op", "attrs", "is_allowed"),
    [
        ("PrintV2", {}, True),
        ("PrintV2", {"output_stream": b"log(info)"}, True),
        ("PrintV2", {"output_stream": b"file:///etc/passwd"}, False),
        ("DecodeProtoV2", {}, True),
        ("DecodeProtoV2", {"descriptor_source": b"bytes://abc"}, True),
        ("DecodeProtoV2", {"descriptor_source": b"local://abc"}, False),
        ("EncodeProto", {"descriptor_source": b"/etc/passwd"}, False),
        ("FixedUnigramCandidateSampler", {}, True),
        ("FixedUnigramCandidateSampler", {"vocab_file": b"words"}, False),
        # Whether there is a file for it stands in an input: the step's own door knows.
        ("CacheDataset", {}, True),
    ],
)
def test_an_attribute_that_names_no_file_needs_none(op: str, attrs: Any, is_allowed: bool) -> None:
    assert (_NONE.why_not(_node(op, **attrs)) is None) == is_allowed
    assert _WRITING.why_not(_node(op, **attrs)) is None


def test_a_duty_that_the_list_does_not_know_is_not_on_it() -> None:
    class Connects(Trait):
        IS_DUTY = True

    fetching = fe.OpDef.parse("Fetch(url: string) -> text: string", Connects())
    mode = fe.OpDef.parse("Told() -> x: int32", "far: bool", When("far", True, Connects()))
    assert _WRITING.why_not(Node("x", "Fetch", op_def=fetching)) == "it is Connects(), which no sandbox knows"
    assert _WRITING.why_not(Node("x", "Told", attrs={"far": True}, op_def=mode)) is not None
    assert _WRITING.why_not(Node("x", "Told", attrs={"far": False}, op_def=mode)) is None


def test_kernels_of_what_is_not_on_the_list_are_not_found() -> None:
    kernels = AllowedKernels(kernel_registry("numpy"), _NONE)
    assert kernels.find(_node("NoOp")).op == "NoOp"
    with pytest.raises(PermissionDeniedError, match="it reads files") as raised:
        kernels.find(_node("ReadFile"))
    assert (raised.value.node_name, raised.value.op_type) == ("x", "ReadFile")


def test_few_ops_reach_out_and_no_other_is_refused() -> None:
    refused = {op for op in registry() if _NONE.why_not(Node("x", op, op_def=registry()[op])) is not None}
    outward = {
        op for op in registry() if {ReadsFiles, WritesFiles, CallsPython} & registry()[op].traits.keys()
    }
    assert refused < outward
    assert len(outward) < 70


# Whole sessions


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 150_000_000, "seconds": 10.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    graph.constant(1.0, name="one")
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


async def _refused(session: fe.Session, fetch: str, op: str, node: str) -> None:
    with pytest.raises(OpError, match="not allowed in this sandbox") as raised:
        await session.run(fetch)
    error = raised.value
    assert isinstance(error, PermissionDeniedError)
    # What a function of the graph holds is named behind the call that it was opened for.
    assert (error.op_type, str(error.node_name).rpartition("/")[2]) == (op, node)
    assert str(error).startswith(f"{op} '{error.node_name}'")
    assert await session.run("one:0") == 1


def _said(graph: fe.Graph) -> dict[str, Any]:
    return {"output_types": ["string"], "output_shapes": [[]]}


def _hidden(graph: fe.Graph, path: str) -> dict[str, tuple[str, str]]:
    """{a fetch: (op, node) that it reaches by a function, a dataset's function, or a graph in a text}."""

    @fe.function(graph, ["string"], outputs=["string"], stateful=True)
    def read(name: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = name.graph.ops.ReadFile(name, name="inner")
        return result

    inner = fe.Graph()
    made = inner.ops.TextLineDataset(path, b"", np.int64(0), name="within")
    inner.ops.Identity(made, name="result")
    text = inner.to_graph_def()
    text.node[-1].op = "_Retval"
    text.node[-1].attr["index"].i = 0

    name = graph.constant(path, name="name")
    called = read(name, name="called")
    names = graph.ops.TensorDataset([name], output_shapes=[[]])
    mapped = graph.ops.MapDataset(names, [], f=read.attr, **_said(graph))
    taken = graph.ops.DatasetToSingleElement(mapped, **_said(graph), name="mapped")
    given = graph.ops.DatasetFromGraph(graph.constant(text.SerializeToString()), name="given")
    opened = graph.ops.DatasetToSingleElement(given, **_said(graph), name="opened")
    assert called.name
    assert taken[0].name
    return {
        str(called.name): ("ReadFile", "inner"),
        "mapped:0": ("ReadFile", "inner"),
        str(opened[0].name): ("TextLineDataset", "within"),
    }


@needs_box
async def test_each_kind_of_refusal_names_the_node(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    path = str(tmp_path / "file")
    graph = fe.Graph()
    graph.ops.ReadFile(path, name="read")
    graph.ops.WriteFile(path, "other", name="write")
    graph.ops.PyFunc([], token="guessed", Tout=["float32"], name="python")
    graph.ops.PrintV2("x", output_stream=f"file://{path}", name="print")
    hidden = _hidden(graph, path)
    data = _bytes(graph)
    async with fe.Session(data, config=_config()) as session:
        await _refused(session, "read:0", "ReadFile", "read")
        await _refused(session, "write", "WriteFile", "write")
        await _refused(session, "python:0", "PyFunc", "python")
        await _refused(session, "print", "PrintV2", "print")
        for fetch, (op, node) in hidden.items():
            await _refused(session, fetch, op, node)
    async with fe.Session(data, config=_config(read=tmp_path)) as session:
        assert await session.run("read:0") == b"text"
        for fetch in hidden:
            value = await session.run(fetch)
            assert value == b"text"
        await _refused(session, "write", "WriteFile", "write")
        await _refused(session, "python:0", "PyFunc", "python")
    async with fe.Session(data, config=_config(write=tmp_path, write_bytes=1 << 20)) as session:
        await session.run("write")
        assert await session.run("read:0") == b"other"
        await _refused(session, "python:0", "PyFunc", "python")


_REACHING: Final = """
import os, socket
from flowengine import OpDef
from flowengine.ir.traits import Trait
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry


class Connects(Trait):
    "It talks to others."
    IS_DUTY = True


class ReadsEnvironment(Trait):
    "It reads what its process was started with."
    IS_DUTY = True


registry().register(OpDef.parse("Fetch() -> text: string", "stateful", Connects()))
registry().register(OpDef.parse("Getenv() -> text: string", "stateful", ReadsEnvironment()))
registry().register(OpDef.parse("Plain() -> text: string", "stateful"))


@kernel("Fetch")
def fetch():
    return socket.gethostname().encode()


@kernel("Getenv")
def getenv():
    return os.environ["PATH"].encode()


@kernel("Plain")
def plain():
    return b"plain"
"""


@needs_box
async def test_ops_of_a_module_are_on_the_list_unless_they_say_that_they_reach_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reaching_out.py").write_text(_REACHING)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    ops = fe.OpRegistry()
    graph = fe.Graph(registry=ops)
    for op in ("Fetch", "Getenv", "Plain"):
        ops.register(fe.OpDef.parse(f"{op}() -> text: string", "stateful"))
        getattr(graph.ops, op)(name=op.lower())
    data = fe.GraphBytes(graph.to_graph_def().SerializeToString())
    async with fe.Session(data, config=_config(imports=("reaching_out",))) as session:
        assert await session.run("plain:0") == b"plain"
        for op, trait in (("Fetch", "Connects"), ("Getenv", "ReadsEnvironment")):
            with pytest.raises(PermissionDeniedError, match=rf"it is {trait}\(\)") as raised:
                await session.run(f"{op.lower()}:0")
            assert str(raised.value).startswith(f"{op} '{op.lower()}'")
        assert await session.run("plain:0") == b"plain"


# Graphs that there are


def _nodes(shared: Path) -> Iterator[tuple[str, Node]]:
    for address in find_cases(shared / "zoo" / "open"):
        with prepared_case(address) as case:
            graph = fe.Graph.from_graph_def(case.graph)
            for node in graph:
                yield address, node
            proto = GraphDef.FromString(case.graph)
            for each in (each for function in proto.library.function for each in function.node_def):
                yield address, Node(each.name, each.op, op_def=registry().get(each.op))


def test_the_zoo_is_on_the_list_and_without_files_only_what_touches_them_is_not(shared: Path) -> None:
    refused, count = set[str](), 0
    for address, node in _nodes(shared):
        count += 1
        assert _WRITING.why_not(node) is None, (address, node.name)
        if _NONE.why_not(node) is not None:
            refused.add(node.op)
    assert count > 10_000
    assert refused <= READING.keys() | WRITING.keys()
    assert np.all([op in registry() for op in refused])
