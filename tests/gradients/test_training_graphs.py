"""Training graphs that TensorFlow built: their gradients made anew here train them alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from tests.effort import IS_NIGHTLY
from tests.gradients.rebuilt import rebuilt
from tests.tools.recorded import RecordedCase, RecordedRun, open_case

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

STEPS: Final = 20 if IS_NIGHTLY else 8


@dataclass(frozen=True)
class Training:
    """How a whole graph is trained.

    loss      what its gradients are of
    steps     the runs of each step, by their places among those recorded, gone through again and again; each
              run that feeds and updates is a step if none is told
    asks      the run with whose feeds the loss is asked for once a step is done; without it, the last run of
              a step gives the loss with which it trains
    """

    loss: str
    steps: tuple[tuple[int, ...], ...] = ()
    asks: int | None = None


#: Names of files, reads, parsing, training. A file has 24 records, a read gives ten of one file at most and a
#: step takes twenty: so many reads come before each step, and the names of two files before every other.
_PIPELINE: Final = tuple(
    (*([] if place % 2 else [1]), *[2] * reads, 6, 7) for place, reads in enumerate((2, 3, 3, 2, 3, 2))
)

TRAININGS: Final = {
    "alexnet_train": Training("total_loss:0"),
    "cond_in_while_grad": Training("acc:0"),
    "functions_control_flow_v2": Training("loss:0"),
    "googlenet_train": Training("total_loss:0"),
    "input_pipeline_train": Training("loss:0", steps=_PIPELINE),
    "lstm_lm_full": Training("loss:0"),
    "lstm_lm_sampled": Training("loss:0"),
    "mnist_mlp_fig1": Training("softmax_cross_entropy_with_logits_sg/Reshape_2:0"),
    "seq2seq_attention_train": Training("m/loss:0"),
    "sync_replicas_optimizer": Training("loss:0", steps=((1, 2, 3, 4), (5, 6, 7)), asks=9),
    "tp_rust_regression_old": Training("Mean:0"),
    "word2vec_nce_sgd": Training("loss:0"),
    "word2vec_sampled_adagrad": Training("loss:0"),
}


#: Relative; about what single precision rounds by.
NUDGE: Final = 1e-7


def losses_of(graph: fe.Graph, case: RecordedCase, training: Training, *, nudge: float = 0.0) -> Any:
    """The loss of each step of a training that goes through the recorded feeds again and again.

    nudge   a relative change of all floating feeds
    """
    runs = case.runs
    steps = training.steps or tuple((i,) for i, run in enumerate(runs) if i and run.targets and run.feeds)
    found: list[Any] = []

    def fed(run: RecordedRun) -> dict[str, Any]:
        return {k: v * v.dtype.type(1 + nudge) if v.dtype.kind == "f" else v for k, v in run.feeds.items()}

    async def step(session: fe.Session, places: Sequence[int]) -> Any:
        *others, last = (runs[place] for place in places)
        async with trio.open_nursery() as nursery:
            for run in others:
                if run.background:
                    nursery.start_soon(partial(session.run, [], fed(run), targets=run.targets))
                else:
                    await session.run([], fed(run), targets=run.targets)
            fetches = [training.loss] if training.asks is None else []
            losses = await session.run(fetches, fed(last), targets=last.targets)
        if training.asks is not None:
            losses = await session.run([training.loss], fed(runs[training.asks]))
        return losses[0]

    async def train() -> None:
        async with fe.Session(graph) as session:
            await session.run([], runs[0].feeds, targets=runs[0].targets)
            found.extend([await step(session, steps[number % len(steps)]) for number in range(STEPS)])

    trio.run(train)
    return np.array(found)


@pytest.mark.parametrize("name", TRAININGS)
def test_losses_are_those_with_gradients_of_tensorflow(
    name: str, shared: Path, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a ten-thousandth, or what a training that magnifies rounding makes of a nudge to its feeds."""
    folder = shared / "zoo" / "open" / name
    monkeypatch.chdir(folder)
    case, training = open_case(str(folder)), TRAININGS[name]
    graph = fe.Graph.from_graph_def(case.graph)
    wanted = losses_of(graph, case, training)
    assert len(np.unique(wanted)) > 1, "nothing was learnt"
    drift = np.abs(losses_of(graph, case, training, nudge=NUDGE) - wanted)
    got = losses_of(rebuilt(graph.to_graph_def(), training.loss), case, training)
    allowed = 1e-4 * np.abs(wanted) + 8 * np.maximum.accumulate(drift)
    assert (np.abs(got - wanted) <= allowed).all(), f"{got} instead of {wanted}"
    record_property("conformance_cases", 1)
