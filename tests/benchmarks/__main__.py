"""Run the benchmarks: `make bench`, or `python -m tests.benchmarks [--tensorflow PYTHON] [NAME...]`.

With a Python that has TensorFlow (option, or `FLOWENGINE_TENSORFLOW_PYTHON`) both engines run the same
GraphDef in processes of their own, in turns, and what is printed is the ratio of the medians: ours to
TensorFlow's. Without it the times are absolute, which on a shared machine say little; they are marked so.
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
from statistics import median
from typing import Any

from tests.benchmarks import planning, report, startup
from tests.benchmarks.engines import Engine
from tests.benchmarks.workloads import WORKLOADS, Workload, lanes, zoo


def workloads(wanted: Sequence[str]) -> Iterator[Workload]:
    """All workloads whose name contains one of the words; all but the long ones if there are none."""
    for name, make in WORKLOADS.items():
        if not wanted or any(word in name for word in wanted):
            yield make()
    if not wanted or any(word in "lanes" for word in wanted):
        big = lanes()
        if big is not None:
            yield big
    for case in zoo():
        if any(word in case.name for word in wanted):
            yield case


def compare(work: Workload, engines: Sequence[Engine], rounds: int) -> dict[str, Any]:
    """Median seconds of each engine for loading, the first step and later steps."""
    result: dict[str, Any] = {"name": work.name, "limit": work.limit, "budget": work.budget}
    times: list[list[float]] = [[] for _ in engines]
    for number, engine in enumerate(engines):
        with tempfile.TemporaryDirectory() as folder:
            work.write(Path(folder))
            once = engine.ask(what="load", folder=folder)
            if "error" in once:
                return {**result, "error": f"{engine.name}: {once['error']}"}
            result.setdefault("load", []).append(once["load"])
            result.setdefault("first", []).append(once["first"])
            engine.ask(what="time", repeats=min(work.repeats, 3))
            if len(engines) == 1:
                times[number] += engine.ask(what="time", repeats=rounds * work.repeats)
    if len(engines) > 1:
        for _ in range(rounds):
            for number, engine in enumerate(engines):
                times[number] += engine.ask(what="time", repeats=work.repeats)
    result["step"] = [median(column) for column in times]
    return result


def in_words(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def line(result: dict[str, Any], part: str = "step") -> str:
    """One row of the table."""
    if "error" in result:
        return f"{result['name']:<38} failed in {result['error']:.160}"
    seconds = result[part]
    text = f"{result['name'] + ('' if part == 'step' else ' ' + part):<38}{in_words(seconds[0]):>11}"
    if len(seconds) == 1:
        return text + "   (absolute)"
    ratio = seconds[0] / seconds[1]
    if result.get("is_mean"):
        text = f"{result['name']:<60}{ratio:>9.3f}"
    else:
        text += f"{in_words(seconds[1]):>11}{ratio:>9.3f}"
    if part == "step":
        for name in ("limit", "budget"):
            bound = result[name]
            text += f"{'-' if bound is None else f'{bound:.3f}':>9}"
        if result["limit"] is not None and ratio > result["limit"]:
            text += "  over the limit"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names; `zoo` for the whole graphs")
    parser.add_argument(
        "--tensorflow",
        metavar="PYTHON",
        default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"),
        help="a Python that has TensorFlow",
    )
    parser.add_argument("--rounds", type=int, default=15, help="how often each engine has its turn")
    parser.add_argument("--json", metavar="FILE", help="write the seconds there")
    parser.add_argument("--markdown", metavar="FILE", help="write a table there")
    parser.add_argument(
        "--explain", action="store_true", help="print what each is expected to cost, and stop"
    )
    options = parser.parse_args()
    chosen = list(workloads(options.names))
    if options.explain:
        for work in chosen:
            print(f"{work.name}: {work.expectation}")
        return 0
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine.flowengine())]
        if options.tensorflow:
            engines.append(stack.enter_context(Engine.tensorflow(options.tensorflow)))
        print(f"{'':<38}" + "".join(f"{engine.name[:10]:>11}" for engine in engines), end="")
        print(f"{'ratio':>9}{'limit':>9}{'budget':>9}" if len(engines) > 1 else "")
        for work in chosen:
            result = compare(work, engines, options.rounds)
            results.append(result)
            parts = ("step", "load", "first") if work.name == "lanes" else ("step",)
            for part in parts:
                print(line(result, part), flush=True)
    results += derived_results(results)
    results += startup_results(options.names, options.tensorflow, options.rounds)
    if options.markdown:
        names = [engine.name for engine in engines]
        Path(options.markdown).write_text(report.markdown(results, names), encoding="utf-8")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


def derived_results(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines that are made of others: load and first step together, the mean over the whole graphs."""
    derived = []
    for result in results:
        if result["name"] == "lanes" and "load" in result:
            seconds = [a + b for a, b in zip(result["load"], result["first"], strict=True)]
            derived.append(
                {"name": "lanes, load to first step", "step": seconds, "limit": 1 / 5, "budget": 1 / 5}
            )
    mean = report.geometric_mean(results)
    if mean is not None:
        derived.append(mean)
    for result in derived:
        print(line(result))
    return derived


def startup_results(names: Sequence[str], tensorflow: str | None, rounds: int) -> list[dict[str, Any]]:
    results = []
    if not names or any(word in "planning" for word in names):
        large, small = planning.flatness()
        results.append(
            {
                "name": "planning a node, of 100,000 to 1,000",
                "step": [large, small],
                "limit": planning.LIMIT,
                "budget": planning.LIMIT,
            }
        )
        print(line(results[-1]))
    if not names or any(word in "import" for word in names):
        ours, numpys = startup.import_ratio(rounds)
        results.append({"name": "import, to NumPy's", "step": [ours, numpys], "limit": 1.3, "budget": 1.3})
        print(line(results[-1]))
    if not names or any(word in "command_line" for word in names):
        with tempfile.TemporaryDirectory() as folder:
            commands = startup.command_line_commands(Path(folder), tensorflow)
            seconds = startup.interleaved(commands, max(3, rounds // 3))
        results.append({"name": "command_line", "step": seconds, "limit": 1 / 5, "budget": 1 / 5})
        print(line(results[-1]))
    return results


if __name__ == "__main__":
    sys.exit(main())
