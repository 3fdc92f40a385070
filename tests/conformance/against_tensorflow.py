"""Every op with a record, run here and in TensorFlow: which give other values, or fail otherwise.

    python -m tests.conformance.against_tensorflow --python PYTHON-WITH-TENSORFLOW
        [--ops PATTERN,...] [--results FILE]

`--python` may stand several times: a case is right that one of them agrees with. Settings of the environment
may stand before it: `--python "TF_ENABLE_ONEDNN_OPTS=1 PYTHON"` has kernels that are not there without. Cases
that no TensorFlow has a kernel for, and those that end its process, count for nothing; those of
`unlike_tensorflow` differ for a reason. With `--results` a run goes on where an earlier one was ended. The
exit status is 1 where an op differs.
"""

from __future__ import annotations

import argparse
import base64
import fnmatch
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import trio

import flowengine as fe
from tests.conformance.free_choices import settled
from tests.conformance.node_cases import NodeCase, cases, differs
from tests.conformance.unlike_tensorflow import UNLIKE, reason
from tests.oprecords.found import RECORDS
from tests.oprecords.record import OpRecord, plain

PLAYER: Final = Path(__file__).with_name("tensorflow_nodes.py")
#: Seconds without an answer after which TensorFlow is taken to hang.
PATIENCE: Final = 60.0
#: Ops whose cases are played by one process; more cost less time, and are lost together if a run is ended.
TOGETHER: Final = 24
#: Seconds that a node may take here: one that takes longer hangs.
LIMIT: Final = 30.0
#: Lines of an error's text that say nothing of its cause.
_NO_WORDS: Final = ("Graph execution error:", "Detected at node", "Original stack trace")
#: What TensorFlow says where it has no kernel for these types, or no such op: nothing to compare with.
_NOTHING: Final = (
    "No OpKernel was registered",
    "Op type not registered",
    "not in list of allowed values",
    "not in the list of allowed values",
    "Cannot assign a device for operation",
    # Layers that are oneDNN's are empty kernels where that is off.
    "Missing 0-th output",
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: values, or an error's class.

    error   "" where there are values; "nothing" where there is nothing to compare with
    """

    values: tuple[Any, ...] = ()
    error: str = ""
    message: str = ""


@dataclass
class Report:
    """The findings for one op: how many cases were compared, and a sentence for each difference.

    excepted    cases that differ with a reason (`unlike_tensorflow`)
    """

    op: str
    compared: int = 0
    excepted: int = 0
    differences: list[str] = field(default_factory=list)


async def _run(graph: fe.Graph, case: NodeCase) -> list[Any]:
    async with fe.Session(graph) as session:
        if case.setup:
            await session.run([], targets=list(case.setup))
        values = list(await session.run(list(case.fetches), targets=list(case.targets)))
        if case.variables:
            values += await session.run(list(case.variables))
    return values


async def _ours(case: NodeCase) -> Outcome:
    if case.graph is None:
        return Outcome(error=case.refusal)
    try:
        graph = fe.Graph.from_graph_def(case.graph)
        with trio.fail_after(LIMIT):
            values = await _run(graph, case)
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
    """Return the outcome of an answer; a graph that TensorFlow cannot import is an invalid argument."""
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
        *settings, program = shlex.split(python)
        asked = ["env", *settings, program, str(PLAYER), str(folder), str(first)]
        with (folder / "player.log").open("wb") as log:
            player = subprocess.Popen(asked, stdout=log, stderr=log)
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
    """How we differ from them, in words for which there is a reason where any are.

    Empty where one of them agrees, None where there is nothing to compare.
    """
    known = [each for each in theirs if each.error != "nothing"]
    if not known:
        return None
    said = []
    for each in known:
        words = _difference(case, ours, each)
        if not words:
            return ""
        said.append(words)
    return next((words for words in said if reason(case.op, case.why.strip(), words)), said[0])


def _difference(case: NodeCase, ours: Outcome, theirs: Outcome) -> str:
    if ours.error or theirs.error:
        if ours.error == theirs.error:
            return ""
        return f"{_named(ours)}, not {_named(theirs)}"
    if len(ours.values) != len(theirs.values):
        return f"{len(ours.values)} values, not {len(theirs.values)}"
    for i, (got, want) in enumerate(zip(*_comparable(case.op, ours, theirs), strict=True)):
        words = differs(got, want, case.tolerance, case.drawn)
        if words:
            return f"output {i}: {words}"
    return ""


def _comparable(op: str, ours: Outcome, theirs: Outcome) -> tuple[Sequence[Any], Sequence[Any]]:
    """The values, without what the op's definition leaves open; shapes and types come first."""
    pairs = zip(ours.values, theirs.values, strict=True)
    if all(np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs):
        return settled(op, ours.values), settled(op, theirs.values)
    return ours.values, theirs.values


def _named(outcome: Outcome) -> str:
    """A value, or an error with the beginning of what it says."""
    lines = [line.strip() for line in outcome.message.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_NO_WORDS)] or lines
    return f"{outcome.error} ({lines[0][:140] if lines else ''})" if outcome.error else "a value"


