"""`fe.train.fit` makes the steps of a hand-written loop, of data in any form, and shows how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.train.fitting import epochs
from flowengine.train.progress.loop_progress import LoopProgress
from tests.train.fit_models import Model, model, points, variables_of


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


async def test_an_error_in_validation_ends_its_work_ahead_before_it_is_raised() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    closed: list[bool] = []

    def rows() -> Iterator[Any]:
        try:
            while True:
                yield np.full(1, np.nan, np.float32)
        finally:
            closed.append(True)

    validation = fe.data.Dataset.from_generator(rows, ["float32"], [[1]]).prefetch(2)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="in the validation of epoch 1"):
            await fe.train.fit(
                session,
                fe.identity(x),
                {x: np.ones(2, np.float32)},
                inputs=x,
                fetches={"mean": fe.reduce_mean(x)},
                validation=validation,
                quiet=True,
            )
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
