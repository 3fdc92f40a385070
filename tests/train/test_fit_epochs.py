"""`fe.train.fit` keeps and restores the best epoch, stops early, and goes on after a restart."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.train.fit_models import model, points, variables_of


def scored(scores: list[float]) -> tuple[fe.Graph, Any, Any, Any]:
    """A graph whose step counts, and whose number in epoch n is the n-th score."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    score = graph.placeholder("float32", [], name="score")
    count = graph.variable(0.0, name="count")
    return graph, score, count, count.assign_add_op(fe.reduce_sum(x))


async def fit_scores(scores: list[float], **options: Any) -> tuple[fe.train.TrainingHistory, float]:
    graph, score, count, step = scored(scores)
    async with fe.Session(graph) as session:
        history = await fe.train.fit(
            session,
            step,
            {"x": np.ones(2, np.float32)},
            epochs=len(scores),
            batch_size=1,
            fetches={"score": fe.identity(score)},
            feeds={score: lambda epoch: scores[epoch]},
            quiet=True,
            **options,
        )
        return history, float(await session.run(count.value()))


async def test_patience_ends_and_the_best_epoch_is_restored(tmp_path: Path) -> None:
    scores = [5.0, 3.0, 4.0, 3.5, 1.0]
    history, count = await fit_scores(scores, patience=2)
    assert history.reason == "'score' has not been better than 3 for 2 epochs"
    assert (len(history), history.best_epoch, history.best_checkpoint, history.steps) == (4, 1, None, 8)
    assert count == 4
    history, count = await fit_scores(scores, patience=2, restore_best=False)
    assert (history.best_epoch, count) == (1, 8)
    history, count = await fit_scores(scores, patience=3)
    assert (history.reason, history.best_epoch, count) == ("epochs", 4, 10)
    history, count = await fit_scores(scores, best="highest", restore_best=True)
    assert (history.reason, history.best_epoch, count) == ("epochs", 0, 2)
    history, count = await fit_scores([5.0, 6.0, 4.0, 6.0, 7.0, 1.0], patience=2)
    assert (len(history), history.best_epoch, count) == (5, 2, 6)
    history, count = await fit_scores([5.0, 4.9, 4.8, 4.7], patience=2, min_delta=0.5)
    assert (len(history), history.best_epoch, count) == (3, 2, 6)
    history, count = await fit_scores(scores[:4], directory=tmp_path / "run")
    assert (history.best_epoch, count) == (1, 8)
    assert history.best_checkpoint == str(tmp_path / "run" / "model.ckpt-4")
    assert fe.train.latest_checkpoint(str(tmp_path / "run")) == str(tmp_path / "run" / "model.ckpt-8")
    kept = {each.partition(".ckpt-")[2].partition(".")[0] for each in os.listdir(tmp_path / "run")}
    assert kept == {"", "4", "8"}


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=5), st.sampled_from(["lowest", "highest"])
)
def test_the_best_checkpoint_is_that_of_the_best_epoch(scores: list[float], best: Any) -> None:
    with TemporaryDirectory() as folder:
        history, count = trio.run(lambda: fit_scores(scores, best=best, restore_best=True, directory=folder))
        assert history.best_epoch is not None
        assert scores[history.best_epoch] == (min if best == "lowest" else max)(scores)
        assert count == 2 * (history.best_epoch + 1)
        assert history.best_checkpoint == f"{folder}/model.ckpt-{int(count)}"


class Killing(fe.train.Hook):
    """Ends the program, as it were, after a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    async def after_step(self, state: fe.train.LoopState) -> None:
        if state.step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("killed_at", [1, 3, 4, 8])
def test_a_killed_program_goes_on_behind_its_last_epoch(tmp_path: Path, killed_at: int) -> None:
    x, y = points(10)

    def train(directory: Path, *hooks: Any, epochs: int = 3) -> tuple[Any, dict[str, Any]]:
        one = model()
        with fe.blocking.Session(one.graph) as session:
            history = fe.blocking.fit(
                session,
                one.step,
                {one.x: x, one.y: y},
                epochs=epochs,
                batch_size=4,
                fetches={"loss": one.loss},
                metrics={"error": one.error},
                validation={one.x: x[:3], one.y: y[:3]},
                directory=directory,
                hooks=hooks,
                quiet=True,
            )
            return history, variables_of(one.graph, session)

    whole, wanted = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", Killing(killed_at))
    history, found = train(tmp_path / "killed")
    assert history.numbers == whole.numbers
    assert (history.steps, history.best_epoch, len(history)) == (9, whole.best_epoch, 3)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
    again, _ = train(tmp_path / "killed")  # nothing is left to do
    assert (again.numbers, again.steps, again.reason) == (whole.numbers, 9, "epochs")
    more, _ = train(tmp_path / "killed", epochs=4)
    assert (len(more), more.steps) == (4, 12)


async def test_what_has_stopped_stays_stopped_and_other_numbers_are_refused(tmp_path: Path) -> None:
    scores = [5.0, 6.0, 7.0, 1.0]
    first, _ = await fit_scores(scores, patience=2, directory=tmp_path)
    again, _ = await fit_scores(scores, patience=2, directory=tmp_path)
    assert (len(first), len(again), again.reason) == (3, 3, first.reason)
    on, _ = await fit_scores(scores, patience=9, directory=tmp_path)
    assert (len(on), on.best_epoch) == (4, 3)
    with pytest.raises(fe.errors.InvalidArgumentError, match="are kept by the lowest 'score'"):
        await fit_scores(scores, best="highest", directory=tmp_path)
    graph, score, _, step = scored(scores)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"epochs have the numbers \['score'\]"):
            await fe.train.fit(
                session,
                step,
                {"x": np.ones(2, np.float32)},
                feeds={score: 1.0},
                fetches={"other": score},
                directory=tmp_path,
            )


async def test_a_checkpoint_of_another_program_is_where_the_first_epoch_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history, count = await fit_scores([1.0, 2.0], directory=tmp_path)
    assert count == 4
    for name in os.listdir(tmp_path):
        if name.endswith(".run"):
            os.remove(tmp_path / name)
    history, count = await fit_scores([1.0, 2.0], directory=tmp_path)
    assert (len(history), history.steps, count) == (2, 8, 8)
    assert "the checkpoint of step 4 knows of no epochs" in caplog.text


async def test_hooks_see_an_epoch_s_numbers() -> None:
    seen: list[Any] = []

    class Looking(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            seen.append((state.step, state.metrics.get("epoch_score"), state.value("score")))
            if state.step == 5:
                state.stop("seen enough")

    history, count = await fit_scores([1.0, 2.0, 3.0], hooks=[Looking()])
    assert seen == [(1, None, 1), (2, 1, 1), (3, 1, 2), (4, 2, 2), (5, 2, 3)]
    assert (history.reason, len(history), history.steps, count) == ("seen enough", 2, 5, 5)


async def test_a_training_that_a_hook_ends_has_its_best_epoch(tmp_path: Path) -> None:
    """The unfinished epoch is saved, too, but is no candidate for the best."""

    class Stopping(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            if state.step == 5:
                state.stop("seen enough")

    hooks = [Stopping()]
    history, count = await fit_scores(
        [3.0, 2.0, 1.0], hooks=hooks, restore_best=True, directory=str(tmp_path)
    )
    assert (history.best_epoch, len(history), count) == (1, 2, 4)
    assert history.best_checkpoint == os.path.join(tmp_path, "model.ckpt-4")
    assert fe.train.latest_checkpoint(str(tmp_path)) == os.path.join(tmp_path, "model.ckpt-5")
