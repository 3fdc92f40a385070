"""`fe.train.fit`: the steps of a hand-written loop, numbers by epoch, the best epoch, and restarts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.train.fitting import epochs
from flowengine.train.progress.loop_progress import LoopProgress


class Model(NamedTuple):
    """A small regression: what a test needs of its graph."""

    graph: fe.Graph
    x: Any
    y: Any
    weight: Any
    loss: Any
    error: Any
    step: Any


def model(rate: float = 0.05) -> Model:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    y = graph.placeholder("float32", [None, 1], name="y")
    weight = graph.variable(np.array([[0.5], [-0.25]], np.float32), name="weight")
    found = x @ weight
    loss = fe.reduce_mean(fe.square(found - y), name="loss")
    error = fe.metrics.mean_absolute_error(y, found)
    return Model(graph, x, y, weight, loss, error, fe.optimizers.Adam(rate).minimize(loss))


def points(count: int, seed: int = 0) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=[count, 2]).astype(np.float32)
    return x, (x @ np.array([[1.0], [2.0]], np.float32) + 0.1).astype(np.float32)


def variables_of(graph: fe.Graph, session: fe.blocking.Session) -> dict[str, Any]:
    """Every variable's value, by name; those of metrics apart."""
    return {each.name: session.run(each.value()) for each in graph.collection("variables")}


def by_hand(
    one: Model, data: Mapping[Any, Any], epochs: int, size: int, *, seed: int | None, drop_last: bool
) -> tuple[list[list[tuple[float, int]]], dict[str, Any]]:
    """The losses of each step of each epoch, and the variables at the end, by `session.run` alone."""
    losses = []
    rows = len(next(iter(data.values())))
    with fe.blocking.Session(one.graph) as session:
        session.initialize()
        for epoch in range(epochs):
            order = np.arange(rows)
            if seed is not None:
                order = np.random.default_rng([seed, epoch]).permutation(rows)
            of_epoch = []
            for start in range(0, rows, size):
                part = order[start : start + size]
                if drop_last and len(part) < size:
                    break
                feed = {key: value[part] for key, value in data.items()}
                of_epoch.append((float(session.run(one.loss, feed, targets=[one.step])), len(part)))
            losses.append(of_epoch)
        return losses, variables_of(one.graph, session)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 12),
    size=st.integers(1, 6),
    epochs=st.integers(1, 3),
    seed=st.none() | st.integers(0, 5),
    drop_last=st.booleans(),
)
def test_values_are_those_of_a_loop_by_hand(
    rows: int, size: int, epochs: int, seed: int | None, drop_last: bool
) -> None:
    drop_last = drop_last and rows >= size
    one = model()
    x, y = points(rows)
    data = {one.x: x, one.y: y}
    losses, wanted = by_hand(one, data, epochs, size, seed=seed, drop_last=drop_last)
    with fe.blocking.Session(one.graph) as session:
        history = fe.blocking.fit(
            session,
            one.step,
            data,
            epochs=epochs,
            batch_size=size,
            shuffle=seed is not None,
            seed=seed or 0,
            drop_last=drop_last,
            fetches={"loss": one.loss},
            quiet=True,
        )
        found = variables_of(one.graph, session)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert history.steps == sum(map(len, losses))
    means = [sum(a * n for a, n in epoch) / sum(n for _, n in epoch) for epoch in losses]
    assert history["loss"] == pytest.approx(means, rel=1e-12)


