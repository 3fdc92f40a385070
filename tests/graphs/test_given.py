"""Wrong values where a graph or its file is expected: the error says what they are and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, NotFoundError

SESSIONS: tuple[Callable[[Any], Any], ...] = (
    fe.Session,
    fe.blocking.Session,
    fe.asyncio.Session,
    fe.anyio.Session,
)


@pytest.mark.parametrize("path", ["digits.pb", Path("digits.pb"), "models/1"])
@pytest.mark.parametrize("make", [*SESSIONS, fe.Graph])
def test_a_path_is_no_graph(make: Callable[[Any], Any], path: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(path)
    assert f"'{path}' is a path: fe.Graph.load(path)" in str(caught.value)


@pytest.mark.parametrize("make", [*SESSIONS, fe.Graph])
def test_the_folder_of_a_saved_model_is_no_graph(make: Callable[[Any], Any], tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InvalidArgumentError, match=r"path of a SavedModel: fe\.saved_model\.load\(path\)"):
        make(tmp_path)


@pytest.mark.parametrize("make", [*SESSIONS, fe.Graph])
def test_a_message_and_its_bytes_are_no_graph(make: Callable[[Any], Any]) -> None:
    message = fe.Graph().to_graph_def()
    for given in (message, message.SerializeToString()):
        with pytest.raises(InvalidArgumentError, match=r"fe\.Graph\.from_graph_def\(data\)"):
            make(given)


@pytest.mark.parametrize("make", SESSIONS)
def test_a_session_takes_nothing_but_a_graph(make: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"fe.Session takes a Graph, and this is 3"):
        make(3)


def test_a_graph_is_no_path(tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.variable(1.0, name="v")
    with pytest.raises(InvalidArgumentError, match=r"takes a path .*it is already a graph"):
        fe.Graph.load(graph)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"takes a path .*not bytes: fe.Graph.from_graph_def"):
        fe.Graph.load(b"")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"takes a path .*fe\.Session\(graph\) runs a graph"):
        fe.blocking.load_saved_model(graph)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"takes a path .*not None"):
        fe.GraphBytes.read(None)  # type: ignore[arg-type]
    with fe.blocking.Session(graph) as session:
        session.run([], targets=["v/Assign"])
        for call in (fe.blocking.Saver().save, fe.blocking.Saver().restore):
            with pytest.raises(InvalidArgumentError, match=r"Saver\.\w+ takes a path .*not <Graph of"):
                call(session, graph)  # type: ignore[arg-type]


def test_a_path_that_leads_nowhere_is_named_with_similar_ones(tmp_path: Path) -> None:
    (tmp_path / "digits.pb").write_bytes(b"")
    (tmp_path / "export" / "1").mkdir(parents=True)
    (tmp_path / "export" / "1" / "saved_model.pb").write_bytes(b"")
    for read in (fe.Graph.load, fe.GraphBytes.read):
        with pytest.raises(NotFoundError, match=r"no file '.*/digit.pb'; did you mean '.*/digits.pb'\?"):
            read(tmp_path / "digit.pb")
    with pytest.raises(NotFoundError, match=r"no folder '.*/exports'; did you mean '.*/export'\?"):
        fe.blocking.load_saved_model(tmp_path / "exports")
    with pytest.raises(NotFoundError, match=r"has no saved_model.pb or .*; its folder '1' has one"):
        fe.blocking.load_saved_model(tmp_path / "export")
    with pytest.raises(NotFoundError, match=r"no folder 'nope'$"):
        fe.blocking.load_saved_model("nope", config=fe.Config.sandbox(memory_bytes=1 << 30, seconds=9))


def test_a_missing_checkpoint_is_named_first(tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.variable(1.0, name="v")
    with fe.blocking.Session(graph) as session:
        session.run([], targets=["v/Assign"])
        saver = fe.blocking.Saver()
        saver.save(session, tmp_path / "model", global_step=7)
        with pytest.raises(NotFoundError, match=r"^no checkpoint '.*/nope': Unsuccessful Tensor") as caught:
            saver.restore(session, tmp_path / "nope")
        assert "did you mean" not in str(caught.value)
        with pytest.raises(NotFoundError, match=r"^no checkpoint '.*'; did you mean '.*/model-7'\?: Unsucc"):
            saver.restore(session, tmp_path / "model-8")


#: Calls of functions that take a graph first, without it.
WITHOUT_GRAPH: dict[str, Callable[[], Any]] = {
    "cell.zero_state(graph, batch_size, ": lambda: fe.rnn.LSTMCell(4).zero_state(3, "float32"),  # type: ignore[arg-type]
    "fe.losses.collected(graph)": lambda: fe.losses.collected("losses"),  # type: ignore[arg-type]
    "fe.losses.total(graph)": lambda: fe.losses.total(None),  # type: ignore[arg-type]
    "@fe.function(graph, ": lambda: fe.function(["float32"])(lambda x: x),  # type: ignore[arg-type]
    "fe.train.match_filenames_once(graph, ": lambda: fe.train.match_filenames_once("*", "a"),  # type: ignore
    "fe.train.input_producer(graph, ": lambda: fe.train.input_producer([1], None),  # type: ignore[arg-type]
    "fe.train.string_input_producer(graph, ": lambda: fe.train.string_input_producer(["a"], None),  # type: ignore
    "fe.train.range_input_producer(graph, ": lambda: fe.train.range_input_producer(3, None),  # type: ignore
    "fe.train.add_queue_runner(graph, ": lambda: fe.train.add_queue_runner(1, None),  # type: ignore[arg-type]
    "fe.freeze(graph, ": lambda: trio.run(partial(fe.freeze, "digits.pb", fe.Session(), [])),  # type: ignore[arg-type]
    "fe.train.run_with_recovery(graph, ": lambda: trio.run(
        partial(fe.train.run_with_recovery, "graph.pb", lambda session, run: None, directory="x")  # type: ignore
    ),
}


@pytest.mark.parametrize("call", WITHOUT_GRAPH)
def test_a_function_that_takes_a_graph_shows_its_call(call: str) -> None:
    with pytest.raises(TypeError, match=f"is no Graph: write .*{re.escape(call)}"):
        WITHOUT_GRAPH[call]()


def test_a_state_of_zeros_names_its_batch_size() -> None:
    graph = fe.Graph()
    for wrong in ("3", 2.5, None, True):
        with pytest.raises(
            TypeError, match=r"batch_size is .* it must be a number or an int32 scalar Tensor"
        ):
            fe.rnn.LSTMCell(4).zero_state(graph, wrong)
    state = fe.rnn.LSTMCell(4).zero_state(graph, np.int64(3))
    assert state.c.shape.as_list() == [3, 4]
