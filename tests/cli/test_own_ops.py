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
DEVICES.register("NPU", CpuDevice, lambda: 2)
"""

#: A graph that names a device type itself.
ON_NPU = """
node { name: "x" op: "Placeholder" device: "/device:NPU:1" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "x" device: "/device:NPU:1" attr { key: "T" value { type: DT_FLOAT } } }
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
    code, _, said = call(folder, "devices", "--device-count", "QPU=1", path=str(folder))
    assert (code, "device type 'QPU'" in said) == (failure.USAGE, True)


def test_a_device_type_is_looked_for_wherever_a_device_is_named(folder: Path) -> None:
    (folder / "npus.py").write_text(DEVICE)
    (folder / "placed.pbtxt").write_text(ON_NPU)
    (folder / "plain.pbtxt").write_text(ON_NPU.replace("/device:NPU:1", ""))
    offer(folder, "npu", "[flowengine.devices]", "NPU = npus")
    here, came = str(folder), "flowengine: 'NPU' comes from npu 1.0: npus\n"
    run = ("--feed", "x=3", "--fetch", "y", "--log-device-placement")
    code, shown, said = call(folder, "run", "placed.pbtxt", *run, path=here)
    assert (code, shown) == (0, "y:0 = -3.0\n")
    assert said.startswith(came)
    assert "y" in said
    assert "device:NPU:1" in said
    code, shown, said = call(folder, "run", "plain.pbtxt", *run, "--place", "y=NPU:0", path=here)
    assert (code, shown) == (0, "y:0 = -3.0\n")
    assert came in said
    assert "device:NPU:0" in said
    limits = {"FLOWENGINE_DEVICE_MEMORY_LIMITS": "NPU:1=1000000"}
    code, shown, said = call(folder, "devices", path=here, **limits)
    assert (code, said) == (0, came)
    assert "1,000,000 bytes" in shown
    # Nobody looks where nothing unknown is named, or where it is turned off.
    assert call(folder, "run", "plain.pbtxt", *run[:4], path=here) == (0, "y:0 = -3.0\n", "")
    assert call(folder, "run", "placed.pbtxt", *run[:4], path=here, FLOWENGINE_PLUGINS="0") == (
        0,
        "y:0 = -3.0\n",
        "",
    )


GROWS = """
import flowengine as fe
graph = fe.Graph()
x = graph.placeholder("float32", [], name="x")
graph.ops.Neg(x, name="y")
with fe.blocking.Session(graph) as session:
    print(session.run("y:0", {"x": 3.0}))
    with graph.device("/device:NPU:1"):
        graph.ops.Square(x, name="z")
    print(session.run("z:0", {"x": 3.0}))
    print(session.explain("z:0", ["x:0"], placement=True))
    print(session.run("y:0", {"x": 4.0}))
"""


def test_a_graph_that_grows_may_come_to_name_one(folder: Path) -> None:
    (folder / "npus.py").write_text(DEVICE)
    offer(folder, "npu", "[flowengine.devices]", "NPU = npus")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, "-c", GROWS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "flowengine: 'NPU' comes from npu 1.0: npus\n"
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("-3.0", "9.0", "-4.0")
    assert any("device:NPU:1" in line for line in lines)
