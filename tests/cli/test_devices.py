"""`flowengine devices`, and the options that say where nodes go."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.devices.cuda import CudaCard, CudaLibrary, CudaSearch

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    logger = logging.getLogger("flowengine.placement")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before[0], before[1], before[2]


@pytest.fixture
def asking(save: Callable[[fe.Graph], str]) -> str:
    """`y` asks for a GPU; `z` for nothing."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    with graph.device("/device:GPU:0"):
        y = graph.ops.Exp(x, name="y")
    graph.ops.Neg(y, name="z")
    return save(graph)


def test_the_devices_of_this_machine(capsys: Output) -> None:
    assert main(["devices"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("/job:localhost/replica:0/task:0/device:CPU:0\n")
    assert "no memory limit; " in shown
    assert " by numpy" in shown
    assert "numpy: version " in shown


def test_devices_as_a_document(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_DEVICE_MEMORY_LIMITS", "CPU:1=1000000")
    assert main(["devices", "--device-count", "CPU=2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [d["memory_limit_bytes"] for d in document["devices"]] == [None, 1000000]
    first = document["devices"][0]
    assert first["name"] == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert first["kernels"] == sum(first["providers"].values()) >= first["ops"] > 500
    assert {p["name"] for p in document["providers"]} >= {"numpy"}


def test_gpus_or_why_there_is_none(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the driver sees no card"
    nothing = CudaSearch((), None, (), reason)
    card = CudaCard("NVIDIA H200", 150_000_000_000, (9, 0), 132)
    libraries = (
        CudaLibrary("nvrtc", "13.5.37", "/lib/libnvrtc.so.13", "nvidia-cuda-nvrtc"),
        CudaLibrary("cudnn", "", "", "nvidia-cudnn-cu13"),
    )
    for found in (nothing, CudaSearch((card,), (13, 0), libraries, "")):
        monkeypatch.setattr("flowengine.cli.devices.search", lambda found=found: found)
        assert main(["devices"]) == 0
        assert main(["devices", "--json"]) == 0
    shown = capsys.readouterr().out
    assert f"GPU: none: {reason}\n" in shown
    assert "GPU: NVIDIA H200, 150,000,000,000 bytes, 132 multiprocessors, compute capability 9.0" in shown
    assert "; driver for CUDA 13.0\n    nvrtc: version 13.5.37\n" in shown
    assert "    cudnn: not installed; its distribution is nvidia-cudnn-cu13\n    not used: " in shown
    assert '"cuda_version": [' in shown
    assert f'"reason": "{reason}"' in shown


def test_run_on_several_devices_by_pattern(linear: str, capsys: Output) -> None:
    arguments = ["run", linear, "--feed", "x=[[1, 2]]", "--fetch", "y", "--device-count", "CPU=3"]
    arguments += ["--place", "prod*=CPU:2", "--place", "y=@product", "--log-device-placement"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "4." in captured.out
    assert "product: (MatMul): /job:localhost/replica:0/task:0/device:CPU:2\n" in captured.err
    assert "y: (AddV2): /job:localhost/replica:0/task:0/device:CPU:2\n" in captured.err


def test_a_graph_that_asks_for_what_is_not_there(asking: str, capsys: Output) -> None:
    run = ["run", asking, "--feed", "x=[0, 0]", "--fetch", "z"]
    assert main(run) == 0
    assert main([*run, "--device-count", "CPU=2", "--soft-placement"]) == 0
    capsys.readouterr()
    for hard in (["--device-count", "CPU=2"], ["--no-soft-placement"]):
        assert main([*run, *hard]) == failure.STEP_ERROR
        assert "'y' asks for /device:GPU:0" in capsys.readouterr().err
    assert main([*run, "--device-count", "CPU=2", "--place", "y=CPU:1"]) == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--device-count", "CPU"], "write DEVICE=NUMBER"),
        (["--device-count", "TPU=2"], "device type 'TPU'"),
        (["--place", "y"], "write PATTERN=DEVICE"),
        (["--place", "y=GPU:zero"], "cannot read"),
    ],
)
def test_options_that_cannot_be_read(linear: str, capsys: Output, option: list[str], message: str) -> None:
    assert main(["run", linear, "--feed", "x=[[1, 2]]", "--fetch", "y", *option]) == failure.USAGE
    assert message in capsys.readouterr().err


def test_the_plan_says_why(linear: str, capsys: Output) -> None:
    arguments = ["plan", linear, "--fetch", "y", "--placement", "--device-count", "CPU=2"]
    assert main([*arguments, "--place", "y=CPU:1"]) == 0
    shown = capsys.readouterr().out
    assert "  y (AddV2): asked for /device:CPU:1\n" in shown
    assert "expected: " in shown
    assert main([*arguments, "--dot"]) == failure.USAGE