def test_layers_move_as_by_hand() -> None:
    """Moving averages and dropout, beside metrics and validation: every variable has the same value."""

    def built() -> tuple[fe.Graph, Any, Any, Any, Any, Any, Any]:
        graph = fe.Graph()
        graph.seed = 3
        images = graph.placeholder("float32", [None, 6, 6, 1])
        digits = graph.placeholder("int32", [None])
        training = graph.placeholder("bool", [])
        h = fe.layers.conv2d(images, 4, 3, use_bias=False)
        h = fe.nn.relu(fe.layers.batch_normalization(h, training=training, momentum=0.9))
        h = fe.layers.dropout(fe.layers.flatten(h), 0.2, training=training)
        logits = fe.layers.dense(h, 3)
        loss = fe.losses.sparse_softmax_cross_entropy(digits, logits)
        with graph.control_dependencies(graph.collection("update_ops")):
            step = fe.optimizers.Momentum(0.1, 0.9).minimize(loss)
        accuracy = fe.metrics.accuracy(digits, fe.argmax(logits, 1, output_type="int32"))
        return graph, images, digits, training, loss, step, accuracy

    numbers = np.random.default_rng(1)
    labels = numbers.integers(0, 3, 20).astype(np.int32)
    pictures = numbers.normal(labels[:, None, None, None], size=[20, 6, 6, 1]).astype(np.float32)
    graph, images, digits, training, loss, step, _ = built()
    with fe.blocking.Session(graph) as session:
        session.initialize()
        before = variables_of(graph, session)
        for _ in range(3):
            for start in range(0, 20, 8):
                rows = slice(start, start + 8)
                feed = {images: pictures[rows], digits: labels[rows], training: True}
                session.run(loss, feed, targets=[step])
            # It draws random numbers, too.
            session.run(loss, {images: pictures[:7], digits: labels[:7], training: False})
        wanted = variables_of(graph, session)
    graph, images, digits, training, loss, step, accuracy = built()
    with fe.blocking.Session(graph) as session:
        history = fe.blocking.fit(
            session,
            step,
            (pictures, labels),
            inputs=[images, digits],
            epochs=3,
            batch_size=8,
            shuffle=False,
            fetches=loss,
            metrics={"accuracy": accuracy},
            feeds={training: True},
            validation=(pictures[:7], labels[:7]),
            validation_feeds={training: False},
            quiet=True,
        )
        found = variables_of(graph, session)
    assert list(history.numbers) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert not np.array_equal(value, before[name]), name


async def test_data_in_any_form_gives_the_same() -> None:
    one = model()
    x, y = points(10)
    dataset = fe.data.Dataset.from_slices(x, y).batch(4)
    unknown = fe.data.Dataset.from_generator(
        lambda: ((x[at : at + 4], y[at : at + 4]) for at in range(0, 10, 4)), ["float32", "float32"]
    )
    found = []
    forms: list[tuple[Any, Any, dict[str, Any]]] = [
        ({one.x: x, "y": y.tolist()}, None, {"batch_size": 4, "shuffle": False}),
        ({"x:0": x, one.y: y}, None, {"batch_size": 4, "shuffle": False}),
        ((x, y), [one.x, "y:0"], {"batch_size": 4, "shuffle": False}),
        (dataset, (one.x, one.y), {}),
        (unknown, (one.x, one.y), {}),
    ]
    for data, inputs, options in forms:
        async with fe.Session(one.graph) as session:
            history = await fe.train.fit(
                session,
                [one.step],
                data,
                inputs=inputs,
                epochs=2,
                fetches={"loss": one.loss},
                metrics={"error": one.error},
                validation=data,
                quiet=True,
                **options,
            )
            found.append((history.numbers, history.steps, (await session.run(one.weight.value())).tolist()))
    assert found[0][1] == 6
    assert all(each == found[0] for each in found)


async def test_metrics_begin_anew_with_each_epoch_and_with_validation() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None])
    scale = graph.placeholder("float32", [])
    mean = fe.metrics.mean(x * scale)
    total = graph.variable(0.0, name="total")
    rows = np.array([1, 2, 6], np.float32)
    async with fe.Session(graph) as session:
        history = await fe.train.fit(
            session,
            total.assign_add_op(fe.reduce_sum(x)),
            {x: rows},
            epochs=3,
            batch_size=2,
            fetches={"mean": fe.reduce_mean(x), "one": graph.constant(1, "int32")},
            metrics={"metric": mean},
            feeds={scale: lambda epoch: epoch + 1.0},
            validation={x: rows[:1]},
            validation_feeds={scale: 10.0},
            quiet=True,
        )
        assert await session.run(total.value()) == 27
    assert history["mean"] == [3, 3, 3]
    assert history["one"] == [1, 1, 1]
    assert history["metric"] == [3, 6, 9]
    assert history["val_metric"] == [10, 10, 10]
    assert (len(history), history.steps, history.reason, history.best_epoch) == (3, 6, "epochs", None)


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


