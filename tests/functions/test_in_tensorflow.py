"""Functions that are built here run in TensorFlow, with the same values and effects."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.functions.programs import Add, Block, Call, Effect, If, While, Writer
from tests.functions.test_random_calls import FEEDS, expected

TENSORFLOW: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON", "")
SCRIPT: Final = """
import json, sys
import tensorflow as tf
definition = tf.compat.v1.GraphDef()
definition.ParseFromString(open(sys.argv[1], "rb").read())
asked = json.load(open(sys.argv[2]))
found = []
with tf.Graph().as_default():
    tf.import_graph_def(definition, name="")
    with tf.compat.v1.Session() as session:
        session.run(asked["initializers"])
        for x in asked["feeds"]:
            value = session.run("y:0", {"x:0": x})
            found.append([float(value), *map(float, session.run(asked["variables"]))])
json.dump(found, open(sys.argv[3], "w"))
"""

EFFECTS: Final = Block((Effect(0, 0), Add(1, 0), Effect(1, 2)))
#: Every kind of statement, each within another.
PROGRAM: Final = Block(
    (
        Call(EFFECTS),
        If(1, Block((Call(EFFECTS), Effect(1, 1))), Block((While(2, EFFECTS), Add(0, 1)))),
        While(3, Block((If(0, EFFECTS, Block((Effect(0, 0),))), Call(Block((Add(0, 0),)))))),
        Effect(0, 3),
    )
)


@pytest.mark.skipif(not TENSORFLOW, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_tensorflow_runs_the_same_program(tmp_path: Path) -> None:
    writer = Writer(is_functional=True)
    writer.write(PROGRAM)
    asked = {
        "feeds": [float(x) for x in FEEDS],
        "initializers": [variable.initializer.name for variable in writer.variables],
        "variables": [variable.value().name for variable in writer.variables],
    }
    writer.graph.save(tmp_path / "graph.pb")
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    files = [str(tmp_path / name) for name in ("graph.pb", "asked.json", "found.json")]
    subprocess.run([TENSORFLOW, "-c", SCRIPT, *files], check=True, capture_output=True)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == [[float(value) for value in step] for step in expected(PROGRAM)]
