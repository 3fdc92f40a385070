"""The comparison of two trees: its arithmetic, which tree a process imports, what it keeps of rounds."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.benchmarks.against import rule
from tests.benchmarks.against.__main__ import Rounds, chosen, main, one_round
from tests.benchmarks.against.subjects import Processes, Steps
from tests.benchmarks.against.trees import ROOT, Tree, WrongTree, digest_of, ended_by_signals, tree
from tests.benchmarks.workloads import WORKLOADS


def rounds(*ratios: tuple[float, float]) -> list[dict[str, dict[str, float]]]:
    """Rounds whose NEW and control have these ratios; the processor takes half of the wall's time."""
    made = []
    for number, (new, control) in enumerate(ratios, 1):
        wall = {"old": 1e-3 * number, "new": 1e-3 * number * new, "control": 1e-3 * number * control}
        made.append({side: {"wall": value, "processor": value / 2} for side, value in wall.items()})
    return made


def test_a_figure_is_the_median_of_the_rounds_ratios() -> None:
    made = rule.verdict("x", rounds((1.2, 0.9), (1.0, 1.0), (1.04, 1.01)), "wall")
    assert math.isclose(made.figure, 1.04)
    assert math.isclose(made.control, 1.0)
    assert math.isclose(made.other_figure, 1.04)
    assert math.isclose(made.old_seconds, 2e-3)
    assert made.rounds == 3
    assert made.bound == 1.05
    assert made.kept


def test_a_control_that_strays_widens_the_bound_to_both_sides() -> None:
    for control in (1.04, 0.96):
        made = rule.verdict("x", rounds((1.07, control)), "wall")
        assert math.isclose(made.bound, 1.08)
        assert made.kept
    assert not rule.verdict("x", rounds((1.07, 1.02)), "wall").kept


def test_the_clock_that_is_judged_can_be_chosen() -> None:
    found = rounds((1.2, 1.0))
    found[0]["new"]["processor"] = found[0]["old"]["processor"]
    assert not rule.verdict("x", found, "wall").kept
    assert rule.verdict("x", found, "processor").kept
    assert math.isclose(rule.verdict("x", found, "processor").other_figure, 1.2)


def test_the_rule_asks_for_each_figure_and_for_the_mean() -> None:
    def whole(*figures: float) -> rule.Summary:
        made = [rule.verdict(f"f{n}", rounds((value, 1.0)), "wall") for n, value in enumerate(figures)]
        found = rule.summary([*made, rule.verdict("far off", rounds((9.0, 1.0)), "wall", "because")])
        assert found is not None
        return found

    assert whole(1.04, 1.0).kept
    assert whole(1.04, 1.03).over == ()
    assert not whole(1.04, 1.03).kept
    assert whole(1.06, 0.9).over == ("f0",)
    assert not whole(1.06, 0.9).kept
    assert math.isclose(whole(4.0, 0.25).mean, 1.0)
    assert rule.summary([]) is None


def test_turns_are_medians_by_both_clocks() -> None:
    assert rule.seconds_of_turns([(3.0, 1.0), (1.0, 9.0), (2.0, 2.0)]) == {"wall": 2.0, "processor": 2.0}


def test_a_table_says_of_each_whether_it_is_kept() -> None:
    made = [
        rule.verdict("slow", rounds((1.2, 1.0)), "wall"),
        rule.verdict("other", rounds((1.2, 1.0)), "wall", "known"),
    ]
    lines = rule.markdown(made, "wall").splitlines()
    assert lines[0] == "| work | old | new | wall | control | processor | control | bound | kept |"
    assert lines[2] == "| slow | 1.00 ms | 1.20 ms | 1.200 | 1.000 | 1.200 | 1.000 | 1.05 | NO |"
    assert lines[3].endswith("|  | aside: known |")
    assert lines[5].startswith("Geometric mean 1.200 (at most 1.02; control 1.000). Over their bound: slow.")


def test_rounds_are_kept_and_belong_to_two_programs(tmp_path: Path) -> None:
    path = tmp_path / "rounds.json"
    kept = Rounds("a", "b", path)
    kept.add({"x": rounds((1.0, 1.0))[0], "x, load to first step": rounds((2.0, 1.0))[0]})
    again = Rounds("a", "b", path)
    assert again.count("x") == 1
    assert again.count("y") == 0
    assert again.figures == kept.figures == json.loads(path.read_text())["figures"]
    with pytest.raises(SystemExit, match="other programs"):
        Rounds("a", "c", path)


def test_names_are_listed_and_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "while", "import", "--cores", "1"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert {"while_of_1000_iterations, 1 core", "import"} <= set(listed)
    assert all("while" in name or "import" in name for name in listed)
    work = Steps(WORKLOADS["queue_pass"](), 2)
    assert chosen([work], []) == chosen([work], ["queue", "x"]) == [work]
    assert chosen([work], ["x"]) == []
    with pytest.raises(SystemExit):
        main(["--only", "no such figure", "old", "new"])
    with pytest.raises(SystemExit):
        main(["--only", "import"])


@pytest.mark.slow
def test_a_copied_folder_is_what_its_processes_import(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "flowengine", source / "flowengine", symlinks=True)
    for part in ("kernels", "transport"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part)
    (source / ".venvs").mkdir()
    with tree(str(source), tmp_path, "old") as made:
        assert made.digest == digest_of(ROOT)
        assert not (made.folder / ".venvs").exists()
        made.check([str(made.folder / "flowengine" / "ir" / "__init__.py")])
        with pytest.raises(WrongTree, match="was imported"):
            made.check([str(source / "flowengine" / "__init__.py")])
    elsewhere = Tree("empty", tmp_path / "nowhere", "0")
    elsewhere.folder.mkdir()
    with pytest.raises(WrongTree):
        elsewhere.check_import()


def test_a_round_measures_every_side_by_both_clocks() -> None:
    here = Tree("here", ROOT, "0")
    subject = Processes("start", lambda folder: ["true"])
    found = one_round(subject, 4, dict.fromkeys(rule.SIDES, here))
    assert set(found) == {"start"}
    assert set(found["start"]) == set(rule.SIDES)
    for seconds in found["start"].values():
        assert seconds["wall"] > 0
        assert seconds["processor"] >= 0


@pytest.mark.slow
def test_steps_are_measured_in_processes_of_the_tree() -> None:
    here = Tree("here", ROOT, "0")
    found = one_round(Steps(WORKLOADS["one_op_run"](), 1, True), 0, dict.fromkeys(rule.SIDES, here))
    assert set(found) == {"one_op_run, 1 core", "one_op_run, 1 core, load to first step"}
    assert all(seconds["wall"] > 0 for sides in found.values() for seconds in sides.values())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_is_told_to_end_cleans_up_first(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleaned: list[bool] = []

    def compare() -> None:
        with ExitStack() as stack:
            stack.enter_context(ended_by_signals())
            stack.callback(cleaned.append, True)
            os.kill(os.getpid(), number)

    with pytest.raises(SystemExit) as ended:
        compare()
    assert ended.value.code == 128 + number
    assert cleaned
    assert signal.getsignal(number) is before
