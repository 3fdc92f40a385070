"""Models of the shared zoo whose outputs depend differentiably on a floating tensor, and their gradients.

    python -m tests.gradients.models        ask TensorFlow 1.15 again, and write what it says to models.json

A model is asked for the gradient of its outputs, weighted by a cosine, by what it is fed. Of each gradient
that TensorFlow 1.15 computes on the imported graph a summary is kept: its largest magnitude and some of its
elements.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.gradients.values import dense
from tests.gradients.retyped import retyped
from tests.gradients.tensorflow_jobs import Job, answers
from tests.tools.recorded import RecordedCase, open_case

SUMMARIES: Final = Path(__file__).with_name("models.json")
#: How many elements of a gradient are kept, spread over all.
KEPT: Final = 24


@dataclass(frozen=True)
class Model:
    """A graph of the zoo, the run of it that is differentiated, its outputs and its inputs.

    setup   the runs that come before it
    given   inputs that the run computes: fed with what it fetched, by place among its fetches
    """

    name: str
    ys: tuple[str, ...]
    xs: tuple[str, ...]
    run: int = 0
    setup: tuple[int, ...] = ()
    given: tuple[tuple[str, int], ...] = ()

    def case(self, shared: Path) -> RecordedCase:
        return open_case(str(shared / "zoo" / "open" / self.name))


#: Frozen graphs with floating inputs on which floating outputs depend: all that the zoo has.
FROZEN: Final = (
    Model("googlenet_infer", ("prob:0", "logits:0"), ("input:0",)),
    Model("mobilenet_seg_infer", ("logits:0", "seg_logits:0"), ("input:0",)),
    Model("tp_cms_track_ckf", ("Identity:0",), ("x:0",)),
    Model("tp_grappler_while_loop", ("while/Exit_1:0",), ("ones:0",)),
    Model("tp_t2onnx_fc", ("output:0",), ("X:0",)),
    Model("tp_t2onnx_lstm", ("output:0",), ("X:0", "keep_prob:0")),
)
#: By a tensor within, or with variables that are initialized first.
OTHERS: Final = (
    Model("tp_speech_commands", ("labels_softmax:0",), ("Mfcc:0",), given=(("Mfcc:0", 1),)),
    Model("whitepaper_fig1", ("C:0", "Relu:0"), ("x:0",), 1, (0,)),
    Model("cond_in_while_grad", ("while/Exit_1:0", "acc:0"), ("x:0",), 1, (0,)),
    Model("nested_while_grad", ("while/Exit_1:0", "loss:0"), ("x:0",), 1, (0,)),
    Model("functions_control_flow_v2", ("while/Identity_3:0", "loss:0"), ("x:0",), 1, (0,)),
)


class ModelGradient:
    """A model with what it is fed, and the weights of its outputs.

    wide   of a copy of the graph in double precision
    """

    def __init__(self, model: Model, case: RecordedCase, *, wide: bool = False) -> None:
        self.model, self.case = model, case
        self.wide = wide
        run = case.runs[model.run]
        # What is given within needs no text that it would be computed of.
        self.feeds = {name: value for name, value in run.feeds.items() if value.dtype.kind != "O"}
        self.feeds |= {name: run.expect[place].value for name, place in model.given}
        self.setup = [(dict(case.runs[place].feeds), case.runs[place].targets) for place in model.setup]
        if wide:
            self.feeds = _wide(self.feeds)
            self.setup = [(_wide(feeds), targets) for feeds, targets in self.setup]

    @cached_property
    def graph(self) -> fe.Graph:
        if not self.wide:
            return fe.Graph.from_graph_def(self.case.graph)
        wanted = [*self.model.ys, *self.feeds, *(name for _, targets in self.setup for name in targets)]
        return fe.Graph.from_graph_def(retyped(self.case.graph, wanted))

    def run_setup(self, session: Any) -> None:
        for feeds, targets in self.setup:
            session.run([], feeds, targets=targets)

    @cached_property
    def weights(self) -> list[Array]:
        """Of the shapes that the outputs have on these feeds."""
        with fe.blocking.Session(self.graph) as session:
            self.run_setup(session)
            values = session.run(list(self.model.ys), self.feeds)
        return [weights_like(value) for value in values]

    def gradients(self) -> list[Array]:
        """By each input, made here on the loaded graph."""
        found = fe.gradients(
            [self.graph.tensor(name) for name in self.model.ys],
            [self.graph.tensor(name) for name in self.model.xs],
            [self.graph.constant(weight) for weight in self.weights],
        )
        assert None not in found, "an output does not depend on an input"
        fetches = [
            each if isinstance(each, fe.Tensor) else dense(self.graph, self.graph.ops, each)
            for each in found
            if each is not None
        ]
        with fe.blocking.Session(self.graph) as session:
            self.run_setup(session)
            return [np.asarray(each) for each in session.run(fetches, self.feeds)]

    def job(self) -> Job:
        """The same, asked of TensorFlow."""
        model = self.model
        return Job(
            self.case.graph,
            self.feeds,
            setup=self.setup,
            ys=model.ys,
            xs=model.xs,
            grad_ys=self.weights,
        )


def _wide(feeds: Mapping[str, Array]) -> dict[str, Array]:
    return {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()}


def weights_like(value: Any) -> Array:
    array = np.asarray(value)
    return np.asarray(np.cos(np.arange(array.size) * 0.7).reshape(array.shape), array.dtype)


def summary(gradient: Array) -> dict[str, Any]:
    """Return the summary that is kept of a gradient: its shape, its largest magnitude, some elements."""
    flat = gradient.ravel()
    places = np.linspace(0, flat.size - 1, min(KEPT, flat.size)).astype(int)
    return {
        "shape": list(gradient.shape),
        "largest": float(np.abs(flat).max(initial=0)),
        "elements": [float(f"{element:.7g}") for element in flat[places]],
    }


def main() -> int:
    shared = Path(os.environ.get("FLOWENGINE_SHARED", "shared"))
    asked = [ModelGradient(model, model.case(shared)) for model in (*FROZEN, *OTHERS)]
    with tempfile.TemporaryDirectory() as folder:
        found = answers([each.job() for each in asked], Path(folder))
    kept: Mapping[str, Any] = {
        each.model.name: said if isinstance(said, str) else _summaries(said)
        for each, said in zip(asked, found, strict=True)
    }
    SUMMARIES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for name, said in kept.items():
        print(name, said if isinstance(said, str) else [each and each["largest"] for each in said])
    return 0


def _summaries(said: Sequence[Array | None]) -> list[dict[str, Any] | None]:
    return [None if gradient is None else summary(gradient) for gradient in said]


if __name__ == "__main__":
    sys.exit(main())
