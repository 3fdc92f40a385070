"""`fe.train.fit` tells mistakes before the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.train.fit_models import model


def test_a_facade_of_another_kind_is_refused() -> None:
    one = model()
    wanted = pytest.raises(fe.errors.InvalidArgumentError, match=r"fe\.blocking\.fit\(")
    with fe.blocking.Session(one.graph) as session, wanted:
        fe.train.fit(session, one.step, {})  # type: ignore[arg-type, unused-coroutine]


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
