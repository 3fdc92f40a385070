"""Ops of one's own on the shell: `--import`, and what installed distributions offer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowengine.cli import failure

ROOT = Path(__file__).resolve().parent.parent.parent

MODULE = """
from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry

registry().register(OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}"))


@kernel("Halve")
def halve(x):
    return x / 2
"""

DEVICE = """
from flowengine.devices.cpu import CpuDevice
from flowengine.devices.load import DEVICES

DEVICES.register("TPU", CpuDevice)
"""

GRAPH = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "half" op: "Halve" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "halves.py").write_text(MODULE)
    (tmp_path / "graph.pbtxt").write_text(GRAPH)
    return tmp_path


def offer(folder: Path, name: str, *lines: str) -> None:
    """A distribution in the folder with these entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def call(folder: Path, *arguments: str, path: str = "", **more: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of the command, run in the folder."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{path}"} | more
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


#: Starts the command as its script does: the folder is not on the path.
START = "import sys; sys.path.remove(''); from flowengine.cli.main import main; sys.exit(main())"
RUN = ("run", "graph.pbtxt", "--feed", "x=3", "--fetch", "half")


def test_a_module_is_imported_first(folder: Path) -> None:
    assert call(folder, *RUN, "--import", "halves") == (0, "half:0 = 1.5\n", "")
    code, shown, _ = call(folder, "inspect", "graph.pbtxt", "--import", "halves")
    assert code == 0
    assert "ops without a kernel here: none" in shown
    assert "Halve(x: T) -> y: T" in call(folder, "ops", "Halve", "--import", "halves")[1]
    code, _, said = call(folder, *RUN, "--import", "halves.py")
    assert (code, "--import halves" in said) == (failure.USAGE, True)
    code, _, said = call(folder, *RUN, "--import", "nothing_like_it")
    assert (code, "ModuleNotFoundError" in said) == (failure.USAGE, True)


def test_an_unknown_op_is_looked_for_among_distributions(folder: Path) -> None:
    offer(folder, "half", "[flowengine.ops]", "Halve = halves", "Other = nothing")
    here = str(folder)
    assert call(folder, *RUN, path=here) == (
        0,
        "half:0 = 1.5\n",
        "flowengine: 'Halve' comes from half 1.0: halves\n",
    )
    code, _, said = call(folder, *RUN, path=here, FLOWENGINE_PLUGINS="0")
    assert (code, said.count("\n")) == (failure.MISSING_OP, 1)
    offer(folder, "second", "[flowengine.ops]", "Halve = halves")
    code, _, said = call(folder, *RUN, path=here)
    assert code == failure.MISSING_OP
    assert "2 offer 'Halve', so none is loaded" in said


def test_a_module_that_cannot_be_imported_is_no_offer(folder: Path) -> None:
    offer(folder, "half", "[flowengine.ops]", "Halve = nothing_like_it")
    code, _, said = call(folder, *RUN, path=str(folder))
    assert code == failure.MISSING_OP
    assert "'Halve' of half 1.0: nothing_like_it cannot be loaded: ModuleNotFoundError" in said


def test_an_unknown_device_type_is_looked_for_too(folder: Path) -> None:
    (folder / "tpus.py").write_text(DEVICE)
    offer(folder, "tpu", "[flowengine.devices]", "TPU = tpus")
    code, shown, said = call(folder, "devices", "--device-count", "TPU=2", path=str(folder))
    assert code == 0
    assert "/device:TPU:1" in shown
    assert said == "flowengine: 'TPU' comes from tpu 1.0: tpus\n"
    code, _, said = call(folder, "devices", "--device-count", "NPU=1", path=str(folder))
    assert (code, "device type 'NPU'" in said) == (failure.USAGE, True)
