"""Goes through an input pipeline with `fe.data`, beside a task that ticks. See `bench_input.py`."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe

NUMBERS, CATEGORIES = 13, 26
TICK_SECONDS: Final = 0.01
DTYPES: Final = ["int64"] * NUMBERS + ["string"] * CATEGORIES
KEYS: Final = [f"I{place}" for place in range(NUMBERS)] + [f"C{place}" for place in range(CATEGORIES)]


def image(record: fe.Tensor) -> tuple[fe.Tensor, ...]:
    ops = record.graph.ops
    *_, found = ops.ParseSingleExample(
        record,
        [np.zeros(0, object), np.zeros(0, np.int64)],
        num_sparse=0,
        sparse_keys=[],
        dense_keys=["image/encoded", "image/class/label"],
        sparse_types=[],
        dense_shapes=[[], []],
    )
    pixels = ops.DecodeJpeg(found[0], channels=3)
    part = pixels[16:304, 16:304]
    small = ops.ResizeBilinear(part[np.newaxis], np.array([224, 224], np.int32), half_pixel_centers=True)
    return ops.Squeeze(small, squeeze_dims=[0]) / 255.0, found[1]


def csv(lines: fe.Tensor) -> tuple[fe.Tensor, ...]:
    defaults = [np.array([0], np.int32)] * NUMBERS + [np.array([b""], object)] * CATEGORIES
    return tuple(lines.graph.ops.DecodeCSV(lines, defaults))


def _missing() -> list[Any]:
    return [np.zeros(0, np.int64)] * NUMBERS + [np.zeros(0, object)] * CATEGORIES


def examples(records: fe.Tensor) -> tuple[fe.Tensor, ...]:
    _, _, _, found, _, _ = records.graph.ops.ParseExampleV2(
        records,
        np.zeros(0, object),
        np.zeros(0, object),
        np.array([key.encode() for key in KEYS], object),
        np.zeros(0, object),
        _missing(),
        num_sparse=0,
        sparse_types=[],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[[]] * len(KEYS),
    )
    return tuple(found)


def example(record: fe.Tensor) -> tuple[fe.Tensor, ...]:
    *_, found = record.graph.ops.ParseSingleExample(
        record,
        _missing(),
        num_sparse=0,
        sparse_keys=[],
        dense_keys=KEYS,
        sparse_types=[],
        dense_shapes=[[]] * len(KEYS),
    )
    return tuple(found)


def pipeline(folder: str, case: str) -> fe.data.Dataset:
    if case == "images":
        records = fe.data.Dataset.tf_records(os.path.join(folder, "images.tfrecord")).repeat()
        return records.map(image, parallel=-1).batch(32).prefetch()
    if case.startswith("csv"):
        records = fe.data.Dataset.text_lines(os.path.join(folder, "rows.csv")).repeat()
        whole: Any = csv
        single: Any = csv
    else:
        records = fe.data.Dataset.tf_records(os.path.join(folder, "rows.tfrecord")).repeat()
        whole, single = examples, example
    if case.endswith("_map"):
        return records.map(single, parallel=-1).batch(512).prefetch()
    return records.batch(512).map(whole, parallel=-1).prefetch()


class Ticker:
    """A task of the host that sleeps again and again, and how late it was at most."""

    def __init__(self) -> None:
        self.late = 0.0

    async def run(self) -> None:
        while True:
            due = trio.current_time() + TICK_SECONDS
            await trio.sleep_until(due)
            self.late = max(self.late, trio.current_time() - due)


async def serve() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines = os.fdopen(os.dup(0))
    ticker = Ticker()
    elements: Any = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ticker.run)
        while line := await trio.to_thread.run_sync(lines.readline):
            asked = json.loads(line)
            answer: Any = None
            if asked["what"] == "version":
                answer = f"FlowEngine {fe.__version__}"
            elif asked["what"] == "load":
                elements = pipeline(asked["folder"], asked["case"]).elements()
                first = await elements.__anext__()
                answer = float(np.asarray(first[0], np.float64).mean())
            elif asked["what"] == "run":
                records = 0
                ticker.late = 0.0
                started, busy = time.perf_counter(), time.process_time()
                for _ in range(asked["batches"]):
                    records += len((await elements.__anext__())[0])
                seconds, busy = time.perf_counter() - started, time.process_time() - busy
                answer = {"records": records, "seconds": seconds, "busy": busy, "late": ticker.late}
            elif asked["what"] == "stop":
                await elements.close()
            print(json.dumps(answer), file=out, flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve)