async def compare(chosen: Sequence[NodeCase], pythons: Sequence[str], folder: Path) -> list[Report]:
    """Run all cases here and there, the TensorFlows at the same time; a report for each op, in order."""
    sent = [case for case in chosen if case.graph is not None]
    for number, case in enumerate(sent):
        assert case.graph is not None
        (folder / f"graph{number}.pb").write_bytes(case.graph)
    told = [case.told(f"graph{number}.pb") for number, case in enumerate(sent)]
    answers: dict[int, list[Outcome]] = {}

    async def ask(place: int) -> None:
        own = folder / f"asked{place}"
        own.mkdir()
        (own / "cases.json").write_text(json.dumps(told), encoding="utf-8")
        played = await trio.to_thread.run_sync(play, pythons[place], own, len(sent))
        answers[place] = [outcome(answer, own) for answer in played]

    async with trio.open_nursery() as nursery:
        for place in range(len(pythons)):
            nursery.start_soon(ask, place)
    reports: dict[str, Report] = {}
    number = 0
    for case in chosen:
        report = reports.setdefault(case.op, Report(case.op))
        if case.graph is None:
            continue
        theirs = [answers[place][number] for place in range(len(pythons))]
        number += 1
        words = difference(case, await _ours(case), theirs)
        if words is not None:
            _count(report, case, words)
    return list(reports.values())


def _count(report: Report, case: NodeCase, words: str) -> None:
    report.compared += 1
    if words and reason(case.op, case.why.strip(), words):
        report.excepted += 1
    elif words:
        report.differences.append(f"{case.why.strip()}: {words}")


def compare_anew(records: Sequence[OpRecord], pythons: Sequence[str], results: Path | None) -> list[Report]:
    """The reports of all records; those that the file of results holds are taken from there.

    The file gets a line for each op as soon as it is done, so that a run that was ended can be gone on with.
    """
    done = {} if results is None else read_results(results)
    todo = [record for record in records if record.op not in done]
    for start in range(0, len(todo), TOGETHER):
        chosen = [case for record in todo[start : start + TOGETHER] for case in cases(record)]
        with tempfile.TemporaryDirectory() as name:
            reports = trio.run(compare, chosen, pythons, Path(name))
        done |= {report.op: report for report in reports}
        if results is not None:
            with results.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(asdict(report)) + "\n" for report in reports)
    return [done[record.op] for record in records]


def read_results(path: Path) -> dict[str, Report]:
    """Return the reports in a file of results, by op; an empty dict if the file does not exist yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    reports = [Report(**json.loads(line)) for line in lines]
    return {report.op: report for report in reports}


def table(reports: Sequence[Report]) -> str:
    """The ops that differ with why, and the share of those that do not."""
    compared = [report for report in reports if report.compared > report.excepted]
    wrong = [report for report in compared if report.differences]
    lines = []
    for report in wrong:
        lines.append(f"{report.op}: {len(report.differences)} of {report.compared} cases differ")
        lines += [f"    {words}" for words in report.differences]
    silent = [report.op for report in reports if report.compared <= report.excepted]
    aside = [report for report in compared if report.excepted]
    for report in aside:
        reasons = dict.fromkeys(each.reason for each in UNLIKE[report.op])
        lines.append(f"{report.op}: {report.excepted} of {report.compared} cases aside: {'; '.join(reasons)}")
    if silent:
        lines.append(f"nothing to compare with: {' '.join(silent)}")
    cases_compared = sum(report.compared - report.excepted for report in compared)
    differing = sum(len(report.differences) for report in compared)
    share = 100.0 * (len(compared) - len(wrong)) / max(len(compared), 1)
    lines.append(
        f"{len(compared) - len(wrong)} of {len(compared)} ops agree ({share:.1f}%), "
        f"{cases_compared - differing} of {cases_compared} cases; {len(aside)} of the ops have "
        f"{sum(report.excepted for report in aside)} cases aside that differ for a reason"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", required=True, help="a Python that has TensorFlow")
    parser.add_argument("--ops", default="*", help="patterns of names as the shell has them, with commas")
    parser.add_argument("--results", type=Path, help="a file that gets each op's result, to go on from")
    given = parser.parse_args(arguments)
    wanted = given.ops.split(",")
    records = [record for record in RECORDS if any(fnmatch.fnmatchcase(record.op, each) for each in wanted)]
    if not records:
        parser.error(f"no record is of an op like {given.ops!r}")
    reports = compare_anew(records, given.python, given.results)
    print(table(reports))
    return 1 if any(report.differences for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
