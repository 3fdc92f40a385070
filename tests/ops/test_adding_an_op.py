"""Whoever adds an op writes three files; `make generate` writes the rest, and the op's record tests it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.generate.__main__ import GENERATED

#: What the copy is made of: the package, and what makes and tests it.
COPIED: Final = (
    "flowengine",
    "kernels",
    "transport",
    "docs/images",
    "docs/ops.md",
    "docs/reference",
    "pyproject.toml",
    "tests/conftest.py",
    "tests/devices",
    "tests/effort.py",
    "tests/generate",
    "tests/kernels/cuda",
    "tests/oprecords",
    "tests/ops/test_families.py",
    "tests/provided.py",
    "tests/tools",
)

WRITTEN: Final = {
    "flowengine/ops/signal/envelopes.py": '''
"""How loud a signal is, from moment to moment."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define


@define("MovingPeak(signal: T) -> peak: T", "T: {float, double}")
def moving_peak(c: ShapeContext) -> Shapes:
    return [c.input(0)]
''',
    "kernels/signal/envelopes.py": '''
"""How loud a signal is, from moment to moment."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel


@kernel("MovingPeak", fresh=True)
def moving_peak(xp: Any, signal: Array) -> Any:
    """(N,) -> (N,): the larger of each element and the one before it, both without their signs."""
    if signal.ndim != 1:
        raise InvalidArgumentError(f"signal must be a vector, but has {signal.ndim} dimensions")
    loud = xp.abs(signal)
    return xp.maximum(loud, xp.concatenate([loud[:1], loud[:-1]]))
''',
    "tests/oprecords/signal/envelopes.py": '''
"""How loud a signal is, from moment to moment."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _moving_peak(signal: Any) -> Any:
    return [max(abs(signal[max(i - 1, 0) : i + 1])) for i in range(len(signal))]


RECORDS = [
    OpRecord(
        "MovingPeak",
        [sample([1.0, -3.0, 2.0, 0.5]), sample([-1.0])],
        lambda signal: np.array(_moving_peak(signal)),
        [bad("InvalidArgumentError", "2 dimensions", [[1.0]])],
    ),
]
''',
}

RUN: Final = """
import flowengine as fe, trio
from pathlib import Path
assert Path(fe.__file__).is_relative_to(Path.cwd()), fe.__file__
graph = fe.Graph()
peak = graph.ops.MovingPeak(graph.constant([1.0, -3.0, 2.0, 0.5]))
async def main():
    async with fe.Session(graph) as session:
        print((await session.run(peak)).tolist())
trio.run(main)
"""


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    for name in COPIED:
        source, target = root / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)  # with its bytecode
        else:
            shutil.copy(source, target)
    return tmp_path


def _python(copy: Path, *arguments: str) -> str:
    """Return the output of Python in the copy, whose packages come before those of the checkout."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _pytest(copy: Path, *arguments: str) -> str:
    return _python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


def _texts(copy: Path) -> dict[str, str]:
    """{path: text} of all files but links into the same tree."""
    return {
        path.relative_to(copy).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("flowengine", "kernels", "transport", "docs", "tests")
        for path in (copy / folder).rglob("*")
        if path.is_file() and path.suffix in (".py", ".md")
    } | {"pyproject.toml": (copy / "pyproject.toml").read_text(encoding="utf-8")}


@pytest.mark.slow
def test_an_op_is_three_written_files(copy: Path) -> None:
    before = _texts(copy)
    for name, text in WRITTEN.items():
        assert name not in before
        (copy / name).write_text(text.lstrip(), encoding="utf-8")

    _python(copy, "-m", "tests.generate")
    after = _texts(copy)
    changed = {name for name, text in after.items() if before.get(name) != text}
    assert changed - WRITTEN.keys() <= GENERATED.keys()

    assert _python(copy, "-c", RUN).strip() == "[1.0, 3.0, 3.0, 2.0]"
    ran = _pytest(copy, "tests/oprecords", "-k", "MovingPeak", "-rA")
    for test in (
        "test_gives_what_the_reference_gives[MovingPeak-float32]",
        "test_gives_what_the_reference_gives[MovingPeak-float64]",
        "test_shape_function_tells_the_truth[MovingPeak]",
        "test_refuses[unknown-MovingPeak-",
        "test_has_the_values_of_the_cpu_and_nobody_looks[MovingPeak]",
    ):
        assert test in ran
    _pytest(copy, "tests/ops/test_families.py")


@pytest.mark.slow
@pytest.mark.parametrize("forgotten", [name for name in WRITTEN if not name.startswith("kernels/")])
def test_a_forgotten_file_is_missed(copy: Path, forgotten: str) -> None:
    for name, text in WRITTEN.items():
        if name != forgotten:
            (copy / name).write_text(text.lstrip(), encoding="utf-8")
    _python(copy, "-m", "tests.generate")
    with pytest.raises(AssertionError, match=r"envelopes|MovingPeak"):
        _pytest(copy, "tests/ops/test_families.py")
