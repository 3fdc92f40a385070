"""Record what TensorFlow's input pipelines give: graphs as its client builds them, and their elements.

    python record_pipelines.py pipelines_1.jsonl        # with an environment that has TensorFlow 1.15, or 2
    python record_pipelines.py parsing_1.jsonl --parsing   # those that parse records alone
    python record_pipelines.py numbered_2.jsonl --numbered   # those that ask for elements by number: 2 alone

A line is {"name", "graph" (base64 of a zlib-compressed GraphDef), "fetches", "init", "elements"}: elements
are lists of components, a component is [dtype, shape, values], or an element is {"error": class}. Uses
nothing of this project and no syntax newer than Python 3.7, since TensorFlow 1.15 needs that.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import tempfile
import zlib
from typing import Any

import numpy as np

tf: Any = importlib.import_module("tensorflow")
tf1 = tf.compat.v1
tf1.disable_eager_execution()
D = tf1.data.Dataset
V2 = tf.data.Dataset  #: Its maps promise as many elements as they are given.
X = tf1.data.experimental
IS_2 = tf.__version__.startswith("2")


def ranged(count: Any) -> Any:
    return D.range(count)


def nested() -> Any:
    return D.from_tensor_slices({"a": [1.0, 2.0, 3.0], "b": ([[1, 2], [3, 4], [5, 6]], [b"x", b"yy", b""])})


def ragged_vectors() -> Any:
    return D.range(1, 5).map(lambda n: tf.fill([n], n))


def failing(count: Any, bad: Any, kind: Any = D) -> Any:
    def check(x: Any) -> Any:
        with tf1.control_dependencies([tf1.debugging.assert_none_equal(x, np.int64(bad))]):
            return tf.identity(x)

    return kind.range(count).map(check)


def mod_keys(x: Any) -> Any:
    return x % 3


PIPELINES: Any = {
    "tensor": lambda: D.from_tensors(([1, 2], b"a")),
    "slices": nested,
    "sparse_slices": lambda: (
        D.from_sparse_tensor_slices(tf1.SparseTensor([[0, 1], [2, 0], [2, 3]], [1.5, 2.5, 3.5], [4, 5]))
        if hasattr(D, "from_sparse_tensor_slices")
        else D.range(1)
    ),
    "sparse_in_elements": lambda: D.from_tensor_slices(
        tf1.SparseTensor([[0, 1], [2, 0]], [1.5, 2.5], [3, 2])
    ).map(tf1.sparse_tensor_to_dense),
    "range_step": lambda: D.range(10, 0, -3),
    "map": lambda: ranged(5).map(lambda x: x * x),
    "map_tuple": lambda: nested().map(lambda e: (e["a"] * 2.0, e["b"][1])),
    "map_captured": lambda: ranged(3).map(lambda x, y=None: x + tf.constant(7, tf.int64)),
    "map_strings": lambda: ranged(4).map(lambda x: tf1.as_string(x) + "!"),
    "map_cond": lambda: ranged(6).map(lambda x: tf.cond(x % 2 > 0, lambda: x * 10, lambda: -x)),
    "map_loop": lambda: ranged(4).map(
        lambda x: tf1.while_loop(
            lambda i, s: i < x, lambda i, s: (i + 1, s + i), [tf.constant(0, tf.int64)] * 2
        )[1]
    ),
    "parallel_map": lambda: ranged(20).map(lambda x: x + 1, num_parallel_calls=4),
    "parallel_map_errors": lambda: failing(6, 3).map(lambda x: x * 2, num_parallel_calls=2),
    "map_error_goes_on": lambda: failing(5, 2),
    "ignored_errors": lambda: failing(6, 2).apply(X.ignore_errors()),
    "filter": lambda: ranged(10).filter(lambda x: x % 3 < 1),
    "flat_map": lambda: ranged(4).flat_map(lambda x: D.range(x).map(lambda y: y + 10 * x)),
    "interleave": lambda: ranged(5).interleave(lambda x: D.from_tensors(x).repeat(x), 3, 2),
    "interleave_empty": lambda: ranged(6).interleave(lambda x: D.range(x % 3), 2, 1),
    "parallel_interleave": lambda: ranged(7).interleave(
        lambda x: D.from_tensors(x).repeat(x), 3, 2, num_parallel_calls=2
    ),
    "experimental_interleave": lambda: ranged(6).apply(
        X.parallel_interleave(lambda x: D.from_tensors(x).repeat(3), 2, block_length=2)
    ),
    "batch": lambda: ranged(7).batch(3),
    "batch_drop": lambda: ranged(7).batch(3, drop_remainder=True),
    "batch_strings": lambda: D.from_tensor_slices([b"a", b"bb", b"ccc"]).batch(2),
    "batch_error": lambda: ragged_vectors().batch(2),
    "batch_matrices": lambda: D.from_tensor_slices(np.arange(24).reshape(4, 3, 2)).batch(3),
    "padded": lambda: ragged_vectors().padded_batch(3, padded_shapes=[None]),
    "padded_fixed": lambda: ragged_vectors().padded_batch(
        2, padded_shapes=[6], padding_values=np.int64(-1), drop_remainder=True
    ),
    "padded_too_small": lambda: ragged_vectors().padded_batch(2, padded_shapes=[3]),
    "unbatch": lambda: ranged(6).batch(4).apply(X.unbatch()),
    "take": lambda: ranged(6).take(4),
    "take_all": lambda: ranged(3).take(-1),
    "skip": lambda: ranged(6).skip(4),
    "skip_all": lambda: ranged(6).skip(-1),
    "repeat": lambda: ranged(3).repeat(2),
    "repeat_endless": lambda: ranged(3).repeat().take(8),
    "repeat_empty": lambda: ranged(0).repeat(),
    "concatenate": lambda: ranged(2).concatenate(D.range(10, 12)),
    "zip": lambda: D.zip((ranged(4), nested())),
    "shard": lambda: ranged(10).shard(3, 1),
    "prefetch": lambda: ranged(5).prefetch(2),
    "prefetch_errors": lambda: failing(5, 2).prefetch(3),
    "prefetch_tuned": lambda: ranged(5).prefetch(-1),
    "cache": lambda: ranged(4).cache().repeat(2),
    "cache_partly": lambda: ranged(4).cache().take(2).repeat(2),
    "scan": lambda: ranged(5).apply(X.scan(np.int64(1), lambda s, x: (s + x, s * x))),
    "take_while": lambda: ranged(8).apply(X.take_while(lambda x: x < 5)),
    "unique": lambda: ranged(9).map(mod_keys).apply(X.unique()),
    "window": lambda: ranged(8).window(3, shift=2).flat_map(lambda w: w.batch(3)),
    "window_drop": lambda: (
        ranged(8).window(3, shift=3, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(3))
    ),
    "window_big_shift": lambda: ranged(9).window(2, shift=4).flat_map(lambda w: w.batch(2)),
    "group_by_window": lambda: ranged(11).apply(
        X.group_by_window(mod_keys, lambda key, group: group.batch(3), window_size=3)
    ),
    "group_by_reducer": lambda: ranged(9).apply(
        X.group_by_reducer(
            mod_keys,
            X.Reducer(lambda key: np.int64(0), lambda state, x: state + x, lambda state: state),
        )
    ),
    "bucket_by_length": lambda: ragged_vectors().apply(
        X.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [2, 4], [2, 2, 2])
    ),
    "dense_to_sparse": lambda: ragged_vectors().apply(X.dense_to_sparse_batch(3, [6])),
    "map_and_batch": lambda: ranged(7).apply(X.map_and_batch(lambda x: x * 2, 3, num_parallel_calls=2)),
    "choose": lambda: X.choose_from_datasets(
        [D.range(3), D.range(10, 20)], D.from_tensor_slices(np.array([0, 1, 1, 0, 1, 0, 0, 1], np.int64))
    ),
    "sample": lambda: X.sample_from_datasets([D.range(5), D.range(10, 15)], [0.3, 0.7], seed=3),
    "rejection": lambda: (
        D.range(30).apply(
            X.rejection_resample(lambda x: tf.cast(x % 2, tf.int32), [0.3, 0.7], [0.5, 0.5], seed=4)
        )
        if not IS_2
        else D.range(3)
    ),
    "enumerate": lambda: D.range(5, 8).apply(X.enumerate_dataset(start=2)),
    "counter": lambda: X.Counter(3, 4).take(3),
    "random": lambda: X.RandomDataset(seed=3).take(4),
    "random_in_map": lambda: ranged(3).map(lambda x: tf1.random_uniform([2], seed=5)).repeat(2),
    "random_in_inner_map": lambda: ranged(2).flat_map(
        lambda x: D.range(2).map(lambda y: tf1.random_uniform([], seed=5))
    ),
    "shuffle": lambda: ranged(10).shuffle(4, seed=5),
    "shuffle_repeat": lambda: ranged(6).shuffle(6, seed=5).repeat(2),
    "shuffle_batch_repeat": lambda: ranged(6).shuffle(3, seed=5).batch(2).repeat(2),
    "shuffle_same": lambda: ranged(6).shuffle(6, seed=5, reshuffle_each_iteration=False).repeat(2),
    "shuffle_and_repeat": lambda: ranged(5).apply(X.shuffle_and_repeat(3, 2, seed=5)),
    "shuffle_inside": lambda: ranged(2).flat_map(lambda x: D.range(5).shuffle(5, seed=7).repeat(2)),
    "shuffle_twice": lambda: D.zip((ranged(5).shuffle(5, seed=1), ranged(5).shuffle(5, seed=2))),
    "reduced": lambda: D.from_tensors(0).map(
        lambda _: D.range(6).reduce(np.int64(100), lambda state, x: state + x)
    ),
    "single_element": lambda: D.from_tensors(0).map(lambda _: X.get_single_element(D.range(3).skip(2))),
    "options": lambda: ranged(3).with_options(options()),
    "optional": lambda: D.from_tensors(0).map(
        lambda _: tf1.data.experimental.Optional.from_value(np.int64(4)).get_value()
    ),
    "map_of_sequence_ops": lambda: ranged(3).map(lambda x: tf.reduce_sum(tf.range(x + 1) ** 2)),
    "deep": lambda: (
        ranged(40)
        .filter(lambda x: x % 2 < 1)
        .map(lambda x: (x, tf.fill([x % 3 + 1], x)), num_parallel_calls=3)
        .shuffle(8, seed=9)
        .padded_batch(4, padded_shapes=([], [None]))
        .prefetch(2)
        .repeat(2)
    ),
}


def rows(*wrong: int) -> Any:
    """Rows of CSV, some of them with a number that is none."""
    lines = [(f"{n},x{n},{n}.5" if n not in wrong else "no,x,1") for n in range(11)]
    return D.from_tensor_slices(lines)


def columns(line: Any) -> Any:
    return tf1.io.decode_csv(line, [[0], [""], [0.0]])


def records(*wrong: int) -> Any:
    """Serialised examples, some of which are none."""
    made = []
    for number in range(11):
        feature = {
            "n": tf1.train.Feature(int64_list=tf1.train.Int64List(value=[number])),
            "pair": tf1.train.Feature(float_list=tf1.train.FloatList(value=[number / 2, -number])),
            "some": tf1.train.Feature(int64_list=tf1.train.Int64List(value=range(number % 3))),
        }
        if number % 2:
            feature["word"] = tf1.train.Feature(bytes_list=tf1.train.BytesList(value=[b"w%d" % number]))
        example = tf1.train.Example(features=tf1.train.Features(feature=feature))
        made.append(b"no example" if number in wrong else example.SerializeToString())
    return D.from_tensor_slices(made)


def dense_features() -> Any:
    return {
        "n": tf1.io.FixedLenFeature([], tf.int64),
        "pair": tf1.io.FixedLenFeature([2], tf.float32),
        "word": tf1.io.FixedLenFeature([], tf.string, default_value="none"),
    }


def dense(record: Any) -> Any:
    return tf1.io.parse_single_example(record, dense_features())


def all_features() -> Any:
    found = dense_features()
    found["some"] = tf1.io.VarLenFeature(tf.int64)
    return found


def ragged_features() -> Any:
    found = dense_features()
    found["some"] = tf.io.RaggedFeature(tf.int64)
    return found


#: Those that parse records, one by one and many at once.
PARSING: Any = {
    "csv": lambda: rows().map(columns).batch(4),
    "csv_wrong": lambda: rows(2, 5).map(columns).batch(4),
    "csv_wrong_dropped": lambda: rows(2, 5).map(columns).batch(4, drop_remainder=True),
    "csv_parallel_wrong": lambda: rows(1, 6).map(columns, num_parallel_calls=2).batch(3),
    "csv_map_and_batch": lambda: rows().apply(X.map_and_batch(columns, 4, num_parallel_calls=1)),
    "csv_repeated": lambda: rows().map(columns).batch(4).repeat(2),
    "examples": lambda: records().map(dense).batch(4),
    "examples_wrong": lambda: records(0, 3, 4).map(dense).batch(4),
    "examples_prefetched": lambda: records().map(dense, num_parallel_calls=2).batch(4).prefetch(1),
    "examples_sparse": lambda: records().map(
        lambda record: tf1.sparse_tensor_to_dense(tf1.io.parse_single_example(record, all_features())["some"])
    ),
    "example_dataset": lambda: records().batch(4).apply(X.parse_example_dataset(all_features())),
    "example_dataset_parallel": lambda: (
        records(5).batch(3).apply(X.parse_example_dataset(all_features(), num_parallel_calls=3))
    ),
    "example_dataset_ragged": lambda: records().batch(4).apply(X.parse_example_dataset(ragged_features())),
}


def shuffled(dataset: Any, seed: Any = 42, **keywords: Any) -> Any:
    from tensorflow.python.data.experimental.ops import global_shuffle_op

    return global_shuffle_op._global_shuffle(dataset, seed=seed, **keywords)


def flattened(map_func: Any, index_map_func: Any, cardinality: Any = 12) -> Any:
    """Rows of four vectors of three numbers."""
    from tensorflow.python.data.ops import dataset_ops

    source = D.from_tensor_slices(np.arange(12).reshape(4, 3))
    mapped = tf.function(map_func, input_signature=[source.element_spec]).get_concrete_function()
    signature = [tf.TensorSpec([], tf.int64)]
    variant = tf.raw_ops.IndexFlatMapDataset(
        input_dataset=source._variant_tensor,
        map_func_other_args=[],
        index_map_func_other_args=[],
        output_cardinality=cardinality,
        map_func=mapped,
        index_map_func=tf.function(index_map_func, input_signature=signature).get_concrete_function(),
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return dataset_ops._VariantDataset(variant, tf.TensorSpec([], tf.int64))


def row_of(index: Any) -> Any:
    return index // 3, index % 3


def same(x: Any) -> Any:
    return x


#: Those that ask for elements by number.
NUMBERED: Any = {
    "shuffled": lambda: shuffled(D.range(10)),
    "shuffled_slices": lambda: shuffled(nested()),
    "shuffled_tensor": lambda: shuffled(D.from_tensors(np.arange(3))),
    "shuffled_map": lambda: shuffled(V2.range(10).map(lambda x: x * x)),
    "shuffled_parallel_map": lambda: shuffled(V2.range(10).map(lambda x: x * x, num_parallel_calls=2)),
    "shuffled_zip": lambda: shuffled(V2.zip((V2.range(10), V2.range(7).map(lambda x: -x)))),
    "shuffled_concatenation": lambda: shuffled(D.range(10).concatenate(D.range(100, 105))),
    "shuffled_take": lambda: shuffled(D.range(10).take(6)),
    "shuffled_skip": lambda: shuffled(D.range(10).skip(3)),
    "shuffled_batches": lambda: shuffled(D.range(10).batch(3, drop_remainder=True)),
    "shuffled_prefetch": lambda: shuffled(D.range(10).prefetch(2)),
    "shuffled_repeat": lambda: shuffled(D.range(4).repeat(3)),
    "shuffled_shard": lambda: shuffled(D.range(10).shard(2, 1)),
    "shuffled_cache": lambda: shuffled(D.range(10).cache()),
    "shuffled_asserted": lambda: shuffled(D.range(10).apply(X.assert_cardinality(10))),
    "shuffled_twice": lambda: shuffled(shuffled(D.range(10), seed=7)),
    "shuffled_failing": lambda: shuffled(failing(6, 3, V2)),
    "shuffled_large": lambda: shuffled(D.range(70000), seed=5).take(20),
    "shuffled_and_more": lambda: shuffled(D.range(9), seed=3).map(lambda x: x + 1).batch(2).prefetch(1),
    "shuffled_repeated": lambda: shuffled(D.range(6), seed=3).repeat(3),
    "shuffled_same": lambda: shuffled(D.range(6), seed=3, reshuffle_each_iteration=False).repeat(3),
    "flattened": lambda: flattened(same, row_of),
    "flattened_unknown": lambda: flattened(same, row_of, -2),
    "flattened_few": lambda: flattened(same, row_of, 5),
    "flattened_gaps": lambda: flattened(same, lambda index: (2 * index // 3, index % 3)),
    "flattened_scalars": lambda: flattened(tf.reduce_sum, lambda index: (index // 2, index % 2)),
    "flattened_int32": lambda: flattened(same, lambda index: tf.unstack(tf.cast(row_of(index), tf.int32))),
    "flattened_shuffled": lambda: shuffled(flattened(lambda x: x * 10, row_of)),
}


def options() -> Any:
    made = tf1.data.Options() if not IS_2 else tf.data.Options()
    made.experimental_optimization.apply_default_optimizations = False
    return made


def shown(value: Any) -> Any:
    array = np.asarray(value)
    values = array.reshape(-1).tolist()
    if array.dtype.kind in "OS":
        return ["string", list(array.shape), [base64.b64encode(bytes(each)).decode() for each in values]]
    return [array.dtype.name, list(array.shape), values]


def record(name: Any, make: Any) -> Any:
    with tf1.Graph().as_default() as graph:
        tf1.set_random_seed(17)
        iterator = tf1.data.make_initializable_iterator(make())
        following = iterator.get_next()
        flat = tf1.nest.flatten(following, expand_composites=True)
        elements: list[Any] = []
        with tf1.Session(config=tf1.ConfigProto(inter_op_parallelism_threads=2)) as session:
            session.run(iterator.initializer)
            for _ in range(60):
                try:
                    elements.append([shown(value) for value in session.run(flat)])
                except tf.errors.OutOfRangeError:
                    elements.append({"error": "OutOfRangeError"})
                    break
                except tf.errors.OpError as error:
                    elements.append({"error": type(error).__name__})
        text = base64.b64encode(zlib.compress(graph.as_graph_def().SerializeToString(), 9)).decode()
        return {
            "name": name,
            "graph": text,
            "init": iterator.initializer.name,
            "fetches": [each.name for each in flat],
            "elements": elements,
        }


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    with open(sys.argv[1], "w") as file:
        chosen = {"--parsing": PARSING, "--numbered": NUMBERED}
        pipelines = next((chosen[each] for each in sys.argv if each in chosen), PIPELINES)
        for name, make in pipelines.items():
            try:
                file.write(json.dumps(record(name, make)) + "\n")
            except Exception as error:
                print(name, type(error).__name__, str(error)[:300], file=sys.stderr)


if __name__ == "__main__":
    main()
