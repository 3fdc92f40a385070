"""Record the graphs that TensorFlow 2 writes of datasets whose functions use resources, and their elements.

    python record_captured.py captured_2.jsonl        # with an environment that has TensorFlow 2
    python record_captured.py --read dataset.pb       # shows the elements of a graph that another wrote

A line is {"name", "graph" (base64 of a zlib-compressed GraphDef of DatasetToGraphV2), "elements" (of two
runs through the dataset that DatasetFromGraph makes of it)}. Uses nothing of this project.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import zlib
from typing import Any

tf: Any = importlib.import_module("tensorflow")
gen: Any = importlib.import_module("tensorflow.python.ops.gen_dataset_ops")
lookup: Any = importlib.import_module("tensorflow.python.ops.gen_lookup_ops")
experimental: Any = importlib.import_module("tensorflow.python.ops.gen_experimental_dataset_ops")
dataset_ops: Any = importlib.import_module("tensorflow.python.data.ops.dataset_ops")


def pipelines() -> Any:
    ranged = tf.data.Dataset.range
    five, seven = (tf.Variable(value, dtype=tf.int64) for value in (5, 7))
    words = tf.lookup.KeyValueTensorInitializer(["a", "b"], [10, 20], value_dtype=tf.int64)
    static = tf.lookup.StaticHashTable(words, -1)
    mutable = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    mutable.insert([0, 2], [7, 8])
    empty = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    pairs = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, [-1, -2])
    pairs.insert([1], [[3, 4]])
    generator = tf.random.Generator.from_seed(3)

    def counted(x: Any) -> Any:
        mutable.insert(x, x)
        return mutable.size()

    yield "variable", ranged(3).map(lambda x: x + five)
    yield "changed_variable", ranged(3).map(lambda x: five.assign_add(x))
    yield (
        "two_variables",
        tf.data.Dataset.zip((ranged(3).map(lambda x: x + five), ranged(3).map(lambda y: y * seven))).map(
            lambda a, b: a * 100 + b
        ),
    )
    yield "table", tf.data.Dataset.from_tensor_slices(["a", "c", "b"]).map(static.lookup)
    yield "mutable_table", ranged(3).map(mutable.lookup)
    yield "changed_table", ranged(3).map(counted)
    yield "empty_table", ranged(3).map(empty.lookup)
    yield "table_of_vectors", ranged(3).map(lambda x: pairs.lookup(x)[1])
    yield "random_numbers", ranged(3).map(lambda x: x + generator.uniform([], 0, 100, tf.int64))
    yield "shuffled", ranged(6).shuffle(6, seed=2, reshuffle_each_iteration=False)
    yield "cached", ranged(3).map(lambda x: five.assign_add(x)).cache()


def elements_of(graph: Any, element_spec: Any) -> list[int]:
    again = dataset_ops._VariantDataset(experimental.dataset_from_graph(graph), element_spec)
    return [int(element) for _ in range(2) for element in again]


def main(path: str) -> None:
    with open(path, "w") as file:
        for name, dataset in pipelines():
            graph = gen.dataset_to_graph_v2(dataset._variant_tensor, external_state_policy=1).numpy()
            text = base64.b64encode(zlib.compress(graph, 9)).decode()
            elements = elements_of(graph, dataset.element_spec)
            file.write(json.dumps({"name": name, "graph": text, "elements": elements}) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        with open(sys.argv[2], "rb") as written:
            print(json.dumps(elements_of(written.read(), tf.TensorSpec([], tf.int64))))
    else:
        main(*sys.argv[1:])