async def test_cancelled_it_leaves_the_session_usable_and_its_data_closed() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    total = graph.variable(0.0, name="total")
    step = total.assign_add_op(fe.reduce_sum(x))
    closed: list[bool] = []

    def rows() -> Iterator[Any]:
        try:
            for _ in range(9):
                yield np.ones(1, np.float32)
        finally:
            closed.append(True)

    class Cancelling(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            if state.step == 3:
                scope.cancel()

    data = fe.data.Dataset.from_generator(rows, ["float32"], [[1]]).prefetch(2)
    async with fe.Session(graph) as session:
        with trio.CancelScope() as scope:
            await fe.train.fit(session, step, data, inputs=x, hooks=[Cancelling()])
        assert scope.cancelled_caught
        assert await session.run(total.value()) == 3
        await fe.train.fit(session, step, {x: np.ones(2, np.float32)}, quiet=True)
        assert await session.run(total.value()) == 5
    assert closed == [True]


async def test_an_error_ends_the_work_ahead_before_it_is_raised() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    closed: list[bool] = []

    def rows() -> Iterator[Any]:
        try:
            while True:
                yield np.ones(1, np.float32)
        finally:
            closed.append(True)

    class Failing(fe.train.Hook):
        async def after_step(self, state: fe.train.LoopState) -> None:
            raise ZeroDivisionError

    data = fe.data.Dataset.from_generator(rows, ["float32"], [[1]]).prefetch(2)
    async with fe.Session(graph) as session:
        with pytest.raises(ZeroDivisionError):
            await fe.train.fit(session, fe.identity(x), data, inputs=x, hooks=[Failing()])
        assert closed == [True]


def test_a_fit_shows_its_epochs_and_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    one = model()
    x, y = points(5)
    with fe.blocking.Session(one.graph) as session:
        data = {one.x: x, one.y: y}
        history = fe.blocking.fit(session, one.step, data, epochs=2, fetches=one.loss, patience=1)
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"{history}\n")
        fe.blocking.fit(session, one.step, data, quiet=True)
        assert capsys.readouterr().err == ""


def test_progress_says_the_epoch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]

    class Passing(fe.train.Hook):
        async def before_step(self, state: fe.train.LoopState) -> None:
            now[0] += 10.0

    def with_clock(*, quiet: bool, clock: Any) -> LoopProgress:
        return LoopProgress(quiet=quiet, clock=lambda: now[0])

    monkeypatch.setattr(epochs, "LoopProgress", with_clock)
    one = model()
    x, _ = points(4)
    data = {one.x: x, one.y: np.array([[1], [1], [3], [3]], np.float32)}
    with fe.blocking.Session(one.graph) as session:
        history = fe.blocking.fit(
            session,
            one.step,
            data,
            epochs=2,
            batch_size=2,
            shuffle=False,
            fetches={"mean": fe.reduce_mean(one.y)},
            validation={one.x: x[:1], one.y: np.array([[9]], np.float32)},
            hooks=[Passing()],
        )
    first, second, third, fourth, last, *table = capsys.readouterr().err.splitlines()
    assert first == "epoch 1/2, step 1 of 4, 0.1 steps/s, 30 s left, mean 1"
    assert second == "epoch 1/2, step 2 of 4, 0.1 steps/s, 20 s left, mean 2, val_mean 9"
    assert third == "epoch 2/2, step 3 of 4, 0.1 steps/s, 10 s left, mean 1, val_mean 9"
    assert fourth == "epoch 2/2, step 4 of 4, 0.1 steps/s, 0 s left, mean 2, val_mean 9"
    assert last == "epoch 2/2, step 4 of 4, 0.1 steps/s, took 40 s, mean 2, val_mean 9"
    assert "\n".join(table) == str(history)


