"""Record the cases of `recorded/`: graphs built and run by TensorFlow 1.15, with what it returned.

    PYTHON-WITH-TENSORFLOW-1.15 tests/conformance/record.py [CASE...]

Needs nothing of this project, so that it runs under the old Python that TensorFlow 1.15 needs. Writes a
folder a case: `graph.pb`, `case.json`, `values.npz` (see `tests.tools.recorded`). Integers, booleans
and strings are compared exactly, floats within a few units in the last place of a float32.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CASES: dict[str, Callable[[Any, Any], None]] = {}


def case(build: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Register a function that builds a graph with `tf` and makes runs with a `Recorder`."""
    CASES[build.__name__] = build
    return build


class Recorder:
    """Runs a graph and keeps what went in and came out."""

    def __init__(self, tf: Any, name: str) -> None:
        self._tf = tf
        self._name = name
        self._session: Any = None
        self._runs: list[dict[str, Any]] = []
        self._values: dict[str, bytes] = {}

    def run(
        self,
        fetches: Sequence[Any] = (),
        feeds: Any = None,
        targets: Sequence[Any] = (),
        rtol: float = 2e-5,
        atol: float = 1e-6,
    ) -> Any:
        """`Session.run`, recorded, in the one session of the case; returns values, or None for an error."""
        tf = self._tf
        if self._session is None:
            options = tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0)
            config = tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=options))
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            self._session = tf.Session(config=config)
        feeds = {
            tensor.name: np.asarray(value, tensor.dtype.base_dtype.as_numpy_dtype)
            for tensor, value in (feeds or {}).items()
        }
        entry: dict[str, Any] = {
            "feeds": {name: self._store(value) for name, value in feeds.items()},
            "fetches": [tensor.name for tensor in fetches],
            "targets": [operation.name for operation in targets],
        }
        self._runs.append(entry)
        try:
            values = self._session.run(list(fetches) + list(targets), feeds)[: len(fetches)]
        except tf.errors.OpError as error:
            entry["error"] = {"class": type(error).__name__, "message": error.message.splitlines()[0]}
            return None
        entry["expect"] = [self._expect(value, rtol, atol) for value in values]
        return values

    def _expect(self, value: Any, rtol: float, atol: float) -> dict[str, Any]:
        stored = self._store(value)
        if np.asarray(value).dtype.kind in "fc":
            return {"value": stored, "compare": "close", "rtol": rtol, "atol": atol}
        return {"value": stored, "compare": "exact"}

    def _store(self, value: Any) -> dict[str, Any]:
        if isinstance(value, (bytes, str)):
            value = np.array(value, dtype=object)
        value = np.asarray(value)
        if value.dtype.kind in "OSU":
            strings = [s if isinstance(s, bytes) else s.encode() for s in value.ravel().tolist()]
            return {"bytes_b64": [base64.b64encode(s).decode() for s in strings], "shape": list(value.shape)}
        member = f"a{len(self._values)}.npy"
        data = io.BytesIO()
        np.lib.format.write_array(data, value, version=(1, 0), allow_pickle=False)
        self._values[member] = data.getvalue()
        return {"npy": member}

    def save(self, folder: Path) -> None:
        graph = self._tf.get_default_graph().as_graph_def()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "graph.pb").write_bytes(graph.SerializeToString(deterministic=True))
        description = {
            "id": self._name,
            "suite": "recorded",
            "graph": "graph.pb",
            "recorded_with": f"TensorFlow {self._tf.__version__}",
            "ops": sorted({node.op for node in graph.node}),
            "runs": self._runs,
        }
        (folder / "case.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        with zipfile.ZipFile(str(folder / "values.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in self._values.items():
                # A fixed date: recording again must give the same bytes.
                archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def noise(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).uniform(-2, 2, shape).astype(np.float32)


@case
def arithmetic(tf: Any, r: Recorder) -> None:
    a = tf.placeholder(tf.int32, [None], "a")
    b = tf.placeholder(tf.int32, [None], "b")
    x, y = tf.cast(a, tf.float32), tf.cast(b, tf.float32)
    fetches = [a + b, a - b, a * b, a // b, a % b, tf.truncatediv(a, b), tf.truncatemod(a, b)]
    fetches += [x / y, x // y, x % y, tf.pow(x, 2.0), tf.maximum(a, b), tf.squared_difference(a, b), -a]
    fetches += [tf.equal(a, b), a < b, tf.logical_xor(a < b, a > 0), tf.add_n([a, b, a]), tf.sign(a), abs(x)]
    r.run(fetches, {a: [7, -7, 7, -7, 2**31 - 1], b: [2, 2, -2, -2, 3]})
    r.run(fetches, {a: [5], b: [1, 2, 3]})
    r.run(fetches, {a: [], b: []})
    r.run([fetches[3]], {a: [1, 2], b: [1, 0]})
    r.run([fetches[0]], {a: [1, 2], b: [1, 2, 3]})


@case
def casts(tf: Any, r: Recorder) -> None:
    x = tf.constant([-1.9, -0.5, 0.0, 0.5, 1.5, 2.5, 127.9], name="x")
    n = tf.constant([-1, 0, 1, 255, 256, 70000, -(2**31)], name="n")
    r.run([tf.cast(x, t) for t in (tf.int32, tf.int64, tf.float64, tf.float16, tf.bool, tf.complex64)])
    r.run([tf.cast(n, t) for t in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.float32, tf.bool, tf.int64)])
    r.run(
        [tf.round(x), tf.rint(x), tf.floor(x), tf.ceil(x), tf.bitcast(x, tf.int32), tf.bitcast(n, tf.uint8)]
    )


@case
def nan_and_infinity(tf: Any, r: Recorder) -> None:
    x = tf.constant([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], name="x")
    y = tf.constant([1.0, np.nan, np.inf, 0.0, 1.0, -0.0], name="y")
    r.run([tf.minimum(x, y), tf.maximum(x, y), x / y, tf.div_no_nan(x, y), tf.math.xlogy(x, y)])
    r.run([tf.is_nan(x), tf.is_inf(x), tf.is_finite(x), tf.sign(x), tf.sqrt(x), tf.log(x), tf.equal(x, x)])
    r.run([tf.reduce_max(x), tf.reduce_min(y), tf.reduce_sum(x), tf.reduce_all(tf.equal(x, x))])
    r.run([tf.check_numerics(x, "seen")])
    r.run([tf.check_numerics(tf.zeros([2]), "unseen")])


@case
def complex_numbers(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.complex64, [None, None], "x")
    fetches = [x * x, x / (x + 1), tf.exp(x), tf.sqrt(x), tf.reduce_sum(x, 0), tf.matmul(x, x), tf.log1p(x)]
    fetches += [tf.square(x), tf.reciprocal(x), tf.tanh(x)]
    r.run(fetches, {x: (noise(3, 3) + 1j * noise(3, 3, seed=1)) / 2})


@case
def bytes_and_text(tf: Any, r: Recorder) -> None:
    s = tf.placeholder(tf.string, [None], "s")
    fixed = tf.constant([b"a\0", b"", b"\xff\xfe", "Grüße".encode()], name="fixed")
    one = tf.constant(b"ends in zero\0\0", name="one")
    both = tf.concat([fixed, s], 0)
    r.run(
        [both, tf.equal(s, fixed), tf.gather(both, [1, 0]), tf.stack([one, one]), one],
        {s: [b"a", b"", b"x\0", b"\xff"]},
    )
    r.run([tf.size(s), tf.shape(both), tf.identity(one), tf.unique(both)[1]], {s: [b"", b"", b"a\0"]})


@case
def hostile_constants(tf: Any, r: Recorder) -> None:
    texts = [
        b"'''\"\"\"\\",
        b"__import__('os')",
        b"{0}%s%(x)s${y}",
        b"\n\r\t\0",
        b"# ]; raise SystemExit",
        "\u202e\u2028".encode(),
    ]
    nodes = []
    for i, text in enumerate(texts):
        with tf.name_scope(f"lambda.import-{i}/None.def_"):
            nodes.append(tf.concat([tf.constant([text]), [text]], 0, name="eval"))
            nodes[-1].op._set_attr("_note", tf.AttrValue(s=text))
    r.run(nodes)


@case
def reductions(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, None, None], "x")
    n = tf.cast(x * 10, tf.int32)
    reducers = (tf.reduce_sum, tf.reduce_mean, tf.reduce_prod, tf.reduce_max)
    axes: Any = (None, 0, [1, -1], [], [0, 1, 2])
    fetches = [reduce(x, axis, keepdims=axis == 0) for axis in axes for reduce in reducers]
    fetches += [
        tf.reduce_min(n, 1),
        tf.reduce_sum(n),
        tf.reduce_mean(n, 2),
        tf.reduce_any(n > 5, 0),
        tf.reduce_all(n > -99),
    ]
    fetches += [
        tf.argmax(x, 1),
        tf.argmin(n, -1, output_type=tf.int32),
        tf.cumsum(x, 1, exclusive=True, reverse=True),
    ]
    r.run(fetches, {x: noise(2, 3, 4)})
    r.run(fetches[:4] + fetches[8:12], {x: noise(2, 0, 4)})
    r.run([fetches[-3]], {x: noise(2, 0, 4)})


@case
def matrices(tf: Any, r: Recorder) -> None:
    a = tf.placeholder(tf.float32, [None, None], "a")
    b = tf.placeholder(tf.float32, [None, None], "b")
    fetches = [tf.matmul(a, b), tf.matmul(a, a, transpose_a=True), tf.matmul(b, b, transpose_b=True)]
    fetches += [
        tf.matmul(b, a, transpose_a=True, transpose_b=True),
        tf.diag_part(tf.matmul(a, b)),
        tf.matrix_band_part(a, 1, 0),
    ]
    batch = tf.stack([a, a + 1])
    fetches += [
        tf.matmul(batch, tf.stack([b, -b])),
        tf.matmul(batch, batch, transpose_b=True),
        tf.matrix_diag(a),
        tf.linalg.set_diag(a, tf.zeros(tf.minimum(tf.shape(a)[0], tf.shape(a)[1])[None])),
    ]
    r.run(fetches, {a: noise(3, 4), b: noise(4, 3, seed=1)})
    r.run(fetches[:3], {a: noise(3, 0), b: noise(0, 2)})
    r.run(fetches[:1], {a: noise(3, 4), b: noise(3, 4)})


@case
def shaping(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, None], "x")
    n = tf.placeholder(tf.int32, [], "n")
    parts = tf.split(x, 2, axis=1)
    fetches = [
        tf.reshape(x, [n, -1]),
        tf.transpose(x),
        tf.expand_dims(x, -2),
        tf.squeeze(tf.expand_dims(x, 0)),
        tf.tile(x, [2, n]),
    ]
    fetches += [
        *parts,
        *tf.unstack(tf.reshape(x, [2, 12])),
        tf.concat([x, x], 1),
        tf.stack([x, x], -1),
        tf.pad(x, [[1, 0], [0, n]]),
    ]
    fetches += [
        tf.reverse(x, [1]),
        tf.shape(x),
        tf.rank(x),
        tf.size(x),
        tf.fill([n, 2], 7),
        tf.range(0, n * 3, 2),
        tf.one_hot([0, 2, -1], n),
    ]
    fetches += [
        tf.broadcast_to(x[:1], [5, 6]),
        tf.reverse_sequence(x, [1, 2, 0, 6], 1, 0),
        tf.zeros_like(x),
        tf.where(x > 0, x, -x),
    ]
    r.run(fetches, {x: noise(4, 6), n: 3})
    r.run(fetches[:1], {x: noise(4, 6), n: 5})
    r.run(fetches[:1], {x: noise(0, 6), n: 0})


