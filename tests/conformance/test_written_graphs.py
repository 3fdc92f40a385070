"""Graphs that we write: the same as those that we read, and TensorFlow loads and runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import flowengine as fe
from tests.tools.recorded import find_cases, open_case

pytestmark = pytest.mark.conformance

HERE = Path(__file__).parent
RECORDED = {Path(address).name: address for address in find_cases(HERE / "recorded")}
TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
#: Whole graphs of many kinds: loops, gradients, old producers, strings, resource variables, large constants.
GRAPHS = (
    "cond_in_while_grad",
    "googlenet_infer",
    "lstm_lm_full",
    "mnist_mlp_fig1",
    "nested_while_grad",
    "seq2seq_attention_train",
    "tp_grappler_while_loop",
    "tp_rust_addition",
    "tp_rust_regression_old",
    "tp_speech_commands",
    "whitepaper_fig1",
    "word2vec_nce_sgd",
)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_writing_what_was_read_loses_nothing(name: str) -> None:
    read = fe.Graph.from_graph_def(open_case(RECORDED[name]).graph)
    written = read.to_graph_def().SerializeToString(deterministic=True)
    again = fe.Graph.from_graph_def(written)
    assert again.to_graph_def().SerializeToString(deterministic=True) == written
    for node in read:
        copy = again[node.name]
        assert (copy.op, copy.inputs, copy.control_inputs, copy.device) == (
            node.op,
            node.inputs,
            node.control_inputs,
            node.device,
        )
        assert copy.attrs.keys() == node.attrs.keys()


@pytest.mark.slow
@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
@pytest.mark.parametrize("name", GRAPHS)
def test_tensorflow_runs_what_we_write(name: str, shared: Path, tmp_path: Path) -> None:
    case = shared / "zoo" / "open" / name
    description = json.loads((case / "case.json").read_text(encoding="utf-8"))
    graph = fe.Graph.from_graph_def((case / description["graph"]).read_bytes())
    written = tmp_path / "written.pb"
    written.write_bytes(graph.to_graph_def().SerializeToString(deterministic=True))
    folder = tmp_path / "case"
    shutil.copytree(case, folder, copy_function=shutil.copyfile)
    done = subprocess.run(
        [str(TENSORFLOW), str(HERE / "tensorflow_player.py"), str(folder), str(written)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    assert len(answers) == len(description["runs"])
    assert not [answer for answer in answers if any(answer)]
