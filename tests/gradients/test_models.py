"""Gradients of loaded models by their inputs: as TensorFlow 1.15 computes them, or as differences say.

What TensorFlow said of a model is kept in `models.json`; where `FLOWENGINE_TENSORFLOW_PYTHON` names one, it
is asked again, and all elements are compared. It cannot differentiate a loop that was written and read: that
is done in a copy in double precision, along directions that cross no kink.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from tests.gradients.models import FROZEN, OTHERS, SUMMARIES, Model, ModelGradient, summary
from tests.gradients.tensorflow_jobs import REASON, TENSORFLOW, answers

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

#: Of the largest magnitude of a gradient.
TOLERANCE: Final = 1e-3
DIRECTIONS: Final = 5
_STEP: Final = 1e-5
_SAID: Final[dict[str, Any]] = json.loads(SUMMARIES.read_text(encoding="utf-8"))
_ALL: Final = [pytest.param(model, id=model.name) for model in (*FROZEN, *OTHERS)]
#: Those that TensorFlow differentiates once they are imported.
_THERE: Final = [each for each in _ALL if not isinstance(_SAID[str(each.id)], str)]
_LOOPS: Final = [each for each in _ALL if isinstance(_SAID[str(each.id)], str)]


@pytest.mark.parametrize("model", _THERE)
def test_the_gradient_is_that_of_tensorflow(model: Model, shared: Path, record_property: Any) -> None:
    said = _SAID[model.name]
    for got, want in zip(ModelGradient(model, model.case(shared)).gradients(), said, strict=True):
        mine = summary(got)
        assert mine["shape"] == want["shape"]
        bound = TOLERANCE * want["largest"]
        assert mine["largest"] == pytest.approx(want["largest"], abs=bound)
        np.testing.assert_allclose(mine["elements"], want["elements"], rtol=0, atol=bound)
    record_property("conformance_cases", 1)


@pytest.mark.skipif(TENSORFLOW is None, reason=REASON)
def test_tensorflow_computes_the_same_gradients(shared: Path, tmp_path: Path) -> None:
    models = [model for model in (*FROZEN, *OTHERS) if not isinstance(_SAID[model.name], str)]
    asked = [ModelGradient(model, model.case(shared)) for model in models]
    for each, said in zip(asked, answers([one.job() for one in asked], tmp_path), strict=True):
        assert not isinstance(said, str), said
        for got, want in zip(each.gradients(), said, strict=True):
            bound = TOLERANCE * np.abs(want).max()
            np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=each.model.name)


@pytest.mark.parametrize("model", _LOOPS)
def test_the_gradient_through_loops_is_that_of_differences(
    model: Model, shared: Path, record_property: Any
) -> None:
    wide = ModelGradient(model, model.case(shared), wide=True)
    narrow = ModelGradient(model, model.case(shared)).gradients()
    random = np.random.default_rng(11)
    for x, gradient, rough in zip(model.xs, wide.gradients(), narrow, strict=True):
        assert gradient.dtype == np.float64
        np.testing.assert_allclose(rough, gradient, rtol=0, atol=TOLERANCE * np.abs(gradient).max())
        with fe.blocking.Session(wide.graph) as session:
            wide.run_setup(session)
            for _ in range(DIRECTIONS):
                way, change = _smooth_change(wide, session, x, random)
                assert np.vdot(gradient, way) == pytest.approx(change, rel=1e-5, abs=1e-7)
    record_property("conformance_cases", 1)


def _smooth_change(
    wide: ModelGradient, session: Any, x: str, random: np.random.Generator
) -> tuple[Any, float]:
    """A direction along which two steps tell the same change: others cross a kink and are drawn again."""
    at = wide.feeds[x]
    for _ in range(10 * DIRECTIONS):
        way = random.normal(size=at.shape)
        change, finer = (_change(wide, session, x, step * way) / step for step in (_STEP, _STEP / 2))
        if change == pytest.approx(finer, rel=1e-6, abs=1e-7):
            return way, change
    raise AssertionError("every direction crosses a kink")


def _change(wide: ModelGradient, session: Any, x: str, way: Any) -> float:
    ends = []
    for sign in (1, -1):
        values = session.run(list(wide.model.ys), {**wide.feeds, x: wide.feeds[x] + sign * way})
        ends.append(sum(np.vdot(w, value) for w, value in zip(wide.weights, values, strict=True)))
    return float(ends[0] - ends[1]) / 2
