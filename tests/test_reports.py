"""Reports of a run of tests: one for machines, and a list of the tests that were not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

CASES = """
import os
import pytest

def test_of_recorded_cases(record_property):
    record_property("conformance_cases", 7)

@pytest.mark.skipif(
    not os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"), reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python"
)
@pytest.mark.parametrize("number", range(3))
def test_beside_tensorflow(number):
    pass

@pytest.mark.nightly
def test_that_takes_minutes():
    pass
"""


def report(root: Path, folder: Path, **environment: str) -> str:
    """Return the output of these tests, under the settings of the repository; a report lies in report.xml."""
    tests = folder / "test_cases.py"
    tests.write_text(CASES)
    (folder / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(root / "pyproject.toml")]
    command += ["--rootdir", str(folder), f"--junitxml={folder / 'report.xml'}", str(tests)]
    known = {name: value for name, value in os.environ.items() if name != "FLOWENGINE_TENSORFLOW_PYTHON"}
    known |= {"FLOWENGINE_TEST_PROFILE": "ci"}
    done = subprocess.run(
        command, cwd=root, env=known | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_properties_come_into_the_report(root: Path, tmp_path: Path) -> None:
    assert "conformance cases that ran: 7\n" in report(root, tmp_path)
    found = [each.attrib for each in ElementTree.parse(tmp_path / "report.xml").iter("property")]
    assert found == [{"name": "conformance_cases", "value": "7"}]


def test_what_needs_tensorflow_is_listed_where_it_did_not_run(root: Path, tmp_path: Path) -> None:
    without = report(root, tmp_path)
    assert "not run without FLOWENGINE_TENSORFLOW_PYTHON: 3 tests\n" in without
    assert "  test_cases.py::test_beside_tensorflow (3)\n" in without
    assert "not run but by make nightly: 1 test\n" in without
    assert "TENSORFLOW" not in report(root, tmp_path, FLOWENGINE_TENSORFLOW_PYTHON="python")
