"""Figure 1 of the white paper and of the OSDI paper: as many lines as there, and what they print."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import IS_NIGHTLY

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

#: Lines of the papers' programs, without imports, comments and empty lines.
WHITE_PAPER_LINES = 10
OSDI_LINES = 15
#: How many beginnings are tried: each trains in a process of its own.
BEGINNINGS = 10 if IS_NIGHTLY else 1


def lines(program: str) -> int:
    """Statements without imports, the docstring, and the line that starts the event loop."""
    tree = ast.parse((EXAMPLES / program).read_text())
    counted = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    left_out = (ast.Import, ast.ImportFrom, ast.With)
    is_docstring = [isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in counted]
    kept = [
        n for n, doc in zip(counted, is_docstring, strict=True) if not doc and not isinstance(n, left_out)
    ]
    assert len(kept) == len({node.lineno for node in kept})
    return len(kept)


def printed(program: str) -> list[str]:
    command = [sys.executable, str(EXAMPLES / program)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_figure_1_of_the_white_paper() -> None:
    assert lines("figure_1_white_paper.py") <= WHITE_PAPER_LINES
    found = [line.split() for line in printed("figure_1_white_paper.py")]
    assert [int(step) for step, _ in found] == list(range(10))
    assert len({cost for _, cost in found}) == 10


def test_figure_1_of_the_osdi_paper_reads_97_of_100_digits() -> None:
    # The last line, which tells the accuracy, is not in the paper.
    assert lines("figure_1_osdi.py") - 1 <= OSDI_LINES
    (line,) = printed("figure_1_osdi.py")
    assert float(line.removeprefix("accuracy = ")) >= 0.97


@pytest.mark.slow
def test_it_does_so_whatever_the_weights_begin_with() -> None:
    program = (EXAMPLES / "figure_1_osdi.py").read_text()
    assert program.count("seed=5") == program.count("seed=6") == 1
    for seed in range(BEGINNINGS):
        changed = program.replace("seed=5", f"seed={2 * seed}").replace("seed=6", f"seed={2 * seed + 1}")
        command = [sys.executable, "-c", changed]
        found = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=True).stdout
        assert float(found.removeprefix("accuracy = ")) >= 0.97, seed
