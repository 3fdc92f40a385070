"""The program for a card, played on a card of the tests' own; and on a real one if there is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from flowengine.devices import cuda
from flowengine.devices.cuda_driver import CudaDriver
from flowengine.kernels.cuda import compiling, sources
from flowengine.kernels.cuda.convolution_plans import ConvolutionCall, EngineRules
from flowengine.kernels.cuda.driver_launcher import DriverLauncher
from tests.gpu import __main__ as command
from tests.gpu import convolving, measuring, sanitizing
from tests.gpu.agreement import CASES, FAMILIES, agreement
from tests.gpu.played import played_cudnn, played_launcher
from tests.gpu.tables import ResultTable
from tests.kernels.cuda.host_compiler import needs_compiler


@pytest.fixture(scope="module")
def launcher() -> Iterator[DriverLauncher]:
    with played_launcher() as made:
        yield made


@needs_compiler
def test_every_family_agrees(launcher: DriverLauncher) -> None:
    table = agreement(launcher, 2)
    assert table.failures == []
    assert [row[0] for row in table.rows] == list(CASES)
    assert set(CASES) == set(FAMILIES) == set(sources.FAMILIES)


@needs_compiler
def test_what_is_measured(launcher: DriverLauncher) -> None:
    table = measuring.launches(launcher, 20)
    assert len(table.rows) == 2
    table = measuring.transfers(launcher, 8 << 20)
    assert [row[0] for row in table.rows] == ["1,048,576", "8,388,608"]


@needs_compiler
def test_a_part_that_fails_leaves_the_others(
    launcher: DriverLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(launcher: DriverLauncher, simulated: bool) -> ResultTable:
        raise ValueError("planted")

    monkeypatch.setattr(measuring, "are_products_there", lambda: "there is no cuBLAS")
    fine = ResultTable("Fine", ("a", "b"), [("1", "2")])
    parts = {"fails": fails, "products": lambda *_: fine, "fine": lambda *_: fine}
    lines, kept = command.run_parts(launcher, parts, 60)
    text = "\n".join(lines)
    assert not kept
    assert "ValueError: planted" in text
    assert "Left out: there is no cuBLAS." in text
    assert "## Fine\n\n| a | b |\n|---|---|\n| 1 | 2 |\n" in text
    assert command.run_parts(launcher, {"fine": lambda *_: fine}, 60)[1]
    assert "no time was left" in "\n".join(command.run_parts(launcher, {"fine": lambda *_: fine}, -1)[0])
    fine.failures.append("too slow")
    lines, kept = command.run_parts(launcher, {"fine": lambda *_: fine}, 60)
    assert not kept
    assert "- **not kept**: too slow" in "\n".join(lines)


@needs_compiler
def test_every_part_runs_without_a_card(
    launcher: DriverLauncher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "played_launcher", lambda: nullcontext(launcher))
    # Those of sessions are run by `tests/benchmarks/test_gpu_scripts.py`.
    parts = [name for name in command.PARTS if name not in command.BY_SESSIONS]
    assert command.main(["--out", str(tmp_path), "--simulated", "--only", *parts]) == 0
    text = (tmp_path / "gpu.md").read_text()
    assert "Failed:" not in text
    assert "Left out:" not in text
    assert text.count("seconds by then.") == len(parts) == 6
    assert "| small, strided | filter_gradient | TF32 |" in text
    assert "of the largest" not in text
    assert "other bits" not in text
    assert capsys.readouterr().out.startswith("# Without a card")


def test_what_the_sanitizer_finds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = "import sys; print('========= Invalid read'); sys.exit({})"
    table = sanitizing.sanitizing((sys.executable, "-c", ends.format(99)))
    assert table.failures == [f"{check}: ========= Invalid read" for check in sanitizing.CHECKS]
    table = sanitizing.sanitizing((sys.executable, "-c", ends.format(1)))
    assert table.rows[0] == ("memcheck", "the program ended with 1")
    assert sanitizing.sanitizing((sys.executable, "-c", "pass")).failures == []
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "compute-sanitizer is not installed" in command.why_left_out("sanitizer")


@needs_compiler
def test_layers_that_are_faster_turned_are_named(
    launcher: DriverLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def best(self: convolving.LayerTimes, call: ConvolutionCall, rules: EngineRules) -> tuple[float, ...]:
        is_first = call.x.strides[1] > 1
        return (1.0, 1.0, 0, 2.0) if is_first else (4.0, 3.0, 2, 2.0)

    monkeypatch.setattr(convolving.LayerTimes, "best", best)
    table = convolving.convolutions(launcher, simulated=True, library=played_cudnn())
    assert table.rows[0][3:5] == ("4.000", "3.000 (2)")
    assert table.rows[-1][1].count("LayerKind(") == 12
    assert {len(row) for row in table.rows} == {len(table.headings)}


def test_without_a_card_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = cuda.CudaSearch((), None, (), "the driver's library is not on this machine")
    monkeypatch.setattr(cuda, "search", lambda: nothing)
    assert command.main(["--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "no card: the driver's library is not on this machine\n"
    assert not (tmp_path / "out").exists()


def test_the_head_names_card_and_libraries() -> None:
    card = cuda.CudaCard("Card A", 80 << 30, (9, 0), 132)
    library = cuda.CudaLibrary("nvrtc", "", "", "nvidia-cuda-nvrtc")
    lines = command.head(cuda.CudaSearch((card,), (13, 2), (library,), ""))
    assert lines[0] == "# Card A"
    assert "compute capability 9.0; the driver runs CUDA 13.2." in lines[2]
    assert lines[4] == "- nvrtc is not installed"


@pytest.mark.gpu
def test_on_a_card(tmp_path: Path) -> None:
    found = cuda.search()
    if not found.cards:
        pytest.skip(f"no card: {found.reason}")
    compiling.compiler()
    major, minor = found.cards[0].capability
    with DriverLauncher(CudaDriver(), 0, *FAMILIES, architecture=f"sm_{major}{minor}") as launcher:
        assert agreement(launcher, 16).failures == []
