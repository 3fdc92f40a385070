"""Is NEW as fast as OLD? `python -m tests.benchmarks.against OLD NEW`, each a commit or a folder.

A round is fresh processes of OLD, of NEW and of OLD again, the control, held to one core or two, that take
turns. A figure is the median of the rounds' ratios; `rule.py` says what is asked of it. Wall time and
processor time are both measured; `--clock` says which is judged: on a machine that others use only processor
time can be.

With `--rounds-file` every round is kept, and what the file holds of the same two programs is not measured
again: a comparison that was stopped goes on, more rounds are added, or the table is printed again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import networks
from tests.benchmarks.against import rule
from tests.benchmarks.against.subjects import (
    START,
    NullSteps,
    Planning,
    Seconds,
    Steps,
    Subject,
    command_line,
    importing,
)
from tests.benchmarks.against.trees import Tree, WrongTree, ended_by_signals, tree
from tests.benchmarks.make_networks import NETWORKS
from tests.benchmarks.workloads import WORKLOADS, lanes, shared_folder, zoo

#: Workloads of a few small nodes, on one core.
SMALL: Final = (
    "one_op_run",
    "one_op_callable",
    "chain_of_1000_ops",
    "chain_of_1000_tanh",
    "chain_of_scalar_adds",
    "while_of_1000_iterations",
    "nested_while_of_100_times_100",
    "thousand_parallel_ops",
    "queue_pass",
    "perceptron_training_step",
)
#: Figures that are printed and not judged, and why.
ASIDE: Final = {
    "chain_of_1000_tanh, 1 core": "held to TensorFlow's unfused chain, at most 1.0 of its time",
}
ROUNDS: Final = 9


def subjects(networks_folder: Path | None, maker: str | None, cores: Sequence[int]) -> Iterator[Subject]:
    """All of them; those of cores that are not asked for are left out."""
    for name in SMALL:
        if 1 in cores:
            yield Steps(WORKLOADS[name](), 1)
    if 1 in cores:
        yield from (Planning(), importing(), command_line())
        big = lanes()
        if big is not None:
            yield Steps(big, 1, with_start=True)
    cases = list(zoo())
    for count in cores:
        yield from (Steps(case, count) for case in cases)
    if networks_folder is not None:
        works = networks.graphs(networks_folder, list(NETWORKS), maker)
        for count in cores:
            yield from (Steps(work, count) for work in works)
    if 2 in cores:
        yield from (NullSteps(name) for name in ("scalar", "dense", "sparse"))


def chosen(found: Sequence[Subject], only: Sequence[str]) -> list[Subject]:
    """Subjects whose name contains one of the words; all if there are none."""
    return [each for each in found if not only or any(word in each.name for word in only)]


class Rounds:
    """{figure: its rounds}, kept in a file after each round if there is one."""

    def __init__(self, old: str, new: str, path: Path | None) -> None:
        self._path = path
        self._head = {"old": old, "new": new}
        self.figures: dict[str, list[dict[str, Any]]] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if {name: kept.get(name) for name in self._head} != self._head:
                raise SystemExit(f"{path} holds rounds of other programs than {old} and {new}")
            self.figures = kept["figures"]

    def count(self, name: str) -> int:
        """How many rounds there are of a subject."""
        return len(self.figures.get(name, ()))

    def add(self, found: dict[str, dict[str, Any]]) -> None:
        """A round of some figures, {figure: {side: {clock: seconds}}}."""
        for name, sides in found.items():
            self.figures.setdefault(name, []).append(sides)
        if self._path is not None:
            text = json.dumps({**self._head, "figures": self.figures}, indent=1)
            partial = self._path.with_name(self._path.name + ".partial")
            partial.write_text(text + "\n", encoding="utf-8")
            partial.replace(self._path)


def one_round(subject: Subject, number: int, sides: dict[str, Tree]) -> dict[str, dict[str, Any]]:
    """Fresh processes of every side, which take turns: what disturbs the machine disturbs all of them.

    Who comes first changes from round to round; strings hash alike within one.
    """
    first = number % len(rule.SIDES)
    order = rule.SIDES[first:] + rule.SIDES[:first]
    settings = {"PYTHONHASHSEED": str(number + 1)}
    measured: dict[str, dict[str, list[Seconds]]] = {}
    with ExitStack() as stack:
        running = {side: stack.enter_context(subject.open(sides[side], settings)) for side in order}
        for side, opened in running.items():
            for name, seconds in opened.start.items():
                measured.setdefault(name, {})[side] = [seconds]
        for _ in range(running[rule.OLD].turns):
            for side, opened in running.items():
                measured.setdefault(subject.name, {}).setdefault(side, []).append(opened.turn())
    return {
        name: {side: rule.seconds_of_turns(turns) for side, turns in found.items()}
        for name, found in measured.items()
    }


def compare(subject: Subject, sides: dict[str, Tree], rounds: Rounds, count: int) -> list[str]:
    """Measure until there are so many rounds; the names of the subject's figures."""
    while rounds.count(subject.name) < count:
        rounds.add(one_round(subject, rounds.count(subject.name), sides))
    return [name for name in rounds.figures if name.partition(START)[0] == subject.name]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.against",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("old", nargs="?", metavar="OLD", help="a commit or a folder")
    made.add_argument("new", nargs="?", metavar="NEW", help="a commit or a folder")
    made.add_argument("--only", nargs="+", default=[], metavar="NAME", help="parts of names of figures")
    made.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each figure (default {ROUNDS})")
    made.add_argument("--cores", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    made.add_argument("--clock", choices=rule.CLOCKS, default="wall", help="which is judged (default wall)")
    made.add_argument("--list", action="store_true", help="print the names and stop")
    made.add_argument("--rounds-file", type=Path, metavar="FILE", help="where all rounds are kept, as JSON")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")
    made.add_argument("--networks", type=Path, metavar="FOLDER", help="full-size networks, see networks.py")
    made.add_argument(
        "--maker",
        default=os.environ.get("FLOWENGINE_TENSORFLOW1_PYTHON"),
        metavar="PYTHON",
        help="a Python that has TensorFlow 1.15, for networks that are not yet in their folder",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each figure as it is known; 0 if the rule is kept."""
    options = parser().parse_args(arguments)
    found = chosen(list(subjects(options.networks, options.maker, options.cores)), options.only)
    if shared_folder() is None:
        print("no whole graphs and no lanes: FLOWENGINE_SHARED names no folder", file=sys.stderr)
    if options.list:
        for subject in found:
            print(subject.name)
        return 0
    if options.old is None or options.new is None:
        parser().error("two commits or folders are needed: OLD NEW")
    if not found:
        parser().error(f"no figure's name contains {' or '.join(options.only)}; --list prints them")
    verdicts: list[rule.Verdict] = []
    failed: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        old = stack.enter_context(tree(options.old, scratch, rule.OLD))
        new = stack.enter_context(tree(options.new, scratch, rule.NEW))
        rounds = Rounds(old.digest, new.digest, options.rounds_file)
        sides = {rule.OLD: old, rule.NEW: new, rule.CONTROL: old}
        print(rule.line(rule.heads(options.clock)))
        for subject in found:
            try:
                names = compare(subject, sides, rounds, options.rounds)
            except WrongTree:
                raise
            except RuntimeError as error:
                failed.append(subject.name)
                print(f"{subject.name:<46} failed: {error}", flush=True)
                continue
            for name in names:
                made = rule.verdict(name, rounds.figures[name], options.clock, ASIDE.get(name, ""))
                verdicts.append(made)
                print(rule.text(made), flush=True)
    if options.markdown is not None:
        options.markdown.write_text(rule.markdown(verdicts, options.clock), encoding="utf-8")
    whole = rule.summary(verdicts)
    if whole is not None:
        print(rule.told(whole))
    return int(bool(failed) or (whole is not None and not whole.kept))


if __name__ == "__main__":
    sys.exit(main())
