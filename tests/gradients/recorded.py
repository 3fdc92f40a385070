"""Plays the recorded gradient requests, and compares what passes with a floor that only rises.

    python -m tests.gradients.recorded          play all in all ways, then raise the floor to what passes now

A request is played in three ways: on the graph that was recorded, at once; written and read again once it is
extended; and with every node of the recorded graph renamed before. The cases lie outside of this repository,
in the folder that `FLOWENGINE_SHARED` names, with the program that judges them and an adapter of this
package. `exceptions.json` says of each case that fails why it does.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.effort import share

HERE: Final = Path(__file__).resolve().parent
FLOOR: Final = HERE / "floor.json"
EXCEPTIONS: Final = HERE / "exceptions.json"
WAYS: Final = ("at once", "read again", "renamed")
#: Where all expected values are smaller, a gradient of zeros would pass.
_NEAR_ZERO: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case that was played in some ways.

    why           empty where it passed in all of them
    has_numbers   whether an expected value is not near zero
    """

    id: str
    family: str
    needs: tuple[str, ...]
    why: str
    has_numbers: bool


def program(shared: Path) -> Any:
    """The module that reads cases and judges results."""
    folder = str(shared / "gradients")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("replay_gradients")


def addresses(shared: Path) -> list[tuple[str, str | None]]:
    """Return the addresses of the cases."""
    found: list[tuple[str, str | None]] = list(
        program(shared).iter_cases([str(shared / "gradients" / "open")])
    )
    return found


class RenamingAdapter:
    """The adapter of this package, for graphs of which every node gets a name that says nothing."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.names: dict[str, str] = {}

    def gradients(self, graph: bytes, case: Mapping[str, Any]) -> Any:
        from flowengine.ir.graphdef import parse_graph_def

        message = parse_graph_def(graph)
        self.names = {node.name: f"n{place}/of" for place, node in enumerate(message.node)}
        for node in message.node:
            node.name = self.names[node.name]
            node.input[:] = [self._renamed(name) for name in node.input]
            if "_class" in node.attr:
                places = node.attr["_class"].list
                places.s[:] = [self._place(name) for name in places.s]
        wanted = dict(case)
        for key in ("ys", "xs", "grad_ys", "stop_gradients"):
            if case[key] is not None:
                wanted[key] = [name if name is None else self._renamed(name) for name in case[key]]
        return self.adapter.gradients(message.SerializeToString(), wanted)

    def evaluate(self, graph: Any, results: Any, runs: Sequence[Any]) -> Any:
        for run in runs:
            run.feeds = {self._renamed(name): value for name, value in run.feeds.items()}
            run.feed_tags = {self._renamed(name): tag for name, tag in run.feed_tags.items()}
            for each in run.setup:
                each.feed, each.target = self._renamed(each.feed), self._renamed(each.target)
        return self.adapter.evaluate(graph, results, runs)

    def _renamed(self, name: str) -> str:
        mark, node, slot = re.fullmatch(r"(\^?)([^:]*)((?::\d+)?)", name).groups()  # type: ignore[union-attr]
        return mark + self.names.get(node, node) + slot

    def _place(self, name: bytes) -> bytes:
        prefix, _, node = name.partition(b"loc:@")
        return name if prefix else b"loc:@" + self.names.get(node.decode(), node.decode()).encode()


def play(shared: Path, address: tuple[str, str | None], ways: Sequence[str]) -> Outcome:
    """One case; the reason of the first way in which it fails."""
    judge = program(shared)
    adapter = importlib.import_module("adapter_flowengine")
    case = judge.Case(judge.read_case(address))
    why = ""
    for way in ways:
        user = RenamingAdapter(adapter) if way == "renamed" else adapter
        options = {"any_kind": False, "round_trip": way == "read again"}
        try:
            result = judge.play_one(user, address, options)
        except Exception as error:
            result = {"status": "error", "why": f"{type(error).__name__}: {error}"}
        if result["status"] != "pass":
            why = f"{way}: {result['why']}"[:300]
            break
    meta = case.meta
    return Outcome(meta["id"], meta["family"], tuple(meta["needs"]), why, _has_numbers(case))


def _has_numbers(case: Any) -> bool:
    import numpy as np

    for run in case.meta.get("runs", ()):
        for each in run["expect"]:
            if each is not None:
                value, tag = case.value(each["value"] if "value" in each else each["values"])
                if value.size and np.nanmax(np.abs(wide(value, tag)), initial=0.0) > _NEAR_ZERO:
                    return True
    return False


def wide(value: Any, tag: str | None) -> Any:
    judge = importlib.import_module("replay_gradients")
    return judge.wide(value, tag)


def _play_many(shared: Path, work: Sequence[tuple[tuple[str, str | None], Sequence[str]]]) -> list[Outcome]:
    return [play(shared, address, ways) for address, ways in work]


def play_all(shared: Path, one_in: int = 1) -> list[Outcome]:
    """Play every case at once, and one in `one_in` in the other ways, too, on all processors."""
    found = addresses(shared)
    changed = set(share(found, one_in))
    work = [(address, WAYS if address in changed else WAYS[:1]) for address in found]
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Dealt out one by one: the costly families lie side by side.
    piles = [work[start :: jobs * 8] for start in range(jobs * 8)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [pool.submit(_play_many, shared, pile) for pile in piles if pile]
        outcomes = [outcome for future in futures for outcome in future.result()]
    return sorted(outcomes, key=lambda outcome: outcome.id)


def tally(outcomes: Sequence[Outcome]) -> tuple[Counter[str], Counter[str]]:
    """(how many cases, how many that pass) by family, by need, in all, and of those with numbers."""
    cases: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for outcome in outcomes:
        groups = [f"family {outcome.family}", *(f"need {need}" for need in outcome.needs), "all"]
        groups += ["with numbers"] * outcome.has_numbers
        cases.update(groups)
        if not outcome.why:
            passed.update(groups)
    return cases, passed


def table(outcomes: Sequence[Outcome]) -> str:
    cases, passed = tally(outcomes)
    lines = [
        f"{name:26} {cases[name]:5} {passed[name]:5} {100 * passed[name] / cases[name]:6.1f}%"
        for name in sorted(cases)
    ]
    return "\n".join([*lines, *(f"{each.id}: {each.why}" for each in outcomes if each.why)])


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    """Play all, and raise the floor; refuse where something has fallen."""
    named = os.environ.get("FLOWENGINE_SHARED")
    shared = Path(named) if named else HERE.parents[2] / "shared"
    outcomes = play_all(shared)
    if not outcomes:
        print(f"there are no cases in {shared}: set FLOWENGINE_SHARED", file=sys.stderr)
        return 2
    print(table(outcomes))
    _, passed = tally(outcomes)
    fallen = (
        {name: least for name, least in read(FLOOR).items() if passed[name] < least} if FLOOR.exists() else {}
    )
    if fallen:
        print(f"not written: these have fallen below their floors: {fallen}", file=sys.stderr)
        return 1
    FLOOR.write_text(json.dumps(dict(sorted(passed.items())), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