def test_a_facade_of_another_kind_is_refused() -> None:
    one = model()
    wanted = pytest.raises(fe.errors.InvalidArgumentError, match=r"fe\.blocking\.fit\(")
    with fe.blocking.Session(one.graph) as session, wanted:
        fe.train.fit(session, one.step, {})  # type: ignore[arg-type, unused-coroutine]


# -- history ----------------------------------------------------------------------------------------


def test_a_history_is_a_table() -> None:
    history = fe.train.TrainingHistory({"loss": [0.51234, 0.25], "val_<a>": [3.0, 1e-7]}, [1.0, 0.254], 4)
    assert str(history).splitlines() == [
        "epoch    loss  val_<a>  seconds",
        "    1  0.5123        3     1.00",
        "    2    0.25    1e-07     0.25",
    ]
    assert repr(history) == "<TrainingHistory of 2 epochs, loss 0.25, val_<a> 1e-07>"
    assert "<th>val_&lt;a&gt;</th>" in history._repr_html_()
    with pytest.raises(fe.errors.InvalidArgumentError, match="no 'los'; did you mean loss"):
        history["los"]
    assert bool(fe.train.TrainingHistory())
    assert str(fe.train.TrainingHistory()) == "epoch  seconds"


@given(st.integers(0, 60), st.integers(0, 59))
def test_a_table_is_short_and_has_the_best(count: int, best: int) -> None:
    numbers = [float(each) for each in range(count)]
    history = fe.train.TrainingHistory({"loss": numbers}, numbers, monitor="loss")
    history.best_epoch = best if best < count else None
    lines = str(history).splitlines()
    assert len(lines) <= 19
    shown = [line.split()[0] for line in lines[1:] if line.split()[0][0] in "*0123456789"]
    if best < count:
        assert f"*{best + 1}" in shown
        assert lines[-1] == "* the best 'loss'"
    assert shown[-2 if best < count else -1 :] == [] or count == 0 or str(count) in "".join(shown)


# -- mistakes ---------------------------------------------------------------------------------------

