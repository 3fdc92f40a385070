"""Each layer class of Keras and whole models, saved by TensorFlow 2, give the same here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.saved_model import serving_models, whole_models
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


@pytest.mark.nightly
@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_whole_keras_models_give_the_same_here_and_on_the_shell(tmp_path: Path) -> None:
    python = tensorflow_2()
    if python is None:
        pytest.skip("FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 2 and Keras 3")
    script = str(Path(__file__).with_name("whole_models.py"))
    subprocess.run([python, script, str(tmp_path)], capture_output=True, check=True)
    found = dict(whole_models.differences(str(tmp_path)))
    assert len(found) == 2 * len(serving_models.MODELS)
    assert {name: fault for name, fault in found.items() if fault} == {}
