"""Graphs of strangers in a box: what they try is refused or stopped, and the host's next step is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.sandbox import confine
from tests.kernels.test_file_access import READING, WRITING
from tests.limits.attacks import ATTACKS

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

_SECRET = b"a secret of the host"


def _folders(tmp_path: Path) -> tuple[Path, Path]:
    """(what the graph may use, a file outside)."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    secret = outside / "secret"
    secret.write_bytes(_SECRET)
    (root / "link").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    return root, secret


def _ways(root: Path, secret: Path) -> list[str]:
    return [
        str(secret),
        f"{root}/link",
        f"{root}/folder/secret",
        f"{root}/../outside/secret",
        "/proc/self/environ",
    ]


def _built(
    ops: dict[str, Callable[[fe.Graph, str], Any]], paths: list[str]
) -> tuple[fe.Graph, dict[str, str]]:
    """One graph with a node for each op and path, and what to run: {what is tried: name}."""
    graph = fe.Graph()
    tries: dict[str, str] = {}
    for op, build in ops.items():
        for number, path in enumerate(paths):
            with graph.name_scope(f"{op.replace('>', '_')}_{number}"):
                tries[f"{op} of {path}"] = build(graph, path).name
    graph.constant(1.0, name="one")
    return graph, tries


async def _outcomes(session: fe.Session, tries: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tried, name in tries.items():
        try:
            found[tried] = await session.run(name)
        except OpError as error:
            found[tried] = error
        assert await session.run("one:0") == 1
    return found


async def test_no_op_reads_a_file_outside_the_roots(tmp_path: Path) -> None:
    root, secret = _folders(tmp_path)
    graph, tries = _built(READING, _ways(root, secret)[:3])
    config = fe.Config.sandbox(
        memory_bytes=200_000_000, seconds=5, read=root, write=root, write_bytes=1 << 20, spare=False
    )
    async with fe.Session(fe.GraphBytes(graph.to_graph_def().SerializeToString()), config=config) as session:
        found = await _outcomes(session, tries)
    told = {tried: value for tried, value in found.items() if not isinstance(value, OpError)}
    assert not any(
        _SECRET in np.asarray(value).tobytes() or _SECRET in str(value).encode() for value in told.values()
    )
    # What names files without opening them may say that there are none.
    assert all("MatchingFiles" in tried for tried in told)


async def test_no_op_writes_a_file_outside_the_roots(tmp_path: Path) -> None:
    root, secret = _folders(tmp_path)
    graph, tries = _built(WRITING, _ways(root, secret))
    config = fe.Config.sandbox(
        memory_bytes=200_000_000, seconds=5, read=root, write=root, write_bytes=1 << 20, spare=False
    )
    async with fe.Session(fe.GraphBytes(graph.to_graph_def().SerializeToString()), config=config) as session:
        await _outcomes(session, tries)
    assert secret.read_bytes() == _SECRET
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]


async def test_files_within_the_roots_are_read_and_written(tmp_path: Path) -> None:
    root, _ = _folders(tmp_path)
    graph = fe.Graph()
    made = graph.ops.WriteFile(f"{root}/made", "text")
    with graph.control_dependencies([made]):
        graph.ops.ReadFile(f"{root}/made", name="text")
    graph.ops.WriteFile(
        f"{root}/large", graph.ops.StringJoin([graph.constant("x" * 2000)] * 1000), name="large"
    )
    config = fe.Config.sandbox(
        memory_bytes=200_000_000, seconds=5, write=root, write_bytes=1 << 20, spare=False
    )
    async with fe.Session(fe.GraphBytes(graph.to_graph_def().SerializeToString()), config=config) as session:
        assert await session.run("text:0") == b"text"
        with pytest.raises(OpError):
            await session.run("large")
        assert await session.run("text:0") == b"text"


async def test_graphs_that_ask_for_too_much_are_stopped() -> None:
    graph = fe.Graph()
    graph.constant(1.0, name="one")
    asked: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, make in ATTACKS.items():
        made = make()
        graph.import_graph_def(made.graph.to_graph_def(), prefix=name)
        fetch = made.fetch if isinstance(made.fetch, str) else made.fetch.name
        asked[name] = f"{name}/{fetch}", {f"{name}/{key}": value for key, value in made.feeds.items()}
    config = fe.Config.sandbox(memory_bytes=150_000_000, seconds=0.3, spare=False)
    outcomes: dict[str, str] = {}
    async with fe.Session(fe.GraphBytes(graph.to_graph_def().SerializeToString()), config=config) as session:
        for name, (fetch, feeds) in asked.items():
            try:
                await session.run(fetch, feeds)
                outcomes[name] = "a value"
            except OpError as error:
                outcomes[name] = type(error).__name__
            # A process that took too much was ended: the next one counts its deaths from here.
            session._remote._deaths.clear()
            assert await session.run("one:0") == 1
    stopped = {"ResourceExhaustedError", "DeadlineExceededError", "PermissionDeniedError"}
    # What is bounded in itself may end in time, where the machine is fast enough.
    bounded = {"batches", "constant", "folded", "pattern", "window"}
    odd = {name: outcome for name, outcome in outcomes.items() if outcome not in stopped}
    assert {name: each for name, each in odd.items() if name not in bounded} == {}


async def test_names_cannot_move_a_cursor() -> None:
    graph = fe.Graph()
    graph.constant(np.zeros(2, np.float32), name="name")
    graph.ops.CheckNumerics(graph.constant(np.float32("nan")), message="\x1b[2J\r\x07 gone", name="check")
    data = graph.to_graph_def().SerializeToString()
    config = fe.Config.sandbox(memory_bytes=10_000_000, seconds=5, spare=False)
    async with fe.Session(fe.GraphBytes(data), config=config) as session:
        with pytest.raises(OpError, match="gone") as raised:
            await session.run("check:0")
    assert str(raised.value).isprintable()
