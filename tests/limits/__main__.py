"""Measurements of the limits: `make limits`, or `python -m tests.limits [NAME...] [--rounds 3]`.

Each attack runs in a process of its own, under a bound on memory and a timeout, beside a ticker of the host
that wants its turn every 10 ms. Three numbers come out, of all rounds the worst: resident memory at its peak
above what the process had before, how long the step takes, the lateness of the ticker. They say something on
a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from time import perf_counter
from typing import Any

import trio

import flowengine as fe
from tests.limits.attacks import ATTACKS

MEMORY_BYTES = 200_000_000
TIMEOUT_SECONDS = 1.0
#: What the process may take beside the bound, how late a step may end, and how late the host's turn may come.
BESIDE_BYTES = 64_000_000
LATE_SECONDS = 0.25
TICK_LATE_SECONDS = 0.05

_TICK_SECONDS = 0.01
#: A child that hangs is ended then.
_WATCHDOG_SECONDS = 60


def _resident_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def attack(name: str) -> dict[str, Any]:
    """Run one attack and say what it did."""
    made = ATTACKS[name]()
    config = fe.Config(memory_limit_bytes=MEMORY_BYTES, session_memory_bytes=MEMORY_BYTES)
    warm = fe.Graph()
    warm.ops.Neg(warm.placeholder("float32", [], name="x"), name="y")
    async with fe.Session(warm, config=config) as session:
        await session.run("y:0", {"x:0": 1.0})
    late = 0.0
    answer = "a value"

    async def tick() -> None:
        nonlocal late
        while True:
            before = perf_counter()
            await trio.sleep(_TICK_SECONDS)
            late = max(late, perf_counter() - before - _TICK_SECONDS)

    async with fe.Session(made.graph, config=config) as session, trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await trio.sleep(5 * _TICK_SECONDS)
        held, began = _resident_peak(), perf_counter()
        try:
            await session.run(made.fetch, made.feeds, options=fe.RunOptions(timeout_seconds=TIMEOUT_SECONDS))
        except fe.errors.OpError as error:
            answer = type(error).__name__
        took = perf_counter() - began
        await trio.sleep(5 * _TICK_SECONDS)
        nursery.cancel_scope.cancel()
    return {"answer": answer, "seconds": took, "late": late, "bytes": _resident_peak() - held}


def _in_child(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.limits", "--child", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WATCHDOG_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"answer": "never ends", "seconds": float("inf"), "late": float("inf"), "bytes": 0}
    if done.returncode:
        return {"answer": f"dies: {done.stderr[-200:]}", "seconds": 0.0, "late": 0.0, "bytes": 0}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _faults(found: dict[str, Any]) -> list[str]:
    faults = []
    if found["answer"].startswith(("dies", "never")):
        faults.append(found["answer"])
    if found["bytes"] > MEMORY_BYTES + BESIDE_BYTES:
        faults.append("memory")
    if found["seconds"] > TIMEOUT_SECONDS + LATE_SECONDS:
        faults.append("deadline")
    if found["late"] > TICK_LATE_SECONDS:
        faults.append("the host's turn")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ATTACKS)}; all of them without any")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(trio.run(attack, given.child)))
        sys.stdout.flush()
        os._exit(0)  # a kernel that a step has given up may still run
    failed = False
    print(f"{'attack':14} {'answer':24} {'memory':>8} {'seconds':>8} {'ticker':>8}")
    for name in given.names or ATTACKS:
        rounds = [_in_child(name) for _ in range(given.rounds)]
        worst = {key: max(found[key] for found in rounds) for key in ("bytes", "seconds", "late")}
        answers = "/".join(dict.fromkeys(found["answer"] for found in rounds))
        faults = sorted({fault for found in rounds for fault in _faults(found)})
        failed = failed or bool(faults)
        print(
            f"{name:14} {answers:24} {worst['bytes'] / 1e6:5.0f} MB {worst['seconds']:6.2f} s "
            f"{worst['late'] * 1e3:5.0f} ms{'   too much: ' * bool(faults)}{', '.join(faults)}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
