"""Agreement of sessions on a GPU with the CPU: `python -m tests.benchmarks.gpu_agreement [--simulated]`.

* Every record of numbers that runs on devices, in the first of its types, beside its reference.
* The graphs of `zoo/open` in the shared folder (FLOWENGINE_SHARED), beside what TensorFlow gave; and where a
  graph has a step to time, as the language models have, the milliseconds of that.
* Losses of the four convnets, narrow, over 50 training steps beside the CPU's; and with `deterministic` the
  same bits in three runs.

Asked: all agree, within each record's tolerance, the zoo's own, and a thousandth of a loss.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.kernels.load import registry
from tests.benchmarks.gpu_nets import RATE, images_and_labels, logits
from tests.benchmarks.gpu_networks import FlowLayers
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable
from tests.oprecords.record import Built, OpRecord
from tests.oprecords.test_on_strict_arrays import EXCUSED, OF_NUMBERS
from tests.oprecords.test_records import judge as judge_record
from tests.tools.recorded import find_cases
from tests.tools.replay import ReplayOutcome, judge, play, prepared_case

#: Of a loss, over so many steps: sums of many float32 in another order.
LOSS_TOLERANCE: Final = 1e-3
STEPS: Final = 50
NETWORKS: Final = ("alexnet", "overfeat", "vgg_a", "googlenet")
#: Graphs of the zoo that are tried without a card.
_SMALL: Final = ("whitepaper_fig1", "tp_half_plus_two")
_CASE_SECONDS: Final = 60


async def record_differs(place: GpuPlace, record: OpRecord) -> str:
    """Return the first difference of a record from its reference, as a sentence; empty if there is none."""
    graph = fe.Graph()
    types = next(record.combinations())
    with graph.device(GPU):
        nodes = [
            Built(graph, record, each, types, "unknown", f"node{i}") for i, each in enumerate(record.samples)
        ]
    try:
        async with place.session(graph) as session:
            for built in nodes:
                judge_record(built, list(await session.run(built.fetches, built.feeds)))
    except (AssertionError, fe.errors.OpError) as error:
        return f"{record.op}: {str(error).strip()[:120] or type(error).__name__}"
    return ""


async def records(place: GpuPlace) -> tuple[int, list[str]]:
    """(how many were tried, what is not as it should be)."""
    looking = {kernel.op for kernel in registry() if kernel.looks}
    tried = [record for record in OF_NUMBERS if record.op not in EXCUSED or record.op in looking]
    tried = tried[:: place.size(1, 60)]
    return len(tried), [text for record in tried if (text := await record_differs(place, record))]


async def zoo(place: GpuPlace, folder: Path) -> list[tuple[str, str, str]]:
    """(graph, "agrees" or what does not, milliseconds of its timed step or nothing)."""
    rows = []
    for address in find_cases(folder):
        name = Path(address).name
        if not place.is_card and name not in _SMALL:
            continue
        taken = list[float]()
        with prepared_case(address) as case:
            outcomes = [ReplayOutcome() for _ in case.runs]
            with trio.move_on_after(_CASE_SECONDS) as scope:
                await play(case, outcomes, place.session_there)
                timing = case.meta.get("timing")
                if timing and place.is_card:
                    first, run = (case.runs[at] for at in (timing["setup"][0], timing["run"]))
                    async with place.session_there(fe.Graph.from_graph_def(case.graph)) as session:
                        await session.run(list(first.fetches), first.feeds, targets=list(first.targets))
                        for _ in range(20):
                            started = perf_counter()
                            await session.run(list(run.fetches), run.feeds, targets=list(run.targets))
                            taken.append((perf_counter() - started) * 1e3)
            result = judge(case, outcomes)
        told = "agrees" if result.status == "pass" else f"{result.fetch or ''} {result.why}"[:120]
        if scope.cancelled_caught:
            told = f"not done in {_CASE_SECONDS} s"
        rows.append((name, told, f"{median(taken[10:]):.1f}" if taken else ""))
    return rows


async def losses(place: GpuPlace, name: str, device: str, steps: int, **config: Any) -> list[float]:
    """The loss of each training step of a narrow network."""
    narrow, batch = place.size(16, 64), place.size(4, 1)
    images, labels = images_and_labels(name, batch, narrow)
    g = fe.Graph()
    with g.device(device):
        net = FlowLayers(g, g.constant(images), narrow)
        each, _ = g.ops.SparseSoftmaxCrossEntropyWithLogits(logits(name, net), g.constant(labels))
        loss = fe.reduce_mean(each)
        train = fe.optimizers.SGD(RATE).minimize(loss)
    async with place.session(g, **config) as session:
        await session.initialize()
        return [float(await session.run(loss, targets=[train])) for _ in range(steps)]


async def training(place: GpuPlace, table: ResultTable) -> None:
    """Rows of losses beside the CPU's, and of their bits."""
    steps = place.size(STEPS, 2)
    for name in NETWORKS[: place.size(len(NETWORKS), 1)]:
        far, near = [await losses(place, name, device, steps) for device in (GPU, "/device:CPU:0")]
        off = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(far, near, strict=True))
        table.rows.append((f"{name}, losses of {steps} steps", f"{off:.2g} apart", ""))
        if not off <= LOSS_TOLERANCE:
            table.failures.append(f"{name}: losses are {off:.2g} apart")
    runs = [await losses(place, "alexnet", GPU, steps, deterministic=True) for _ in range(3)]
    same = all(np.array_equal(run, runs[0]) for run in runs)
    table.rows.append(("alexnet, deterministic, three runs", "equal bits" if same else "other bits", ""))
    if not same:
        table.failures.append("deterministic runs have other bits")


async def measure(place: GpuPlace) -> ResultTable:
    """See the module."""
    table = ResultTable("Values of sessions", ("what", "beside the CPU, or TensorFlow", "ms a step"))
    count, wrong = await records(place)
    table.rows.append((f"{count} records", f"{count - len(wrong)} agree", ""))
    table.failures += wrong
    await training(place, table)
    folder = Path(os.environ.get("FLOWENGINE_SHARED", "")) / "zoo" / "open"
    if folder.is_dir():
        for row in await zoo(place, folder):
            table.rows.append(row)
            if row[1] != "agrees":
                table.failures.append(f"{row[0]}: {row[1]}")
    else:
        table.rows.append(("zoo/open", "not here: FLOWENGINE_SHARED names no such folder", ""))
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_agreement", __doc__, measure))
