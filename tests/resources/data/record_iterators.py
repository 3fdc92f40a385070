"""Record what TensorFlow's iterators give from step to step: graphs, and the steps of a session with results.

    python record_iterators.py iterators.jsonl        # with an environment that has TensorFlow 1.15

A line is {"name", "graph" (base64 of a zlib-compressed GraphDef), "steps"}; a step is [fetches, targets,
results or {"error": class}]. Values are written as `record_pipelines.py` writes them.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import zlib
from typing import Any

tf: Any = importlib.import_module("tensorflow")
shown: Any = importlib.import_module("record_pipelines").shown
tf1 = tf.compat.v1
tf1.disable_eager_execution()
D = tf1.data.Dataset


class Recorder:
    """Runs steps and notes them."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.steps: list[Any] = []

    def run(self, fetches: Any, targets: Any = ()) -> None:
        fetches, targets = list(fetches), list(targets)
        result: Any
        try:
            result = [shown(value) for value in self.session.run([fetches, targets])[0]]
        except tf.errors.OpError as error:
            result = {"error": type(error).__name__}
        self.steps.append([[f.name for f in fetches], [t.name for t in targets], result])


def main() -> None:
    with open(sys.argv[1], "w") as file:
        for name, make in CASES.items():
            with tf1.Graph().as_default() as graph, tf1.Session() as session:
                file.flush()
                recorder = Recorder(session)
                make(recorder)
                text = base64.b64encode(zlib.compress(graph.as_graph_def().SerializeToString(), 9)).decode()
            file.write(json.dumps({"name": name, "graph": text, "steps": recorder.steps}) + "\n")


def reinitialisable(r: Any) -> None:
    iterator = tf1.data.Iterator.from_structure(tf.int64, [])
    one, two = D.range(3), D.range(10, 12)
    first, second = iterator.make_initializer(one), iterator.make_initializer(two)
    following = iterator.get_next()
    r.run([following])
    for initializer in (first, second, first):
        r.run([], [initializer])
        for _ in range(4):
            r.run([following])


def one_shot(r: Any) -> None:
    iterator = tf1.data.make_one_shot_iterator(D.range(2).map(lambda x: x + 5))
    following = iterator.get_next()
    for _ in range(4):
        r.run([following, following + 1])


def shared_name(r: Any) -> None:
    iterator = tf1.data.make_initializable_iterator(D.range(4), shared_name="shared")
    other = tf1.data.Iterator.from_structure(tf.int64, [], shared_name="shared")
    r.run([], [iterator.initializer])
    for _ in range(2):
        r.run([iterator.get_next()])
        r.run([other.get_next()])


def fixed_shape(r: Any) -> None:
    iterator = tf1.data.Iterator.from_structure(tf.int64, [3])
    r.run([], [iterator.make_initializer(D.from_tensors(tf.constant([1, 2, 3], tf.int64)))])
    r.run([iterator.get_next()])


def as_optional(r: Any) -> None:
    iterator = tf1.data.make_initializable_iterator(D.range(2))
    optional = tf1.data.experimental.get_next_as_optional(iterator)
    r.run([], [iterator.initializer])
    for _ in range(3):
        r.run([optional.has_value()])


def multi_device(r: Any) -> None:
    ops = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
    iterator = ops.MultiDeviceIterator(D.range(7), ["/cpu:0", "/cpu:0"])
    first, second = iterator.get_next()
    r.run([], [iterator.initializer])
    for _ in range(3):
        r.run([first])
        r.run([second])
    r.run([first])
    r.run([second])
    r.run([first])


def in_while(r: Any) -> None:
    iterator = tf1.data.make_initializable_iterator(D.range(20))
    total = tf1.while_loop(
        lambda i, s: i < 5,
        lambda i, s: (i + 1, s + iterator.get_next()),
        [0, tf.constant(0, tf.int64)],
        parallel_iterations=1,
    )[1]
    r.run([], [iterator.initializer])
    r.run([total])
    r.run([total])


def map_defun(r: Any) -> None:
    ops = importlib.import_module("tensorflow.python.data.experimental.ops.map_defun")
    function = importlib.import_module("tensorflow.python.eager.function")
    double = function.defun(lambda x: x * 2 + 1, input_signature=[tf.TensorSpec([2], tf.int32)])
    rows = tf.constant([[1, 2], [3, 4], [5, 6]])
    made = ops.map_defun(double, [rows], [tf.int32], [[2]])
    r.run(made)


def graph_and_back(r: Any) -> None:
    gen = importlib.import_module("tensorflow.python.ops.gen_dataset_ops")
    exp = importlib.import_module("tensorflow.python.ops.gen_experimental_dataset_ops")
    dataset = D.range(4).map(lambda x: x * 3).batch(2)
    graph = gen.dataset_to_graph(dataset._variant_tensor)
    again = (exp if hasattr(exp, "dataset_from_graph") else gen).dataset_from_graph(graph)
    iterator = tf1.data.Iterator.from_structure(tf.int64, [None])
    init = gen.make_iterator(again, iterator._iterator_resource)
    r.run([], [init])
    for _ in range(3):
        r.run([iterator.get_next()])


def cardinalities(r: Any) -> None:
    cardinality = tf1.data.experimental.cardinality
    made = [
        D.range(7),
        D.range(7).repeat(2),
        D.range(7).repeat(),
        D.range(7).filter(lambda x: x > 2),
        D.range(7).batch(2),
        D.range(7).batch(2, drop_remainder=True).take(2),
        D.range(7).skip(3).shard(2, 1),
        D.zip((D.range(4), D.range(2))),
        D.range(3).concatenate(D.range(4)).shuffle(2),
    ]
    r.run([cardinality(each) for each in made])


CASES: Any = {
    "reinitialisable": reinitialisable,
    "one_shot": one_shot,
    "shared_name": shared_name,
    "fixed_shape": fixed_shape,
    "as_optional": as_optional,
    "multi_device": multi_device,
    "in_while": in_while,
    "map_defun": map_defun,
    "graph_and_back": graph_and_back,
    "cardinalities": cardinalities,
}

if __name__ == "__main__":
    main()
