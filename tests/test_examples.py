"""Examples in docstrings: each prompt of the product's docstrings is run, and prints the line below it.

An example may use `fe`, `np` and `trio`, and the names of its module. It runs in a folder of its own, so that
it may write files.
"""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import trio

import flowengine as fe
from tests.sources import sources

_FINDER: Final = doctest.DocTestFinder(exclude_empty=True)
_RUNNER_OPTIONS: Final = doctest.ELLIPSIS | doctest.REPORT_NDIFF


def module_name(path: str) -> str:
    """Return the import name of a file: `kernels/` and `transport/` are imported below `flowengine`."""
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return dotted if dotted.startswith("flowengine") else f"flowengine.{dotted}"


def examples() -> Iterator[doctest.DocTest]:
    for path, text in sources("flowengine", "kernels", "transport"):
        if ">>> " in text:
            module = importlib.import_module(module_name(path))
            names = {**vars(module), "fe": fe, "np": np, "trio": trio}
            yield from (each for each in _FINDER.find(module, globs=names) if each.examples)


EXAMPLES: Final = {each.name: each for each in examples()}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_the_line_below_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=_RUNNER_OPTIONS)
    runner.run(EXAMPLES[name], out=report.append)
    assert runner.failures == 0, "".join(report)


def test_a_wrong_example_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda text: None).failed == 1
