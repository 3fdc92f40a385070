"""Training graphs that TensorFlow built: their gradients made anew here train them alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.recorded import RecordedCase, open_case
from tests.gradients.rebuilt import rebuilt

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

STEPS: Final = 20
#: {whole graph: the loss that its gradients are of}
LOSSES: Final = {
    "alexnet_train": "total_loss:0",
    "cond_in_while_grad": "acc:0",
    "googlenet_train": "total_loss:0",
    "lstm_lm_full": "loss:0",
    "lstm_lm_sampled": "loss:0",
    "mnist_mlp_fig1": "softmax_cross_entropy_with_logits_sg/Reshape_2:0",
    "seq2seq_attention_train": "m/loss:0",
    "tp_rust_regression_old": "Mean:0",
    "word2vec_nce_sgd": "loss:0",
    "word2vec_sampled_adagrad": "loss:0",
}


#: Relative; about what single precision rounds by.
NUDGE: Final = 1e-7


def losses_of(graph: fe.Graph, case: RecordedCase, loss: str, *, nudge: float = 0.0) -> Any:
    """The loss of each step of a training that goes through the recorded feeds again and again.

    nudge   a relative change of all floating feeds
    """
    start, *others = case.runs
    training = [run for run in others if run.targets and run.feeds]
    found = []
    with fe.blocking.Session(graph) as session:
        session.run([], start.feeds, targets=start.targets)
        for step in range(STEPS):
            run = training[step % len(training)]
            feeds = {
                k: v * v.dtype.type(1 + nudge) if v.dtype.kind == "f" else v for k, v in run.feeds.items()
            }
            found.append(session.run([loss], feeds, targets=run.targets)[0])
    return np.array(found)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_with_gradients_of_tensorflow(name: str, shared: Path, record_property: Any) -> None:
    """Within a ten-thousandth, or what a training that magnifies rounding makes of a nudge to its feeds."""
    case, loss = open_case(str(shared / "zoo" / "open" / name)), LOSSES[name]
    graph = fe.Graph.from_graph_def(case.graph)
    wanted = losses_of(graph, case, loss)
    assert len(np.unique(wanted)) > 1, "nothing was learnt"
    drift = np.abs(losses_of(graph, case, loss, nudge=NUDGE) - wanted)
    got = losses_of(rebuilt(graph.to_graph_def(), loss), case, loss)
    allowed = 1e-4 * np.abs(wanted) + 8 * np.maximum.accumulate(drift)
    assert (np.abs(got - wanted) <= allowed).all(), f"{got} instead of {wanted}"
    record_property("conformance_cases", 1)