ROWS = np.zeros([6, 2], np.float32)
ONES = np.ones([6, 1], np.float32)


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        ({"x": ROWS, "y": ONES[:3]}, {}, "different numbers of rows: x has 6, y has 3"),
        ({"x": ROWS}, {}, "nothing feeds the placeholder 'y', which the training step needs"),
        ({"x": ROWS, "yy": ONES}, {}, "data: the graph has no tensor 'yy:0' or 'yy': did you mean 'y'"),
        ({"x": ROWS, "y": ONES}, {"feeds": {"z": 1}}, "feeds=: the graph has no tensor 'z:0'"),
        ({"x": ROWS[:0], "y": ONES[:0]}, {}, "data gives no batch: its arrays have no rows"),
        ({"x": ROWS, "y": ONES}, {"batch_size": 9, "drop_last": True}, "6 rows, fewer than batch_size=9"),
        ({"x": ROWS, "y": 3.0}, {}, "'y' of data is 3.0, which has no rows"),
        ({"x": [[1.0], [1.0, 2.0]], "y": ONES}, {}, "'x' of data has rows of different lengths"),
        ({}, {}, "data is empty"),
        (None, {}, "data is a NoneType: give"),
        ((ROWS, ONES), {}, "does not say which placeholders"),
        ((ROWS, ONES), {"inputs": ["x"]}, "data has 2 arrays, and inputs= names 1 placeholders"),
        ({"x": ROWS, "y": ONES, "y:0": ONES}, {}, "'y:0' is fed twice"),
        ({"x": ROWS, "y": ONES}, {"feeds": {"y": ONES}}, "'y:0' is fed twice"),
        ({"x": ROWS, "y": ONES}, {"epochs": 0}, "epochs=0 must be at least 1"),
        ({"x": ROWS, "y": ONES}, {"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"x": ROWS, "y": ONES}, {"patience": 0}, "patience=0 must be at least 1"),
        ({"x": ROWS, "y": ONES}, {"patience": 1, "min_delta": -1}, "min_delta=-1 must not be negative"),
        ({"x": ROWS, "y": ONES}, {"monitor": "los"}, "no epoch measures that; did you mean loss"),
        ({"x": ROWS, "y": ONES}, {"monitor": "val_loss"}, "no epoch measures that; did you mean loss"),
        ({"x": ROWS, "y": ONES}, {"monitor": "error"}, "is a metric: say whether its best='highest'"),
        ({"x": ROWS, "y": ONES}, {"fetches": None, "patience": 1}, "patience= needs a number to watch"),
        ({"x": ROWS, "y": ONES}, {"best": "low"}, "best is 'lowest' or 'highest', not 'low'"),
        ({"x": ROWS, "y": ONES}, {"validation": {"x": ROWS}}, "which the numbers of validation need"),
        ({"x": ROWS, "y": ONES}, {"validation_feeds": {"x": ROWS}}, "there is no validation="),
        ({"x": ROWS, "y": ONES}, {"fetches": ["loss:0"]}, "fetches= of an epoch need names"),
        ({"x": ROWS, "y": ONES}, {"fetches": {1: "loss:0"}}, "fetches= has 1 for a name"),
        ({"x": ROWS, "y": ONES}, {"fetches": {"error": "loss:0"}}, "both name 'error'"),
        ({"x": ROWS, "y": ONES}, {"fetches": {"a": "y:0"}}, r"fetches\['a'\] has the shape \[6, 1\]"),
        ({"x": ROWS, "y": ONES}, {"metrics": {"a": "loss:0"}}, r"metrics\['a'\] is a str: give what"),
        ({"x": ROWS * np.nan, "y": ONES}, {}, "'loss' is nan after step 1, in epoch 1: lower the rate"),
        (
            {"x": ROWS, "y": ONES},
            {"validation": {"x": ROWS, "y": ONES * np.inf}},
            "'loss' is inf in the validation of epoch 1",
        ),
    ],
)
def test_mistakes_are_told(data: Any, options: dict[str, Any], text: str) -> None:
    one = model()
    given_options = {"fetches": {"loss": one.loss}, "metrics": {"error": one.error}, "quiet": True} | options
    with fe.blocking.Session(one.graph) as session, pytest.raises(fe.errors.OpError, match=text):
        fe.blocking.fit(session, one.step, data, **given_options)


def test_numbers_that_are_not_finite_may_be_allowed() -> None:
    one = model()
    with fe.blocking.Session(one.graph) as session:
        data = {one.x: ROWS * np.nan, one.y: ONES}
        history = fe.blocking.fit(
            session, one.step, data, epochs=2, fetches=one.loss, patience=1, allow_nan=True, quiet=True
        )
    assert (len(history), history.best_epoch) == (1, None)


def test_datasets_that_cannot_be_gone_through_are_refused() -> None:
    one = model()
    rows = fe.data.Dataset.from_slices(ROWS, ONES)
    batches = rows.batch(2)
    passed = iter([[(ROWS, ONES)], []])
    once = fe.data.Dataset.from_generator(lambda: next(passed), ["float32", "float32"])
    with fe.blocking.Session(one.graph) as session:
        for dataset, options, text in [
            (batches.repeat(), {}, "data never ends"),
            (batches.take(0), {}, "the dataset has no element"),
            (once, {"epochs": 2}, "data gave no batch in epoch 2"),
            (
                fe.data.Dataset.from_slices(ROWS),
                {},
                "an element of data has 1 components, and inputs= names 2",
            ),
            (batches, {"batch_size": 2}, "batch_size= is for arrays"),
            (batches, {"shuffle": True}, "shuffle= is for arrays"),
            (batches, {"drop_last": True}, "drop_last= is for arrays"),
        ]:
            with pytest.raises(fe.errors.InvalidArgumentError, match=text):
                fe.blocking.fit(session, one.step, dataset, inputs=["x", "y"], **options)  # type: ignore[arg-type]
        with pytest.raises(
            fe.errors.InvalidArgumentError, match=r"for a function as step, use fe\.train\.loop"
        ):
            fe.blocking.fit(session, lambda session, number: None, {"x": ROWS})
