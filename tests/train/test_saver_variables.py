"""Checkpoints of a graph whose variables were made by `graph.variable`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import flowengine as fe


def test_local_variables_are_left_out_and_parts_make_a_whole(tmp_path: Path) -> None:
    graph = fe.Graph()
    value = np.arange(10, dtype=np.float32).reshape(5, 2)
    parts = graph.variable(value, name="w", partitioner=fe.partitioners.fixed_size(2))
    graph.variable(3.0, name="v", use_resource=False)
    graph.variable(1.0, name="count", collections=["local_variables"], trainable=False)
    saver = fe.train.Saver()
    with fe.blocking.Session(graph) as session:
        session.initialize()
        prefix = session.call(saver.save, tmp_path / "model")
    assert [part.save_slice is not None for part in parts.parts] == [True, True]

    other = fe.Graph()
    w = other.variable(np.zeros([5, 2], np.float32), name="w")
    v = other.variable(0.0, name="v")
    with fe.blocking.Session(other) as session:
        session.call(fe.train.Saver([w, v]).restore, prefix)
        found, three = session.run([w.value(), v.value()])
    assert np.array_equal(found, value)
    assert three == 3

    third = fe.Graph()
    again = third.variable(
        fe.initializers.zeros(), shape=[5, 2], name="w", partitioner=fe.partitioners.fixed_size(3)
    )
    with fe.blocking.Session(third) as session:
        session.call(fe.train.Saver([again]).restore, prefix)
        assert np.array_equal(session.run(again.value()), value)
