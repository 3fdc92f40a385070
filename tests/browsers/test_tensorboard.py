"""TensorBoard, without TensorFlow, draws the event files of a training."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.ir.proto.step_stats_pb2 import RunMetadata as StepStatsProto

pytest.importorskip("tensorboard", reason="TensorBoard is not installed (`make browsers` does it)")

TAG: Final = "the last step"
STEPS: Final = 12
#: {page of TensorBoard: what is seen on it when it is drawn}
PAGES: Final = {
    "timeseries": ["loss", "activations", "digits", "Step 11"],
    "scalars": ["loss"],
    "images": ["digits", "step 11"],
    "histograms": ["activations"],
    "distributions": ["activations"],
    "text": ["notes"],
    "hparams": ["optimizer", "Adam", "rate"],
}
#: Returns the nodes of the graph's page with their times, and the maximum of the legend.
_TIMES: Final = """
() => {
  let board;
  const walk = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.tagName === "TF-GRAPH-DASHBOARD") board = each;
      if (each.shadowRoot) walk(each.shadowRoot);
    }
  };
  walk(document);
  const nodes = Object.entries(board._graphHierarchy.getNodeMap()).filter(([, node]) => node.stats);
  return {
    times: Object.fromEntries(nodes.map(([name, node]) => [name, node.stats.getTotalMicros()])),
    shown: board._renderHierarchy.root.coreGraph.nodes().concat(
      board._renderHierarchy.root.isolatedOutExtract.concat(board._renderHierarchy.root.isolatedInExtract)
        .map((each) => each.node.name)),
    legend: board._colorByParams.compute_time,
  };
}
"""


def train(folder: str) -> set[str]:
    """Train a convolutional network, write all kinds of summaries, and return the nodes with a time."""
    g = fe.Graph()
    images = g.placeholder("float32", [None, 8, 8, 1], name="images")
    labels = g.placeholder("int32", [None], name="labels")
    hidden = fe.layers.conv2d(images, 4, 3, activation="relu", name="conv")
    logits = fe.layers.dense(fe.reshape(hidden, [-1, 6 * 6 * 4]), 10, name="logits")
    loss = fe.reduce_mean(fe.losses.sparse_softmax_cross_entropy(labels, logits), name="loss")
    step = fe.optimizers.Adam(0.01).minimize(loss)
    random = np.random.default_rng(0)
    pictures = random.random((16, 8, 8, 1), np.float32)
    feeds = {images: pictures, labels: random.integers(0, 10, 16).astype(np.int32)}
    with fe.blocking.Session(g) as session, fe.blocking.Writer(folder) as writer:
        session.initialize()
        writer.add_graph(g)
        writer.add_hparams({"rate": 0.01, "optimizer": "Adam"}, metrics=["loss"])
        metadata = fe.RunMetadata()
        for number in range(STEPS):
            metadata = fe.RunMetadata()
            options = fe.RunOptions(trace="nodes" if number == STEPS - 1 else None)
            value, _ = session.run([loss, step], feeds, options=options, run_metadata=metadata)
            writer.add_scalar("loss", value, number)
            writer.add_histogram("activations", session.run(logits, feeds), number)
        writer.add_image("digits", pictures[:2], STEPS - 1)
        writer.add_text("notes", "The **first** run", STEPS - 1)
        writer.add_run_metadata(metadata, TAG, STEPS - 1)
        proto = StepStatsProto.FromString(metadata.step_stats())
        return {node.node_name for each in proto.step_stats.dev_stats for node in each.node_stats}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, set[str]]]:
    """The address of a TensorBoard, and the names of the nodes that ran in its traced step."""
    folder: Path = tmp_path_factory.mktemp("logs")
    names = train(str(folder / "first"))
    command = [sys.executable, "-W", "ignore", "-m", "tensorboard.main", "--logdir", str(folder)]
    command += ["--port", "0", "--host", "127.0.0.1", "--load_fast=false"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as board:
        assert board.stderr is not None
        found = next(filter(None, (re.search(r"http://127\S+", line) for line in board.stderr)))
        yield found[0], names
        board.terminate()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose errors end its test."""
    found = browser.new_page(viewport={"width": 1500, "height": 1000})
    faults: list[str] = []
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    yield found
    found.close()
    assert faults == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn(page: Any, run: tuple[str, set[str]], name: str) -> None:
    page.goto(f"{run[0]}#{name}")
    for text in PAGES[name]:
        page.get_by_text(text).filter(visible=True).first.wait_for()
    if name in {"scalars", "histograms"}:
        page.locator("svg path").first.wait_for(state="attached")
    if name == "images":
        page.locator("img").first.wait_for()


def test_the_graph_has_a_time_for_each_node_that_ran(page: Any, run: tuple[str, set[str]]) -> None:
    page.goto(f"{run[0]}#graphs")
    page.locator("tf-graph-controls paper-dropdown-menu").nth(1).click()
    page.get_by_text(TAG).last.click()
    page.get_by_text("Compute time").first.click()
    page.get_by_text("Devices included in stats").wait_for()
    found = page.evaluate(_TIMES)
    times = {name: micros for name, micros in found["times"].items() if micros is not None}
    assert run[1] <= set(times)
    assert found["legend"]["maxValue"] == max(times.get(name, 0) for name in found["shown"])
    assert found["legend"]["maxValue"] >= max(times[name] for name in run[1])