@case
def slicing(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, None, None], "x")
    i = tf.placeholder(tf.int32, [], "i")
    fetches = [
        x[0],
        x[i],
        x[-1, 1:],
        x[..., 0],
        x[:, tf.newaxis, ::-1],
        x[i:, ::2, -3:-1],
        x[5:2],
        tf.slice(x, [0, i, 0], [-1, 1, 2]),
    ]
    loss = tf.add_n([tf.reduce_sum(f * f) for f in fetches])
    r.run([*fetches, tf.gradients(loss, x)[0]], {x: noise(3, 4, 5), i: 1})
    r.run([fetches[1]], {x: noise(3, 4, 5), i: 3})
    r.run([fetches[-1]], {x: noise(3, 4, 5), i: 4})


@case
def gathering(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, None], "x")
    ids = tf.placeholder(tf.int32, [None], "ids")
    parts = tf.dynamic_partition(x, tf.mod(tf.range(tf.shape(x)[0]), 2), 2)
    where = tf.dynamic_partition(tf.range(tf.shape(x)[0]), tf.mod(tf.range(tf.shape(x)[0]), 2), 2)
    fetches = [tf.gather(x, ids), tf.gather(x, ids, axis=1), tf.gather_nd(x, tf.stack([ids, ids], 1)), *parts]
    fetches += [
        tf.dynamic_stitch(where, parts),
        tf.scatter_nd(ids[:, None], tf.gather(x, ids), tf.shape(x)),
        tf.unsorted_segment_sum(x, tf.zeros_like(x[:, 0], tf.int32), 2),
    ]
    fetches += [*tf.unique(ids), *tf.setdiff1d(ids, [1]), tf.where(x > 0), tf.invert_permutation([2, 0, 1])]
    r.run(fetches, {x: noise(4, 4), ids: [3, 1, 1, 0]})
    r.run(fetches[:1], {x: noise(4, 4), ids: [4]})
    r.run(fetches[2:3], {x: noise(4, 4), ids: [0, -1]})
    r.run(fetches[:2], {x: noise(4, 4), ids: []})


