"""Names that `flowengine.testing` offers, and packages that they need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flowengine import testing

ROOT = Path(__file__).resolve().parents[2]

#: Imports every module of the package except those that draw, with Hypothesis hidden.
WITHOUT_HYPOTHESIS = """
import importlib, pkgutil, sys
sys.modules["hypothesis"] = None
import flowengine.testing as testing
for name in testing.__all__:
    getattr(testing, name)
lacking = []
for module in pkgutil.walk_packages(testing.__path__, "flowengine.testing."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            lacking.append(module.name.removeprefix("flowengine.testing."))
            told = str(error)
print(*sorted(lacking))
try:
    from flowengine.testing import strategies
except ModuleNotFoundError as error:
    print(error)
"""


def test_every_name_is_there() -> None:
    for name in testing.__all__:
        assert callable(getattr(testing, name))
    assert dir(testing) == sorted(testing.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        testing.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_only_what_draws_needs_hypothesis() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HYPOTHESIS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lacking, told = done.stdout.splitlines()
    assert lacking == "random_graphs random_ops random_recurrence simulation.strategies strategies"
    assert told == "flowengine.testing.strategies needs Hypothesis: pip install 'hypothesis>=6.112'"


def test_the_extra_installs_what_is_needed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith("hypothesis") for each in extras["testing"])
    assert "hypothesis>=6.112" in extras["testing"]  # what the message says
