"""Replay many recorded cases in worker processes that are killed when they stall.

One bad case costs one case: a worker that does not answer in time, or dies, is replaced and the case is
an error. As a program it prints a table and says what to do about the failures:

    python -m tests.tools.workers [--jobs 2] [--suite math,nn] [--id TEXT] [--json FILE] PATH...
    python -m tests.tools.workers --devices 4 --seed 7 PATH...
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final

from tests.tools.recorded import find_cases, open_case
from tests.tools.replay import RandomPlacement, Result, replay_case

#: Time beyond a case's own limit before its worker is taken for stuck.
_GRACE_SECONDS: Final = 5.0
_START_SECONDS: Final = 120.0
#: What an idle worker is given to clean up after itself.
_END_SECONDS: Final = 2.0


def _serve(connection: Connection, timeout_seconds: float, scattered: RandomPlacement | None) -> None:
    """A worker's life: answer each address with a Result until None comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "wb") as nowhere:  # graphs may hold Print nodes
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    connection.send("ready")
    while (address := connection.recv()) is not None:
        # Some graphs write files with relative names; none finds what another has written.
        with tempfile.TemporaryDirectory(prefix="replay-") as scratch, contextlib.chdir(scratch):
            try:
                connection.send(replay_case(address, timeout_seconds=timeout_seconds, scattered=scattered))
            except Exception as error:
                connection.send(_unplayed(address, f"could not be replayed: {type(error).__name__}: {error}"))


def _unplayed(address: str, why: str) -> Result:
    case = open_case(address)
    return Result(case.id, case.suite, sorted(case.ops), "error", why)


class _Worker:
    """One process and the pipe to it; started when first needed."""

    def __init__(self, timeout_seconds: float, scattered: RandomPlacement | None) -> None:
        self._timeout_seconds = timeout_seconds
        self._scattered = scattered
        self._process: Any = None
        self._connection: Connection | None = None

    def play(self, address: str) -> Result:
        try:
            connection = self._connection or self._start()
            connection.send(os.path.abspath(address))
            if connection.poll(self._timeout_seconds + _GRACE_SECONDS):
                result: Result = connection.recv()
                return result
            self.stop()
            return _unplayed(address, "stalled; its process was killed")
        except (EOFError, OSError):
            code = None if self._process is None else self._process.exitcode
            self.stop()
            return _unplayed(address, f"the process died (exit code {code})")

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        arguments = (theirs, self._timeout_seconds, self._scattered)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._connection = connection
        if not connection.poll(_START_SECONDS):
            self.stop()
            raise RuntimeError(f"a worker process did not start within {_START_SECONDS:g} s")
        connection.recv()
        return connection

    def stop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(None)
            self._connection.close()
            self._process.join(_END_SECONDS)
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


def replay_all(
    addresses: Iterable[str],
    *,
    jobs: int = 1,
    timeout_seconds: float = 10.0,
    progress: Callable[[Result], None] | None = None,
    scattered: RandomPlacement | None = None,
) -> list[Result]:
    """Replay the cases at these addresses (see `find_cases`) in `jobs` worker processes.

    scattered   play on several devices, else on one

    Returns one Result a case, in the order of the addresses. `progress` is called with each as it
    comes, from the worker's thread. Never raises for what a case does.
    """
    waiting: Iterator[tuple[int, str]] = iter(list(enumerate(addresses)))
    results: dict[int, Result] = {}
    failures: list[BaseException] = []
    lock = threading.Lock()

    def drive() -> None:
        worker = _Worker(timeout_seconds, scattered)
        try:
            while True:
                with lock:
                    index, address = next(waiting, (-1, ""))
                if index < 0 or failures:
                    return
                started = time.perf_counter()
                try:
                    result = worker.play(address)
                except Exception as error:
                    failures.append(error)
                    return
                result = replace(result, address=address, seconds=time.perf_counter() - started)
                results[index] = result
                if progress is not None:
                    progress(result)
        finally:
            worker.stop()

    threads = [threading.Thread(target=drive) for _ in range(max(1, jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[i] for i in sorted(results)]


def summary(results: Sequence[Result]) -> str:
    """A table of results by suite, and the ops whose absence fails most cases."""
    by_suite: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        by_suite[result.suite][result.status] += 1
        by_suite["all"][result.status] += 1
    lines = [f"{'suite':<22}{'cases':>7}{'pass':>7}{'fail':>7}{'error':>7}{'pass %':>8}"]
    for suite, counts in sorted(by_suite.items(), key=lambda item: (item[0] == "all", item[0])):
        total = counts.total()
        lines.append(
            f"{suite:<22}{total:>7}{counts['pass']:>7}{counts['fail']:>7}{counts['error']:>7}"
            f"{100 * counts['pass'] / total:>8.1f}"
        )
    missing = collections.Counter(r.missing_op for r in results if r.missing_op)
    if missing:
        lines.append("missing ops (cases): " + ", ".join(f"{op} {n}" for op, n in missing.most_common(40)))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay what the command line names; returns 0 where every case passes."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.workers", description=__doc__)
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a case, a .tar of cases, or a folder of either"
    )
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--suite", help="only these suites, by comma")
    parser.add_argument("--id", help="only cases whose id contains this")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="for one case")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices, on which nodes are scattered")
    parser.add_argument("--seed", type=int, default=0, help="of the scattering")
    parser.add_argument("--json", metavar="FILE", help="write every result there")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each failure as it comes")
    options = parser.parse_args(arguments)

    addresses = list(find_cases(*options.paths))
    if options.suite or options.id:
        suites = set(options.suite.split(",")) if options.suite else None
        addresses = [a for a in addresses if _selected(a, suites, options.id)]

    def report(result: Result) -> None:
        if options.verbose and result.status != "pass":
            print(f"{result.id}: run {result.run} {result.fetch or ''}: {result.why}", file=sys.stderr)

    results = replay_all(
        addresses,
        jobs=options.jobs,
        timeout_seconds=options.timeout,
        progress=report,
        scattered=RandomPlacement(options.devices, options.seed) if options.devices > 1 else None,
    )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(r) for r in results], file, indent=0)
    print(summary(results))
    return 0 if all(r.status == "pass" for r in results) else 1


def _selected(address: str, suites: set[str] | None, text: str | None) -> bool:
    case = open_case(address)
    return (suites is None or case.suite in suites) and (text is None or text in case.id)


__all__ = ["main", "replay_all", "summary"]

if __name__ == "__main__":
    sys.exit(main())
