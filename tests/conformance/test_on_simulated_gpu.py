"""Recorded cases on a CPU and a simulated GPU: all that can be on the GPU, and each node on either at random.

In CI those of this repository; nightly the shared cases and whole graphs too, which must not do worse than on
two CPU devices.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

import flowengine as fe
from tests.devices.placing import opener
from tests.effort import IS_NIGHTLY
from tests.tools.recorded import find_cases, open_case
from tests.tools.replay import RandomPlacement, ReplayOutcome, Result, judge, play, prepared_case
from tests.tools.simulated_gpu import SimulatedGpu

pytestmark = pytest.mark.conformance

CASES: Final = {Path(address).name: address for address in find_cases(Path(__file__).parent / "recorded")}
#: {case: what its graph leaves open, so that another order of things gives another value}
FREE: Final = {
    "topk_op-8712664a7d96": "the greatest elements come in any order: TensorFlow's is that of its own heap",
    "evaluation-4aba621ef01e": "nothing orders reading the global step and counting it up",
    "evaluation-72005e271dfc": "nothing orders reading the global step and counting it up",
}


def played(address: str, seed: int, *, scattered: bool) -> Result:
    """The verdict on a case over a CPU and a GPU; AssertionError for what was found on the GPU."""
    gpus: list[SimulatedGpu] = []
    with prepared_case(address) as case:
        outcomes = [ReplayOutcome() for _ in case.runs]

        async def run() -> None:
            # Of what hangs; whole networks take a minute, and more beside other work.
            with trio.fail_after(900):
                await play(case, outcomes, opener(gpus, seed, scattered=scattered))

        trio.run(run)
    for gpu in gpus:
        gpu.check()
    return judge(case, outcomes)


@pytest.mark.parametrize("scattered", [False, True], ids=["on the GPU", "scattered"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_recorded_case_gives_what_tensorflow_gave(
    name: str, scattered: bool, record_property: Callable[[str, object], None]
) -> None:
    record_property("conformance_cases", 1)
    result = played(CASES[name], 3, scattered=scattered)
    assert result.status == "pass", f"run {result.run} {result.fetch or ''}: {result.why}"


def _on_two_cpus(address: str) -> Result:
    with prepared_case(address) as case:
        outcomes = [ReplayOutcome() for _ in case.runs]
        trio.run(play, case, outcomes, RandomPlacement(2))
    return judge(case, outcomes)


@pytest.mark.slow
@pytest.mark.skipif(not IS_NIGHTLY, reason="several minutes: make nightly")
@pytest.mark.parametrize("scattered", [False, True], ids=["on the GPU", "scattered"])
@pytest.mark.parametrize("folder", ["conformance/open", "zoo/open"])
def test_what_passes_on_two_cpus_passes_with_a_gpu(folder: str, scattered: bool, shared: Path) -> None:
    worse = []
    for seed, address in enumerate(find_cases(shared / folder)):
        result = played(address, seed, scattered=scattered)
        if result.status == "pass" or any(name in address for name in FREE):
            continue
        if _on_two_cpus(address).status == "pass":
            worse.append(f"{result.id}, run {result.run} {result.fetch or ''}: {result.why[:300]}")
    assert worse == []


@pytest.mark.slow
@pytest.mark.skipif(not IS_NIGHTLY, reason="half a minute: make nightly")
def test_a_googlenet_training_step_copies_no_weight_and_no_constant(shared: Path) -> None:
    case = open_case(str(shared / "zoo" / "open" / "googlenet_train"))
    first, run = case.runs[case.meta["timing"]["setup"][0]], case.runs[case.meta["timing"]["run"]]
    gpus: list[SimulatedGpu] = []

    async def train() -> list[int]:
        async with opener(gpus, 3)(fe.Graph.from_graph_def(case.graph)) as session:
            await session.run(list(first.fetches), first.feeds, targets=list(first.targets))
            await session.run(list(run.fetches), run.feeds, targets=list(run.targets))
            copied = len(gpus[0].copies["in"])
            await session.run(list(run.fetches), run.feeds, targets=list(run.targets))
            return gpus[0].copies["in"][copied:]

    # The feeds, and the number of rows, which follows from their shapes.
    assert sorted(trio.run(train)) == sorted([4, *(value.nbytes for value in run.feeds.values())])
    assert gpus[0].stops == 0
    gpus[0].check()
