"""The curves of docs/simulation.md, in simulated time, beside what the OSDI'16 paper says of its clusters.

    python -m tests.benchmarks.simulated_curves null --workers 1,10,25,50,100,200,500
    python -m tests.benchmarks.simulated_curves backups --backups 0,1,2,3,4,5,6
    python -m tests.benchmarks.simulated_curves draw

The first two keep what they find in tests/benchmarks/simulated_curves.json, the last draws docs/images/*.svg
of it and prints the tables. Results depend on the seed and the code alone, not on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.tools.charts import ChartLine, chart
from tests.tools.simulated_backups import BackupReplicas, normalised_speedups, train_replicas
from tests.tools.simulated_null_steps import null_step_seconds

HERE: Final = Path(__file__).parent
FOUND: Final = HERE / "simulated_curves.json"
IMAGES: Final = HERE.parents[1] / "docs" / "images"
#: {name: bytes of the model}
NULL_STEPS: Final = {"scalar": 0.0, "dense 100 MB": 1e8, "dense 1 GB": 1e9}
#: {name: {workers: milliseconds}}, as the paper's section 6.2 gives them in words.
PAPER: Final = {
    "scalar": {1: 1.8, 100: 8.8},
    "dense 100 MB": {1: 147.0, 100: 613.0},
    "dense 1 GB": {1: 1010.0, 100: 7160.0},
}
#: What section 6.3 says of 50 workers of Inception-v3: the best of each kind.
PAPER_BEST: Final = "four (1.93 s a step); for the same work of all, three (1.095)"


def _read() -> dict[str, Any]:
    return dict(json.loads(FOUND.read_text())) if FOUND.exists() else {}


def _keep(found: dict[str, Any]) -> None:
    FOUND.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def null(workers: Sequence[int], names: Sequence[str], rounds: int) -> None:
    """Find the step times of so many workers."""
    for count in workers:
        for name in names:
            cpu = time.process_time()
            seconds = null_step_seconds(count, model_bytes=NULL_STEPS[name], rounds=rounds)
            cost = time.process_time() - cpu
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{name}, {count} workers: {seconds * 1e3:.2f} ms ({cost:.0f} s of CPU, {memory} MB)",
                flush=True,
            )
            found = _read()
            found.setdefault("null", {}).setdefault(name, {})[str(count)] = {
                "ms": round(seconds * 1e3, 3),
                "cpu_seconds": round(cost, 1),
                "megabytes": memory,
            }
            _keep(found)


def backups(counts: Sequence[int], steps: int) -> None:
    """Find the step times of 50 workers with so many backups."""
    for count in counts:
        trained = train_replicas(BackupReplicas(backups=count), steps=steps)
        ordered = sorted(trained.seconds)
        print(f"{count} backups: {trained.median:.3f} s a step", flush=True)
        found = _read()
        found.setdefault("backups", {})[str(count)] = {
            "median": round(trained.median, 4),
            "tenth": round(ordered[len(ordered) // 10], 4),
            "ninetieth": round(ordered[len(ordered) * 9 // 10], 4),
            "steps": len(ordered),
        }
        _keep(found)


def draw() -> None:
    """Draw the charts and print the tables."""
    found = _read()
    IMAGES.mkdir(exist_ok=True)
    table = {
        name: {int(count): each["ms"] for count, each in entries.items()}
        for name, entries in found["null"].items()
    }
    lines = [ChartLine(name, sorted(table[name].items())) for name in NULL_STEPS]
    lines += [ChartLine(f"{name}, paper", sorted(PAPER[name].items()), dashed=True) for name in NULL_STEPS]
    (IMAGES / "simulated-null-steps.svg").write_text(
        chart(
            lines,
            title="Null steps with 16 PS tasks, simulated",
            x_label="workers",
            y_label="milliseconds a step (median)",
            log_x=True,
            log_y=True,
        )
    )
    print("\n".join(_null_table(table)))
    _draw_backups(found["backups"])


def _null_table(table: dict[str, dict[int, float]]) -> list[str]:
    counts = sorted({count for entries in table.values() for count in entries})
    lines = [f"| workers | {' | '.join(f'{name} | paper' for name in NULL_STEPS)} |"]
    lines.append(f"|---{'|---' * 2 * len(NULL_STEPS)}|")
    for count in counts:
        cells = []
        for name in NULL_STEPS:
            cells += [f"{table[name][count]:,.1f} ms" if count in table[name] else ""]
            cells += [f"{PAPER[name][count]:,.1f} ms" if count in PAPER[name] else ""]
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return lines


def _draw_backups(found: dict[str, Any]) -> None:
    medians = {int(count): each["median"] for count, each in found.items()}
    speedups = normalised_speedups(medians, BackupReplicas().required)
    (IMAGES / "simulated-backup-workers.svg").write_text(
        chart(
            [
                ChartLine("median", sorted(medians.items())),
                ChartLine("10%", sorted((int(c), e["tenth"]) for c, e in found.items())),
                ChartLine("90%", sorted((int(c), e["ninetieth"]) for c, e in found.items())),
            ],
            title="50 workers and backups, simulated",
            x_label="backup workers",
            y_label="seconds a step",
            from_zero=False,
        )
    )
    (IMAGES / "simulated-backup-speedup.svg").write_text(
        chart(
            [
                ChartLine("steps a second", sorted((b, medians[0] / each) for b, each in medians.items())),
                ChartLine("for the same work", sorted(speedups.items())),
            ],
            title="50 workers and backups, simulated",
            x_label="backup workers",
            y_label="speed-up over no backups",
            from_zero=False,
        )
    )
    print("\n| backups | seconds a step | 10% | 90% | speed-up | for the same work |")
    print("|---|---|---|---|---|---|")
    for count, each in sorted((int(c), e) for c, e in found.items()):
        ratio = medians[0] / each["median"]
        print(
            f"| {count} | {each['median']:.2f} | {each['tenth']:.2f} | {each['ninetieth']:.2f} "
            f"| {ratio:.3f} | {speedups[count]:.3f} |"
        )
    print(f"\nthe paper's best number of backups: {PAPER_BEST}")


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("null", "backups", "draw"))
    parser.add_argument("--workers", type=_numbers, default=[1, 10, 25, 50, 100])
    parser.add_argument("--names", type=lambda text: text.split(","), default=list(NULL_STEPS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backups", type=_numbers, default=[0, 1, 2, 3, 4, 5, 6])
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args(argv)
    if arguments.what == "null":
        null(arguments.workers, arguments.names, arguments.rounds)
    elif arguments.what == "backups":
        backups(arguments.backups, arguments.steps)
    else:
        draw()


if __name__ == "__main__":
    main()