@case
def conditional(tf: Any, r: Recorder) -> None:
    p = tf.placeholder(tf.bool, [], "p")
    x = tf.placeholder(tf.float32, [None], "x")
    y = tf.cond(p, lambda: tf.tanh(x), lambda: tf.reduce_sum(x) * tf.ones_like(x))
    z = tf.cond(tf.reduce_all(y > 0), lambda: (y, tf.constant(1)), lambda: (-y, tf.constant(2)))
    fetches = [y, *z, tf.gradients(y, x)[0], tf.gradients(z[0], x)[0]]
    for truth in (True, False):
        r.run(fetches, {p: truth, x: [0.5, 2.0]})
        r.run(fetches, {p: truth, x: [-0.5, 0.25]})


@case
def dead_values(tf: Any, r: Recorder) -> None:
    p = tf.placeholder(tf.bool, [], "p")
    control_flow = importlib.import_module("tensorflow.python.ops.control_flow_ops")
    off, on = control_flow.switch(tf.constant([1.0, 2.0]), p)
    tail = tf.tanh(on) + 1.0
    with tf.control_dependencies([tail]):
        after = tf.constant(3.0, name="after")
    merged = control_flow.merge([off, tail])
    with tf.control_dependencies([after]):
        kept = control_flow.merge([off, tail])
    for truth in (True, False):
        r.run([*merged], {p: truth})
        r.run([*kept], {p: truth})
        r.run([tail], {p: truth})
        r.run([after], {p: truth})
        r.run([], {p: truth}, targets=[after.op])


