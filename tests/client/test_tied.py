"""Tables that are read both by rows and whole: kinds of gradients, norms, losses beside TensorFlow 1.15."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.client import tied_cases as cases

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("tied_of_tensorflow.json").read_text())


def hidden_of(graph: fe.Graph, model: str, table: Any, words: fe.Tensor) -> fe.Tensor:
    """(BATCH, COLUMNS) what a model makes of the table and of the two words of each row."""
    ops, ids = graph.ops, words[:, :2]
    if model == "loop":

        def body(count: Any, state: Any) -> Any:
            rows = fe.embedding.lookup(table, fe.gather(ids, count, axis=1))
            again = fe.matmul(fe.tanh(fe.matmul(rows, table, transpose_b=True)), table)
            return count + 1, fe.tanh(state + rows + again)

        start = (graph.constant(0), fe.zeros([cases.BATCH, cases.COLUMNS], graph=graph))
        found: fe.Tensor = graph.while_loop(lambda count, state: count < 2, body, start)[1]
        return found
    if model == "conditional":
        chosen: fe.Tensor = graph.cond(
            fe.equal(words[0, 0] % 2, 0),
            lambda: fe.reduce_sum(fe.embedding.lookup(table, ids), 1),
            lambda: fe.matmul(fe.one_hot(ids[:, 0], cases.ROWS), table),
        )
        return chosen
    if model == "negated":
        rows = fe.gather(ops.BiasAdd(-table.value(), np.ones(cases.COLUMNS, np.float32)), ids)
    elif model == "reshaped":
        parts = fe.gather(fe.reshape(table.value(), [cases.ROWS, 2, 2]), ids)
        rows = fe.reshape(parts, [cases.BATCH, 2, cases.COLUMNS])
    else:
        rows = fe.embedding.lookup(table, ids)
    return fe.tanh(fe.reduce_sum(rows, 1))


def loss_of(graph: fe.Graph, model: str, use_resource: bool) -> tuple[fe.Tensor, fe.Tensor, list[Any]]:
    """A model's words, its loss, and the variables of its table."""
    partitioner = fe.partitioners.fixed_size(2) if model == "partitioned" else None
    table: Any = graph.variable(cases.START, name="E", use_resource=use_resource, partitioner=partitioner)
    words = graph.placeholder("int32", [cases.BATCH, 3], name="words")
    if model == "called":

        @fe.function(graph, ["int32"])
        def looked_up(ids: fe.Tensor) -> fe.Tensor:
            rows: fe.Tensor = ids.graph.ops.ResourceGather(table.handle, ids, dtype="float32")
            return fe.tanh(fe.reduce_sum(rows, 1))

        hidden = looked_up(words[:, :2])
    else:
        hidden = hidden_of(graph, model, table, words)
    is_tied = model in ("tied", "loop", "conditional", "partitioned", "called")
    logits = fe.matmul(hidden, table.value() if is_tied else cases.START, transpose_b=True)
    loss = fe.reduce_mean(fe.nn.sparse_softmax_cross_entropy_with_logits(labels=words[:, 2], logits=logits))
    if model == "decayed":
        loss = loss + 0.1 * fe.nn.l2_loss(table)
    return words, loss, list(table.parts) if model == "partitioned" else [table]


def clipped(gradients: list[Any], kind: str) -> list[Any]:
    bound = cases.CLIPS[kind]
    if kind == "none":
        return gradients
    if kind == "global_norm":
        return fe.clip_by_global_norm(gradients, bound)[0]
    if kind == "value":
        return [fe.clip_by_value(each, -bound, bound) for each in gradients]
    clip = fe.clip_by_norm if kind == "norm" else fe.clip_by_average_norm
    return [clip(each, bound) for each in gradients]


def trained(model: str, name: str, clip: str, use_resource: bool) -> dict[str, Any]:
    """Train a case, and return the values that TensorFlow's script records of it."""
    graph = fe.Graph()
    step = graph.variable(0, name="global_step", dtype="int64", trainable=False, use_resource=use_resource)
    words, loss, variables = loss_of(graph, model, use_resource)
    kind, _, arguments, _ = cases.OPTIMIZERS[name]
    extra = {"global_step": step} if kind == "AdaGradDA" else {}
    optimizer = getattr(fe.optimizers, kind)(**arguments, **extra)
    pairs = optimizer.compute_gradients(loss, variables)
    gradients = [gradient for gradient, _ in pairs]
    norm = fe.global_norm(gradients)
    new = clipped(gradients, clip)
    train = optimizer.apply_gradients(zip(new, variables, strict=True), global_step=step)
    losses, norms = [], []
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for batch in cases.WORDS:
            before, length = session.run([loss, norm], {words: batch})
            losses.append(before)
            norms.append(length)
            session.run([], {words: batch}, targets=[train])
    return {
        "kinds": [type(each).__name__ for each in gradients],
        "clipped": [type(each).__name__ for each in new],
        "losses": [losses[at] for at in cases.SEEN],
        "norms": [norms[at] for at in cases.SEEN],
    }


def check(found: dict[str, Any], recorded: dict[str, Any]) -> None:
    assert (found["kinds"], found["clipped"]) == (recorded["kinds"], recorded["clipped"])
    np.testing.assert_allclose(found["losses"], recorded["losses"], rtol=2e-5)
    np.testing.assert_allclose(found["norms"], recorded["norms"], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("case", cases.cases(), ids="/".join)
def test_training_goes_as_in_tensorflow(case: tuple[str, str, str], use_resource: bool) -> None:
    check(trained(*case, use_resource), RECORDED["/".join(case)])


@pytest.mark.parametrize("clip", ["none", "global_norm"])
def test_a_table_that_a_function_looks_up_trains_as_without_the_call(clip: str) -> None:
    check(trained("called", cases.MAIN, clip, True), RECORDED[f"tied/{cases.MAIN}/{clip}"])
