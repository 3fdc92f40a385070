"""Each layer class of Keras, saved by TensorFlow 2, gives the same here; see `keras_layers.py`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.saved_model.keras_layers import differences

TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")


def tensorflow_2() -> str | None:
    """The first Python that has a TensorFlow 2; None where there is none."""
    for python in (TENSORFLOW or "").split(os.pathsep):
        ask = "import importlib.metadata as m; print(m.version('keras'))"
        told = python and subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if told and told.stdout.startswith("3."):
            return python
    return None


@pytest.mark.nightly
@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_each_layer_of_keras_gives_the_same_here(tmp_path: Path) -> None:
    python = tensorflow_2()
    if python is None:
        pytest.skip("FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 2 and Keras 3")
    script = str(Path(__file__).with_name("keras_layers.py"))
    subprocess.run([python, script, str(tmp_path)], capture_output=True, check=True)
    found = dict(differences(str(tmp_path)))
    assert len(found) > 200
    assert {name: fault for name, fault in found.items() if fault} == {}