@case
def while_loop(tf: Any, r: Recorder) -> None:
    n = tf.placeholder(tf.int32, [], "n")
    x = tf.placeholder(tf.float32, [], "x")
    i, y = tf.while_loop(
        lambda i, y: i < n, lambda i, y: (i + 1, y * x + 1.0), [0, 1.0], parallel_iterations=2
    )
    fetches = [i, y, *tf.gradients(y, [x])]
    for count in (0, 1, 2, 7, 40):
        r.run(fetches, {n: count, x: 0.75})


@case
def nested_while(tf: Any, r: Recorder) -> None:
    n = tf.placeholder(tf.int32, [], "n")
    x = tf.placeholder(tf.float32, [2], "x")

    def outer(i: Any, v: Any) -> Any:
        _, v = tf.while_loop(
            lambda j, _: j < i,
            lambda j, w: (j + 1, tf.tanh(w) + x * tf.cast(i, tf.float32)),
            [0, v],
            parallel_iterations=3,
        )
        return i + 1, v

    i, v = tf.while_loop(lambda i, _: i < n, outer, [0, x])
    fetches = [i, v, *tf.gradients(v, [x])]
    for count in (0, 1, 2, 5):
        r.run(fetches, {n: count, x: [0.5, -0.25]})


@case
def conditional_in_while(tf: Any, r: Recorder) -> None:
    n = tf.placeholder(tf.int32, [], "n")
    x = tf.placeholder(tf.float32, [3], "x")

    def body(i: Any, v: Any) -> Any:
        v = tf.cond(
            tf.equal(i % 2, 0),
            lambda: v * x,
            lambda: tf.cond(tf.reduce_sum(v) > 0, lambda: v - 1.0, lambda: tf.sin(v)),
        )
        return i + 1, v

    i, v = tf.while_loop(lambda i, _: i < n, body, [0, x])
    fetches = [i, v, *tf.gradients(v, [x])]
    for count in (0, 1, 6):
        r.run(fetches, {n: count, x: [0.5, -0.25, 1.5]})


