"""Record the order that TensorFlow 1.15 gives to NaN and to equal distances: python record_nan_order.py."""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("nan_order.json")
CASES = 60


def main() -> None:
    import numpy as np
    import tensorflow as tf

    v1: Any = tf.compat.v1
    random = np.random.RandomState(5)
    cases = []
    with v1.Session() as session:
        row, k = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.int32, [])
        ids = v1.placeholder(tf.int32, [None])
        distances = v1.placeholder(tf.float32, [None, None])
        in_order, any_order = (tf.nn.top_k(row, k, sorted=each)[1] for each in (True, False))
        extremes = [
            each(row, ids, 5) for each in (tf.math.unsorted_segment_max, tf.math.unsorted_segment_min)
        ]
        matches = tf.contrib.image.bipartite_match(distances, -1.0)
        for number in range(CASES):
            size = random.randint(2, 60)
            numbers = random.randint(0, 8, size).astype(np.float32)
            numbers[random.rand(size) < random.choice([0.1, 0.3, 0.6])] = np.nan
            feeds = {
                row: numbers,
                k: size if number % 2 else random.randint(2, size + 1),
                ids: random.randint(0, 4, size),
                distances: random.randint(0, 6, random.randint(1, 9, 2)).astype(np.float32),
            }
            names = ("in_order", "any_order", "max", "min", "columns", "rows")
            values = session.run([in_order, any_order, *extremes, *matches], feeds)
            found = {name: values[at].tolist() for at, name in enumerate(names)}
            given = {"row": row, "k": k, "ids": ids, "distances": distances}
            found.update((name, np.asarray(feeds[each]).tolist()) for name, each in given.items())
            cases.append(found)
    RECORDED.write_text("\n".join(["[", ",\n".join(map(json.dumps, cases)), "]", ""]))


if __name__ == "__main__":
    main()
