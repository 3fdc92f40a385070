"""Goes through an input pipeline with tf.data, in TensorFlow 2: the counterpart of `input_flowengine.py`.

Runs under another Python, so it uses nothing of this project. See `bench_input.py`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

NUMBERS, CATEGORIES = 13, 26


def pipeline(tf: Any, folder: str, case: str) -> Any:
    tune = tf.data.AUTOTUNE

    def image(record: Any) -> Any:
        features = {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        }
        found = tf.io.parse_single_example(record, features)
        pixels = tf.io.decode_jpeg(found["image/encoded"], channels=3)
        part = pixels[16:304, 16:304]
        small = tf.image.resize(part, [224, 224])
        return small / 255.0, found["image/class/label"]

    def csv(lines: Any) -> Any:
        return tuple(tf.io.decode_csv(lines, [[0]] * NUMBERS + [[""]] * CATEGORIES))

    keys = {f"I{i}": tf.io.FixedLenFeature([], tf.int64) for i in range(NUMBERS)}
    keys.update({f"C{i}": tf.io.FixedLenFeature([], tf.string) for i in range(CATEGORIES)})

    def examples(records: Any) -> Any:
        found = tf.io.parse_example(records, keys)
        return tuple(found[key] for key in keys)

    def example(record: Any) -> Any:
        found = tf.io.parse_single_example(record, keys)
        return tuple(found[key] for key in keys)

    if case == "images":
        records = tf.data.TFRecordDataset(os.path.join(folder, "images.tfrecord")).repeat()
        return records.map(image, num_parallel_calls=tune).batch(32).prefetch(tune)
    if case.startswith("csv"):
        records = tf.data.TextLineDataset(os.path.join(folder, "rows.csv")).repeat()
        whole: Any = csv
        single: Any = csv
    else:
        records = tf.data.TFRecordDataset(os.path.join(folder, "rows.tfrecord")).repeat()
        whole, single = examples, example
    if case.endswith("_map"):
        return records.map(single, num_parallel_calls=tune).batch(512).prefetch(tune)
    return records.batch(512).map(whole, num_parallel_calls=tune).prefetch(tune)


def digest(element: Any) -> float:
    return float(np.asarray(element[0], np.float64).mean())


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tf: Any = importlib.import_module("tensorflow")
    elements: Any = None
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if asked["what"] == "version":
            answer = "TensorFlow " + tf.__version__
        elif asked["what"] == "load":
            elements = iter(pipeline(tf, asked["folder"], asked["case"]))
            answer = digest(next(elements))
        elif asked["what"] == "run":
            records = 0
            started, busy = time.perf_counter(), time.process_time()
            for _ in range(asked["batches"]):
                records += int(next(elements)[0].shape[0])
            seconds, busy = time.perf_counter() - started, time.process_time() - busy
            answer = {"records": records, "seconds": seconds, "busy": busy}
        elif asked["what"] == "stop":
            elements = None
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