@case
def while_in_conditional(tf: Any, r: Recorder) -> None:
    p = tf.placeholder(tf.bool, [], "p")
    x = tf.placeholder(tf.float32, [], "x")

    def loop() -> Any:
        return tf.while_loop(lambda v: v < 100.0, lambda v: v * 3.0 + 1.0, [x])

    y = tf.cond(p, loop, lambda: x - 1.0)
    fetches = [y, *tf.gradients(y, [x])]
    r.run(fetches, {p: True, x: 1.0})
    r.run(fetches, {p: False, x: 1.0})
    r.run(fetches, {p: True, x: 1000.0})


@case
def tensor_arrays(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, 2], "x")
    steps = tf.shape(x)[0]
    source = tf.TensorArray(tf.float32, size=steps).unstack(x)
    sink = tf.TensorArray(tf.float32, size=steps, clear_after_read=False)

    def body(i: Any, state: Any, out: Any) -> Any:
        state = tf.tanh(state + source.read(i))
        return i + 1, state, out.write(i, state)

    _, state, sink = tf.while_loop(lambda i, *_: i < steps, body, [0, tf.zeros([2]), sink])
    stacked = sink.stack()
    fetches = [
        state,
        stacked,
        sink.size(),
        sink.gather([0, 0]),
        *tf.gradients(tf.reduce_sum(stacked * stacked), [x]),
    ]
    r.run(fetches, {x: noise(5, 2)})
    r.run(fetches, {x: noise(1, 2)})
    split = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(x, [1, 2])
    r.run([split.read(0), split.read(1)], {x: noise(3, 2)})
    r.run([tf.TensorArray(tf.float32, size=2).unstack(x).read(5)], {x: noise(2, 2)})


@case
def recurrent_network(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, None, 3], "x")
    lengths = tf.placeholder(tf.int32, [None], "lengths")
    w = tf.Variable(noise(7, 16, seed=3) / 2, name="w")
    init = tf.zeros([tf.shape(x)[0], 4])

    def body(t: Any, c: Any, h: Any) -> Any:
        gates = tf.matmul(tf.concat([x[:, t], h], 1), w)
        i, j, f, o = tf.split(gates, 4, 1)
        c2 = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        live = t < lengths
        return t + 1, tf.where(live, c2, c), tf.where(live, tf.tanh(c2) * tf.sigmoid(o), h)

    _, c, h = tf.while_loop(lambda t, *_: t < tf.shape(x)[1], body, [0, init, init])
    loss = tf.reduce_mean(tf.square(h - 0.5))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    feeds = {x: noise(2, 5, 3), lengths: [5, 2]}
    r.run([], targets=[tf.global_variables_initializer()])
    r.run([c, h, loss], feeds)
    for _ in range(3):
        r.run([loss], feeds, targets=[train])
    r.run([w.read_value()], rtol=1e-4, atol=1e-5)


