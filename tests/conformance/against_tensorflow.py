"""Every op with a record, run here and in TensorFlow: which give other values, or fail otherwise.

    python -m tests.conformance.against_tensorflow --python PYTHON-WITH-TENSORFLOW [--ops PATTERN]

`--python` may stand several times: a case is right that one of them agrees with. Cases that no TensorFlow
has a kernel for, and those that end its process, count for nothing. The exit status is 1 where an op differs.
"""

from __future__ import annotations

import argparse
import base64
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import trio

import flowengine as fe
from tests.conformance.node_cases import NodeCase, cases, differs
from tests.oprecords.found import RECORDS
from tests.oprecords.record import plain

PLAYER: Final = Path(__file__).with_name("tensorflow_nodes.py")
#: Seconds without an answer after which TensorFlow is taken to hang.
PATIENCE: Final = 60.0
#: What TensorFlow says where it has no kernel for these types, or no such op: nothing to compare with.
_NOTHING: Final = (
    "No OpKernel was registered",
    "Op type not registered",
    "not in list of allowed values",
    "not in the list of allowed values",
    "Cannot assign a device for operation",
)


@dataclass(frozen=True)
class Outcome:
    """What a case came to: values, or an error's class.

    error   "" where there are values; "nothing" where there is nothing to compare with
    """

    values: tuple[Any, ...] = ()
    error: str = ""
    message: str = ""


@dataclass
class Report:
    """What was found of one op: how many cases were compared, and in which words each differs."""

    op: str
    compared: int = 0
    differences: list[str] = field(default_factory=list)


async def _ours(case: NodeCase) -> Outcome:
    if case.graph is None:
        return Outcome(error=case.refusal)
    try:
        graph = fe.Graph.from_graph_def(case.graph)
        async with fe.Session(graph) as session:
            if case.setup:
                await session.run([], targets=list(case.setup))
            values = list(await session.run(list(case.fetches), targets=list(case.targets)))
            if case.variables:
                values += await session.run(list(case.variables))
    except Exception as error:  # of any class, as what is no error of an op is a difference
        return Outcome(error=type(error).__name__, message=str(error)[:200])
    return Outcome(tuple(map(plain, values)))


def read_value(said: Mapping[str, Any], folder: Path) -> Any:
    """A value as the player stored it."""
    if "bytes" in said:
        strings = np.empty(len(said["bytes"]), object)
        strings[:] = [base64.b64decode(text) for text in said["bytes"]]
        return strings.reshape(said["shape"])
    array = np.load(folder / said["npy"])
    return array.astype(ml_dtypes.bfloat16) if said["dtype"] == "bfloat16" else array


def outcome(answer: Mapping[str, Any], folder: Path) -> Outcome:
    """What an answer of the player says; a graph that TensorFlow does not import is an invalid argument."""
    if "values" in answer:
        return Outcome(tuple(read_value(value, folder) for value in answer["values"]))
    message = answer["message"]
    if answer["error"] in ("player", "gone") or any(words in message for words in _NOTHING):
        return Outcome(error="nothing", message=message)
    is_refused = answer["error"] in ("import", "ValueError", "TypeError")
    return Outcome(error="InvalidArgumentError" if is_refused else answer["error"], message=message)


def play(python: str, folder: Path, count: int) -> list[dict[str, Any]]:
    """The answers of the TensorFlow of one Python; a case that ended or held up its process is "gone"."""
    path = folder / "answers.jsonl"
    path.write_text("", encoding="utf-8")
    found: dict[int, dict[str, Any]] = {}
    first = 0
    while first < count:
        with (folder / "player.log").open("wb") as log:
            player = subprocess.Popen([python, str(PLAYER), str(folder), str(first)], stdout=log, stderr=log)
            _wait(player, path)
        for line in path.read_text(encoding="utf-8").splitlines():
            answer = json.loads(line)
            found[answer["case"]] = answer
        reached = max(found, default=-1) + 1
        if reached < count:
            if reached == first == 0 and not found:
                _check_starts(player, folder)
            found[reached] = {"error": "gone", "message": "TensorFlow ended", "case": reached}
        first = reached + 1
    return [found[number] for number in range(count)]


