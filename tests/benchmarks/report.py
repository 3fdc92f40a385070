"""The results as a table in Markdown, and the line that sums up whole graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.workloads import MOSTLY_LIBRARY, ZOO_MEAN_LIMIT


def geometric_mean(results: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The mean ratio over the whole graphs that are not mostly convolutions or large products."""
    ratios = []
    for result in results:
        graph = result["name"].removeprefix("zoo/")
        if graph == result["name"] or graph in MOSTLY_LIBRARY or len(result.get("step", ())) != 2:
            continue
        ratios.append(result["step"][0] / result["step"][1])
    if len(ratios) < 2:
        return None
    mean = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
    return {
        "name": f"geometric mean of {len(ratios)} whole graphs",
        "step": [mean, 1.0],
        "limit": ZOO_MEAN_LIMIT,
        "budget": ZOO_MEAN_LIMIT,
        "is_mean": True,
    }


def markdown(results: Sequence[dict[str, Any]], engines: Sequence[str]) -> str:
    """A table: what was timed, the medians, their ratio, what is asked of it, and whether it is kept."""
    rows = ["| work | " + " | ".join(engines) + " | ratio | asked | kept |"]
    rows.append("|---|" + "---:|" * (len(engines) + 2) + "---|")
    for result in results:
        if "error" in result:
            rows.append(f"| {result['name']} | failed" + " |" * (len(engines) + 2) + " |")
            continue
        rows.append(_row(result, len(engines)))
    graphs = ", ".join(sorted(MOSTLY_LIBRARY))
    return (
        "\n".join(rows)
        + f"\n\nLeft out of the mean, as mostly convolutions or products of large matrices: {graphs}.\n"
    )


def _row(result: dict[str, Any], columns: int) -> str:
    seconds = result["step"]
    limit = result["limit"] if result["budget"] is None else result["budget"]
    ratio = seconds[0] / seconds[1] if len(seconds) > 1 else None
    cells = [""] * len(seconds) if result.get("is_mean") else [_time(value) for value in seconds]
    cells += [""] * (columns - len(cells))
    cells.append("" if ratio is None else f"{ratio:.2f}")
    cells.append("" if limit is None else f"{limit:.2f}")
    cells.append("" if limit is None or ratio is None else "yes" if ratio <= limit else "**no**")
    return f"| {result['name']} | " + " | ".join(cells) + " |"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