@case
def reference_variables(tf: Any, r: Recorder) -> None:
    v = tf.Variable(tf.constant([1.0, 2.0, 3.0]), name="v", use_resource=False)
    n = tf.Variable(10, name="n", use_resource=False)
    with tf.control_dependencies([v.assign_add([1.0, 1.0, 1.0]), n.assign_sub(3)]):
        after = [v.read_value() * 2.0, n.read_value()]
    r.run([v.read_value()])
    r.run([tf.is_variable_initialized(v)])
    r.run([], targets=[tf.global_variables_initializer()])
    r.run([tf.is_variable_initialized(v), v.read_value()])
    r.run(after)
    r.run(after)
    r.run([v.assign([5.0, 6.0, 7.0])])
    r.run([v.read_value(), n.read_value()])
    r.run([tf.assign(v, [1.0], validate_shape=False)])
    r.run([tf.shape(v.read_value()), tf.count_up_to(n, 6)])
    r.run([tf.count_up_to(n, 6)])
    r.run([tf.count_up_to(n, 6)])
    r.run([tf.scatter_update(v, [3], [1.0])])


@case
def resource_variables(tf: Any, r: Recorder) -> None:
    v = tf.Variable(tf.constant([[1.0, 2.0], [3.0, 4.0]]), name="v", use_resource=True)
    with tf.control_dependencies([v.assign_add([[1.0, 1.0], [1.0, 1.0]])]):
        first = v.read_value()
    with tf.control_dependencies([first]), tf.control_dependencies([v.assign_sub(first * 0.5)]):
        second = v.read_value()
    r.run([v.read_value()])
    r.run([v.is_initialized()])
    r.run([], targets=[tf.global_variables_initializer()])
    r.run([v.is_initialized(), v.read_value(), v.sparse_read([1, 0])])
    r.run([first, second])
    r.run([first, second])
    r.run([], targets=[v.assign([[0.0, 0.0], [0.0, 1.0]]).op])
    r.run([v.read_value(), tf.gradients(tf.reduce_sum(v * v), v)[0]])


@case
def scatter_updates(tf: Any, r: Recorder) -> None:
    v = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]), name="v", use_resource=False)
    ids = tf.placeholder(tf.int32, [None], "ids")
    rows = tf.placeholder(tf.float32, [None, 3], "rows")
    r.run([], targets=[tf.global_variables_initializer()])
    feeds = {ids: [1, 3, 1], rows: noise(3, 3)}
    for scatter in (tf.scatter_add, tf.scatter_sub, tf.scatter_mul, tf.scatter_min, tf.scatter_max):
        r.run([scatter(v, ids, rows)], feeds)
    r.run([tf.scatter_update(v, ids, rows)], {ids: [0, 2], rows: noise(2, 3)})
    r.run([tf.scatter_nd_add(v, ids[:, None], rows)], feeds)
    r.run([tf.scatter_nd_update(v, [[0, 1], [3, 2]], [10.0, 20.0])])
    r.run([tf.scatter_add(v, ids, rows)], {ids: [4], rows: noise(1, 3)})
    r.run([v.read_value()])


@case
def variables_in_loops(tf: Any, r: Recorder) -> None:
    v = tf.Variable(0.0, name="v", use_resource=False)
    n = tf.placeholder(tf.int32, [], "n")

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(v, tf.cast(i, tf.float32))]):
            return i + 1, total + v.read_value()

    i, total = tf.while_loop(lambda i, _: i < n, body, [0, 0.0], parallel_iterations=1)
    with tf.control_dependencies([total]):
        end = v.read_value()
    r.run([], targets=[v.initializer])
    r.run([i, total, end], {n: 4})
    r.run([i, total, end], {n: 4})
    r.run([i, total, end], {n: 0})


@case
def queues(tf: Any, r: Recorder) -> None:
    q = tf.FIFOQueue(5, [tf.int32, tf.string], shapes=[[], []], name="q")
    number = tf.placeholder(tf.int32, [], "number")
    put = q.enqueue([number, b"one"])
    many = q.enqueue_many([[1, 2, 3], [b"a", b"b", b"c"]])
    get, get_two, get_up_to, size = q.dequeue(), q.dequeue_many(2), q.dequeue_up_to(3), q.size()
    r.run([size])
    r.run([], {number: 7}, targets=[put])
    r.run([], targets=[many])
    r.run([size])
    r.run([*get])
    r.run([*get_two])
    r.run([], {number: 9}, targets=[put])
    r.run([], targets=[q.close()])
    r.run([], {number: 10}, targets=[put])
    r.run([*get_up_to])
    r.run([*get_two])
    r.run([*get])
    r.run([size])


