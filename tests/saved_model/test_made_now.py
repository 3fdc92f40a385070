"""SavedModels that TensorFlow makes while the tests run, 1.15's and 2's: called here, they give the same."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

import flowengine as fe
from tests.saved_model.test_loading import as_fed, calls_of, check

#: Pythons with TensorFlow: of 1.15 for `simple_save`, an Estimator and a module of TF-Hub, of 2 for the rest.
PYTHONS = [each for each in os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON", "").split(os.pathsep) if each]
SCRIPT = Path(__file__).with_name("record_models.py")


@pytest.mark.nightly
@pytest.mark.skipif(not PYTHONS, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
def test_models_made_now_give_what_tensorflow_gives(tmp_path: Path) -> None:
    for python in PYTHONS:
        asked = [python, str(SCRIPT), str(tmp_path)]
        made = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr[-2000:]
    packed = sorted(tmp_path.glob("*.zip"))
    assert len(packed) >= 3
    for each in packed:
        folder = tmp_path / each.stem
        with zipfile.ZipFile(each) as content:
            content.extractall(folder)
        with fe.blocking.load_saved_model(folder) as model:
            for call in calls_of(folder):
                inputs = {name: as_fed(value) for name, value in call["inputs"].items()}
                check(call, model.signatures[call["signature"]](**inputs))
