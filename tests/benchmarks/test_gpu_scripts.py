"""The measurements of GPUs run on the simulated one, and tell what is not kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trio

from flowengine.devices import cuda, cuda_device
from flowengine.devices.launch_record import LaunchRecord
from tests.benchmarks import gpu_agreement, gpu_latency, gpu_launches, gpu_networks, gpu_transfers
from tests.benchmarks.gpu_nets import BATCHES, NetLayers, same_padding
from tests.benchmarks.gpu_networks import PEERS
from tests.benchmarks.gpu_sessions import GpuPlace, Measurement, command
from tests.gpu import __main__ as whole
from tests.gpu.tables import ResultTable
from tests.tools.simulated_gpu import SimulatedGpu


@pytest.mark.parametrize(
    ("measure", "first"),
    [
        (gpu_launches.measure, "a product of 32 x 32, cold"),
        (gpu_latency.measure, "a ticker alone, ms"),
        (gpu_transfers.measure, "4,096"),
        pytest.param(gpu_networks.measure, "alexnet, float32", marks=pytest.mark.nightly),
    ],
)
async def test_a_script_runs_on_the_simulated_gpu(measure: Measurement, first: str) -> None:
    table = await measure(GpuPlace(simulated=True))
    assert table.rows[0][0] == first
    assert {len(row) for row in table.rows} == {len(table.headings)}


async def test_values_of_sessions_agree_on_the_simulated_gpu(
    monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    monkeypatch.setenv("FLOWENGINE_SHARED", str(shared))
    table = await gpu_agreement.measure(GpuPlace(simulated=True))
    assert table.failures == []
    names = [row[0].partition(" ")[2] or row[0] for row in table.rows]
    assert names == [
        "records",
        "losses of 2 steps",
        "deterministic, three runs",
        "tp_half_plus_two",
        "whitepaper_fig1",
    ]


async def test_a_network_learns_on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus: list[SimulatedGpu] = []
    made = SimulatedGpu.__init__

    def noted(self: SimulatedGpu, *args: object, **keywords: object) -> None:
        made(self, *args, **keywords)  # type: ignore[arg-type]
        gpus.append(self)

    monkeypatch.setattr(SimulatedGpu, "__init__", noted)
    monkeypatch.setattr(gpu_networks, "RATE", 0.05)
    place = GpuPlace(simulated=True)
    first, last = [await gpu_networks.trained(place, "alexnet", 1, 64, steps) for steps in (1, 4)]
    assert last["loss"] < first["loss"]
    for gpu in gpus:
        gpu.check()
        # Only what is fetched leaves, and the words that say whether a label is out of range.
        assert max(gpu.copies["out"]) == 4


def test_launches_are_compared_with_those_of_pytorch() -> None:
    table = ResultTable("Launches", gpu_launches.HEADINGS)
    found = gpu_launches.LaunchTimes(cold=31_000.0, cold_kernels=1000, hot=9_000.0, hot_kernels=900)
    gpu_launches.entered(table, "a product", found, 10_000.0, products=True)
    gpu_launches.entered(table, "a chain", found, 8_000.0, products=False)
    gpu_launches.entered(table, "a product alone", found, None, products=True)
    assert table.rows[:2] == [
        ("a product, cold", "31.00", "1000", "31000", "10000", "3.10", "3.0"),
        ("a product, hot", "10.00", "900", "9000", "10000", "0.90", "1.0"),
    ]
    assert table.failures == [
        "a product takes the host 3.10 of PyTorch's time, cold",
        "a chain takes the host 1.12 of PyTorch's time, hot",
    ]


def test_a_row_of_a_network_tells_what_is_not_kept() -> None:
    table = ResultTable("Networks", ("network", "ms", "first", "TFLOP/s", "loss", "paper", *PEERS, "bytes"))
    ours = {"step": 0.2, "first": 1.0, "loss": 3.0, "bytes": 1e9}
    torch = {"step": 0.1, "loss": 3.0, "bytes": 5e8}
    others = {"PyTorch": torch, "PyTorch, compiled": torch, "JAX": {"step": 0.2, "loss": 4.0}}
    gpu_networks.entered(table, "alexnet, float32", "2.6", ours, others)
    gpu_networks.entered(table, "vgg_a, TF32", "2.6", ours, {"PyTorch": {"error": "no module"}})
    assert table.rows[0][5:9] == ("81", "100.0 (2.00)", "100.0 (2.00)", "200.0 (1.00)")
    assert table.rows[1][5:] == ("540", "not here", "not here", "not here", "1,000,000,000")
    assert table.rows[0][9] == "1,000,000,000 (2.00)"
    assert {len(row) for row in table.rows} == {len(table.headings)}
    assert table.failures == [
        "alexnet, float32 takes 2.00 of PyTorch's time",
        "alexnet, float32 has 2.00 of PyTorch's memory",
        "alexnet, float32: the loss is 3.0000, JAX has 4.0000",
    ]


@pytest.mark.parametrize(
    ("size", "window", "stride"), [(224, 7, 2), (28, 3, 1), (5, 2, 2), (4, 4, 4), (7, 1, 3)]
)
def test_same_padding_gives_a_place_for_each_stride(size: int, window: int, stride: int) -> None:
    before, behind = same_padding(size, window, stride)
    assert 0 <= behind - before <= 1
    assert (size + before + behind - window) // stride + 1 == -(-size // stride)


def test_what_goes_on_beside_copies_is_counted_once() -> None:
    def record(stream: str, began: float, ended: float) -> LaunchRecord:
        return LaunchRecord("node", "what", "GPU", stream, began, ended)

    copies = [record("copy in", 0, 4), record("copy in", 10, 14)]
    work = [record("compute", 2, 5), record("compute", 3, 6), record("compute", 11, 12)]
    assert gpu_transfers.beside([*copies, *work]) == 3 / 8
    assert gpu_transfers.beside(work) == 0


def test_layers_use_their_weights_again() -> None:
    net = NetLayers(None, narrow=4)
    first = [net.variable([2, 3], 0.5), net.variable([3], 0.1)]
    net.begin()
    assert [net.variable([2, 3], 0.5) is first[0], net.variable([3], 0.1) is first[1]] == [True, True]
    assert (first[0].dtype, float(np.abs(first[0]).max()) <= 0.5) == (np.float32, True)
    assert set(BATCHES) == set(gpu_networks.OPERATIONS)


def test_without_a_card_scripts_say_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = cuda.CudaSearch((), None, (), "the driver sees no card")
    monkeypatch.setattr(cuda, "search", lambda: nothing)
    assert command("gpu_launches", "", gpu_launches.measure, []) == 2
    assert "there is no GPU: the driver sees no card; --simulated" in capsys.readouterr().err
    assert [whole.why_left_out(name) for name in ("launches", "networks")] == ["", "the driver sees no card"]
    assert cuda_device.why_no_gpu() == "the driver sees no card"


def test_a_script_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    async def measure(place: GpuPlace) -> ResultTable:
        await trio.lowlevel.checkpoint()
        return ResultTable("Title", ("a",), [("1",)], ["too slow"])

    # What is simulated is tried, not measured.
    assert command("gpu_launches", "", measure, ["--simulated"]) == 0
    assert "## Title" in capsys.readouterr().out