@case
def convolutional_training(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 2], "x")
    labels = tf.placeholder(tf.int64, [None], "labels")
    f1 = tf.Variable(noise(3, 3, 2, 4, seed=1) / 4, name="f1")
    b1 = tf.Variable(tf.zeros([4]), name="b1")
    w = tf.Variable(noise(64, 5, seed=2) / 8, name="w")
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, f1, [1, 1, 1, 1], "SAME"), b1))
    h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    logits = tf.matmul(tf.reshape(h, [-1, 64]), w)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.int32))
    feeds = {x: noise(6, 8, 8, 2), labels: [0, 1, 2, 3, 4, 0]}
    r.run([], targets=[tf.global_variables_initializer()])
    r.run([logits, loss, right, *tf.gradients(loss, [x, f1, b1, w])], feeds, atol=1e-5)
    for _ in range(4):
        r.run([loss], feeds, targets=[train], rtol=1e-4)
    r.run([f1.read_value(), b1.read_value(), w.read_value(), right], feeds, rtol=1e-3, atol=1e-4)
    r.run([loss], {x: noise(2, 8, 8, 2), labels: [0, 5]})


@case
def perceptron_training(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None, 6], "x")
    y = tf.placeholder(tf.float32, [None, 3], "y")
    h, size, kept = x, 6, []
    for i, width in enumerate([5, 3]):
        w = tf.Variable(noise(size, width, seed=i) / 3, name=f"w{i}", use_resource=False)
        b = tf.Variable(tf.zeros([width]), name=f"b{i}", use_resource=False)
        kept += [w, b]
        h = tf.matmul(tf.nn.relu(h) if i else h, w) + b
        size = width
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(y), logits=h))
    steps = [
        tf.train.AdagradOptimizer(0.1).minimize(loss),
        tf.train.GradientDescentOptimizer(0.1).minimize(loss),
    ]
    feeds = {x: noise(4, 6), y: np.eye(4, 3)}
    r.run([], targets=[tf.global_variables_initializer()])
    for _ in range(3):
        for step in steps:
            r.run([loss], feeds, targets=[step], rtol=1e-4)
    r.run([v.read_value() for v in kept] + [tf.nn.log_softmax(h)], feeds, rtol=1e-3, atol=1e-4)


@case
def partial_runs(tf: Any, r: Recorder) -> None:
    a = tf.placeholder(tf.float32, [None], "a")
    b = tf.placeholder_with_default(tf.constant([1.0, 2.0]), [None], "b")
    c = tf.add(a, b, name="c")
    count = tf.Variable(0, name="count", use_resource=False)
    with tf.control_dependencies([tf.assign_add(count, 1)]):
        d = tf.multiply(c, c, name="d")
    parts = tf.split(d, 2)
    total = parts[0] + parts[1]
    r.run([], targets=[count.initializer])
    r.run([total], {a: [1.0, 2.0]})
    r.run([total, count.read_value() + 0], {d: [10.0, 20.0]})
    r.run([total], {c: [10.0, 20.0]})
    r.run([total], {parts[0]: [5.0], a: [1.0, 1.0]})
    r.run([c, a], {a: [3.0], b: [4.0]})
    r.run([c])
    r.run([c], {a: [1.0, 2.0, 3.0]})
    r.run([count.read_value()])


