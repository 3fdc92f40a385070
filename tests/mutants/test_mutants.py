"""The ways to break a program do what they say, and a draw is the same for a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "cosmic_ray", reason="cosmic-ray is not installed: make mutants makes an environment with it"
)

from cosmic_ray.mutating import mutate_code

from tests.mutants import judging, rows
from tests.mutants.covering import Coverage, at_import, in_turn, kept, read
from tests.mutants.drawing import changed_source, draw, places
from tests.mutants.operators import OURS
from tests.mutants.reasons import REASONS, parsed

SOURCE = '''"""A text is no place for a change: 1 < 2."""

from __future__ import annotations


def first(a: int | None, b: list[int] = [1]) -> int | None:
    """Nor is this: a and b."""
    if a and b:
        return min(a, len(b))
    raise ValueError(f"{len(b or [1])} are too few")
'''


@pytest.mark.parametrize("kind", OURS)
def test_each_operator_makes_its_example(kind: Any) -> None:
    (example,) = kind.examples()
    assert mutate_code(example.pre_mutation_code, kind(), 0) == example.post_mutation_code
    assert mutate_code(example.pre_mutation_code, kind(), 1) is None


def test_places_are_where_something_runs(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    found = list(places(tmp_path, "module.py"))
    assert {each.line for each in found} == {6, 8, 9, 10}
    assert {each.operator for each in found if each.line == 6} == {"NumberReplacer"}
    # What an error says is passed over, that it is raised is not.
    assert {each.operator for each in found if each.line == 10} == {"SwallowError"}
    changed = {changed_source(tmp_path, each) for each in found}
    assert len(changed) == len(found)
    assert draw(found, 3, 4) == draw(found, 3, 4)
    assert sorted(each.is_ours for each in draw(found, 3, 4)) == [False, False, True, True]
    assert draw(found, 3, None) == found


def test_what_an_operator_cannot_change_is_the_same_program(tmp_path: Path) -> None:
    source = "import a\ntry:\n    a.f()\nexcept (a.b, OSError):\n    raise\n"
    (tmp_path / "module.py").write_text(source)
    found = [each for each in places(tmp_path, "module.py") if each.operator == "ExceptionReplacer"]
    changed = [changed_source(tmp_path, each) for each in found]
    assert changed == [None, source.replace("OSError", "CosmicRayTestingException")]


def test_the_fastest_tests_come_first() -> None:
    coverage = Coverage({"m.py": {1: [], 2: ["slow", "quick"], 3: ["other"]}}, {"slow": 2.0, "quick": 0.1})
    assert coverage.of("m.py", 2) == ["quick", "slow"]
    assert coverage.of("m.py", 4) == []
    # What runs when the file is imported is everybody's.
    assert coverage.of("m.py", 1) == ["other", "quick", "slow"]


def test_lines_that_run_at_import_are_those_of_no_functions_body() -> None:
    source = """import a
@a.b
def f(
    x=1,
):
    return lambda: x

class C:
    y = 2
    def g(self): return self.y
    async def h(self):
        def k():
            pass
z = 3
"""
    assert at_import(source) == {1, 2, 3, 4, 5, 7, 8, 9, 11, 14, 15}


def test_many_quick_parameters_keep_no_other_test_from_its_turn() -> None:
    seconds = {"f[1]": 0.1, "f[2]": 0.2, "f[3]": 0.3, "g": 1.0, "h[1]": 2.0, "h[2]": 100.0}
    assert in_turn(seconds, seconds) == ["f[1]", "g", "h[1]", "f[2]", "h[2]", "f[3]"]
    # No more of them than take a minute, but one in any case.
    assert kept(seconds, seconds) == ["f[1]", "g", "h[1]", "f[2]"]
    assert kept(["h[2]"], seconds) == ["h[2]"]
    assert kept([], seconds) == []


def test_coverage_comes_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "table").write_text(
        '{"names": ["a", "b[1]"], "seconds": {"a": 1.0}, "failed": [], "tests": {"m.py": {"3": [1, 0]}}}'
    )
    assert read(tmp_path / "table") == Coverage({"m.py": {3: ["b[1]", "a"]}}, {"a": 1.0})


def test_a_mutant_that_is_the_same_program_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    found = {each.operator: each for each in places(tmp_path, "module.py")}
    known = parsed("module.py\n    if  a:\n        b is never empty\n")
    monkeypatch.setattr(rows, "REASONS", known)
    assert rows.reason(tmp_path, found["ForgetPartOfCondition"]) == "b is never empty"
    assert rows.reason(tmp_path, found["TurnExtreme"]) == ""
    with pytest.raises(ValueError, match="no reason for 'if a:'"):
        parsed("module.py\n    if a:\n")


def test_each_reason_is_of_a_file_that_is_there(root: Path) -> None:
    assert [name for name in REASONS if not (root / name).is_file()] == []


def test_rows_come_back_and_those_that_are_left_are_told(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    drawn = list(places(tmp_path, "module.py"))
    made = [
        each.as_row() | {"verdict": verdict, "tests": 1}
        for each, verdict in zip(drawn, ("killed", "survived", "late", "uncovered", "excused"), strict=False)
    ]
    rows.write(tmp_path / "kept", made)
    assert rows.read(tmp_path / "kept") == made
    assert rows.read(tmp_path / "none") == []
    assert [rows.mutant_of(row) for row in rows.left(made)] == [drawn[1], drawn[3]]


_PROGRAM = "def doubled(x):\n    while x < 0:\n        x = 0\n    return 2 * x\n"
_TESTS = """
import pytest
from program import doubled

def test_quick():
    assert doubled(2) == 4

@pytest.mark.parametrize("x", [-3, -1])
def test_negative(x):
    assert doubled(x) == 0

def test_that_is_red():
    assert doubled(1) == 3

def test_that_is_not_asked():
    assert False
"""


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (("2 * x", "3 * x"), "killed"),
        (("x = 0", "x = x"), "timeout"),
        (("x < 0", "x <= -1"), "survived"),
        (("x < 0", "x < -1"), "killed"),
        (("2 * x", "2 * x + oops"), "killed"),
    ],
)
def test_a_change_is_judged_by_tests_in_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], verdict: str
) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    (tmp_path / "test_program.py").write_text(_TESTS)
    monkeypatch.setattr(judging, "_START_SECONDS", 3.0)
    tests = ["test_program.py::test_quick", "test_program.py::test_negative"]
    found, _ = judging.judge(tmp_path, "program.py", _PROGRAM.replace(*change), tests, 0.0)
    assert found == verdict
    assert (tmp_path / "program.py").read_text() == _PROGRAM


def test_a_test_that_fails_without_the_change_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    (tmp_path / "test_program.py").write_text(_TESTS)
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    changed = _PROGRAM.replace("x < 0", "x < -1")
    for tests, verdict in (
        (["test_program.py::test_that_is_red"], "late"),
        (["test_program.py::test_negative[-3]"], "survived"),
        (["test_program.py::test_negative[-1]"], "killed"),
        (["test_program.py::test_negative"], "killed"),
        (["test_program.py"], "killed"),
        (["test_broken.py"], "late"),
    ):
        assert judging.judge(tmp_path, "program.py", changed, tests, 0.0)[0] == verdict, tests