def _check_starts(player: subprocess.Popen[bytes], folder: Path) -> None:
    """Tell apart a first case that ends TensorFlow from a Python that has none."""
    log = (folder / "player.log").read_text(encoding="utf-8", errors="replace")
    if player.returncode == 1:
        raise SystemExit(f"TensorFlow does not start:\n{log[-2000:]}")


def _wait(player: subprocess.Popen[bytes], path: Path) -> None:
    """Until the player ends, or says nothing more for too long."""
    said, since = 0, time.monotonic()
    while player.poll() is None:
        size = path.stat().st_size
        if size != said:
            said, since = size, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            player.kill()
        time.sleep(0.05)


def difference(case: NodeCase, ours: Outcome, theirs: Sequence[Outcome]) -> str | None:
    """How we differ from each of them; empty where one agrees, None where there is nothing to compare."""
    known = [each for each in theirs if each.error != "nothing"]
    if not known:
        return None
    said = []
    for each in known:
        words = _difference(case, ours, each)
        if not words:
            return ""
        said.append(words)
    return said[0]


def _difference(case: NodeCase, ours: Outcome, theirs: Outcome) -> str:
    if ours.error or theirs.error:
        if ours.error == theirs.error:
            return ""
        return f"{_named(ours)}, not {_named(theirs)}"
    if len(ours.values) != len(theirs.values):
        return f"{len(ours.values)} values, not {len(theirs.values)}"
    for i, (got, want) in enumerate(zip(ours.values, theirs.values, strict=True)):
        words = differs(got, want, case.tolerance, case.drawn)
        if words:
            return f"output {i}: {words}"
    return ""


def _named(outcome: Outcome) -> str:
    """A value, or an error with the end of what it says."""
    lines = [line.strip() for line in outcome.message.splitlines() if line.strip()]
    return f"{outcome.error} ({lines[-1][-100:] if lines else ''})" if outcome.error else "a value"


async def compare(chosen: Sequence[NodeCase], pythons: Iterable[str], folder: Path) -> list[Report]:
    """Run all cases here and there; a report for each op, in order."""
    sent = [case for case in chosen if case.graph is not None]
    for number, case in enumerate(sent):
        assert case.graph is not None
        (folder / f"graph{number}.pb").write_bytes(case.graph)
    told = [case.told(f"graph{number}.pb") for number, case in enumerate(sent)]
    (folder / "cases.json").write_text(json.dumps(told), encoding="utf-8")
    answers = []
    for python in pythons:
        played = await trio.to_thread.run_sync(play, python, folder, len(sent))
        answers.append([outcome(answer, folder) for answer in played])
    reports: dict[str, Report] = {}
    number = 0
    for case in chosen:
        report = reports.setdefault(case.op, Report(case.op))
        if case.graph is None:
            continue
        theirs = [each[number] for each in answers]
        number += 1
        words = difference(case, await _ours(case), theirs)
        if words is not None:
            report.compared += 1
            if words:
                report.differences.append(f"{case.why.strip()}: {words}")
    return list(reports.values())


def table(reports: Sequence[Report]) -> str:
    """The ops that differ with why, and the share of those that do not."""
    compared = [report for report in reports if report.compared]
    wrong = [report for report in compared if report.differences]
    lines = []
    for report in wrong:
        lines.append(f"{report.op}: {len(report.differences)} of {report.compared} cases differ")
        lines += [f"    {words}" for words in report.differences]
    silent = [report.op for report in reports if not report.compared]
    if silent:
        lines.append(f"nothing to compare with: {' '.join(silent)}")
    cases_compared = sum(report.compared for report in compared)
    differing = sum(len(report.differences) for report in compared)
    share = 100.0 * (len(compared) - len(wrong)) / max(len(compared), 1)
    lines.append(
        f"{len(compared) - len(wrong)} of {len(compared)} ops agree ({share:.1f}%), "
        f"{cases_compared - differing} of {cases_compared} cases"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", required=True, help="a Python that has TensorFlow")
    parser.add_argument("--ops", default="*", help="a pattern of names, as the shell has them")
    given = parser.parse_args(arguments)
    records = [record for record in RECORDS if fnmatch.fnmatchcase(record.op, given.ops)]
    if not records:
        parser.error(f"no record is of an op like {given.ops!r}")
    chosen = [case for record in records for case in cases(record)]
    with tempfile.TemporaryDirectory() as name:
        reports = trio.run(compare, chosen, given.python, Path(name))
    print(table(reports))
    return 1 if any(report.differences for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