@case
def failures(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.int32, [None], "x")
    v = tf.Variable([1, 2], name="v", use_resource=False)
    w = tf.Variable([1, 2], name="w", use_resource=True)
    checked = tf.Assert(tf.reduce_all(x > 0), [x, "must be positive"])
    with tf.control_dependencies([checked]):
        fine = tf.identity(x)
    r.run([fine], {x: [1, 2]})
    r.run([fine], {x: [1, -2]})
    r.run([v.read_value() + 1])
    r.run([w.read_value() + 1])
    r.run([x // 0], {x: [1]})
    r.run([tf.reshape(x, [2, 2])], {x: [1, 2, 3]})
    r.run([tf.concat([x[:, None], tf.zeros([2, 3, 1], tf.int32)[0]], 1)], {x: [1, 2, 3, 4]})
    r.run([tf.gather([1, 2, 3], x)], {x: [5]})
    r.run([tf.ensure_shape(x, [3])], {x: [5]})
    r.run([tf.stack([x, x[1:]])], {x: [1, 2, 3]})
    r.run([tf.range(0, 10, x[0])], {x: [0]})
    r.run([tf.fill(x, 1.0)], {x: [-1]})
    r.run([fine], {x: [3]})


@case
def control_order(tf: Any, r: Recorder) -> None:
    # Each read is added to: in TensorFlow a plain read shares the variable's buffer and may change later.
    v = tf.Variable(1.0, name="v", use_resource=False)
    with tf.control_dependencies([v.initializer]):
        one = v.read_value() + 0.0
    with tf.control_dependencies([one]):
        step1 = v.assign(one * 10.0)
    with tf.control_dependencies([step1]):
        two = v.read_value() + 0.0
    with tf.control_dependencies([two]):
        step2 = v.assign_add(5.0)
    with tf.control_dependencies([step2]):
        three = v.read_value() + 0.0
    everything = tf.group(step1, step2)
    r.run([one, two, three])
    r.run([three, two])
    r.run([], targets=[everything])
    r.run([three])


@case
def temporary_variable(tf: Any, r: Recorder) -> None:
    gen = importlib.import_module("tensorflow.python.ops.gen_state_ops")
    x = tf.placeholder(tf.float32, [2], "x")
    ref = gen.temporary_variable([2], tf.float32, var_name="scratch")
    filled = tf.assign(ref, x)
    doubled = tf.assign_add(filled, x)
    r.run([gen.destroy_temporary_variable(doubled, "scratch")], {x: [1.0, 2.5]})
    r.run([gen.destroy_temporary_variable(doubled, "scratch")], {x: [3.0, 4.0]})


@case
def activations(tf: Any, r: Recorder) -> None:
    x = tf.placeholder(tf.float32, [None], "x")
    functions = [
        tf.exp,
        tf.tanh,
        tf.sigmoid,
        tf.sin,
        tf.cos,
        tf.atan,
        tf.asin,
        tf.sinh,
        tf.cosh,
        tf.expm1,
        tf.square,
    ]
    functions += [tf.nn.relu, tf.log1p, tf.sqrt, tf.rsqrt, tf.reciprocal, tf.log]
    ys = [f(x) for f in functions]
    r.run([*ys, *[tf.gradients(y, x)[0] for y in ys]], {x: [0.1, 0.25, 0.5, 0.9]}, rtol=5e-5)


@case
def broadcast_gradients(tf: Any, r: Recorder) -> None:
    a = tf.placeholder(tf.float32, [None, None], "a")
    b = tf.placeholder(tf.float32, [None], "b")
    ys = [
        a + b,
        a - b,
        a * b,
        a / b,
        tf.maximum(a, b),
        tf.squared_difference(a, b),
        tf.where(a > 0, a * b, a),
    ]
    fetches = [g for y in ys for g in tf.gradients(y, [a, b])]
    r.run(fetches, {a: noise(3, 4), b: noise(4, seed=1) + 3})
    r.run(fetches, {a: noise(3, 1), b: noise(4, seed=1) + 3})
    r.run(fetches, {a: noise(3, 4), b: noise(1, seed=1) + 3})


@case
def collatz(tf: Any, r: Recorder) -> None:
    start = tf.placeholder(tf.int64, [], "start")

    def body(n: Any, steps: Any) -> Any:
        return tf.cond(tf.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1), steps + 1

    n, steps = tf.while_loop(lambda n, _: n > 1, body, [start, tf.constant(0)], parallel_iterations=4)
    for value in (1, 6, 27):
        r.run([n, steps], {start: value})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all, unless named")
    names = parser.parse_args().cases or list(CASES)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf: Any = importlib.import_module("tensorflow")
    tf.logging.set_verbosity(tf.logging.ERROR)
    for name in names:
        with tf.Graph().as_default():
            recorder = Recorder(tf, name)
            CASES[name](tf, recorder)
            recorder.save(Path(__file__).parent / "recorded" / name)
        print(name)


if __name__ == "__main__":
    main()
