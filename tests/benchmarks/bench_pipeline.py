"""Records per second through TFRecord files, parsing and a shuffling queue, here and in TensorFlow.

    python -m tests.benchmarks.bench_pipeline --tensorflow /path/to/python [--turns 5] [--cores 2]

Three forms of the pipeline, the same graph and the same queue runners in both engines:

    block    256 records are read at a time, parsed together and enqueued together; batches of 128
    batch    records are read and enqueued one by one; each batch of 128 is parsed
    single   records are read, parsed and enqueued one by one

A turn is a session of its own that drains the pipeline, from the start of its runners to the end of its
input; the engines take turns. Expected: one record costs TensorFlow 1 to 3 microseconds in blocks and, one
step of the client each, 30 to 60 one by one; the same here, if a block costs no Python a value.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.ir.proto import MetaGraphDef
from flowengine.ir.proto.example_pb2 import Example
from tests.benchmarks.engines import Engine

#: form -> records of one turn.
FORMS: Final = {"block": 200_000, "batch": 20_000, "single": 20_000}
FILES: Final = 4
IN_FILE: Final = 2_500
BATCH: Final = 128


def write_records(folder: Path) -> list[str]:
    """Files of examples: a label, 32 floats, three sparse numbers and a name, about 240 bytes each."""
    random = np.random.default_rng(1)
    names = []
    for number in range(FILES):
        path = folder / f"part-{number}.tfrecord"
        with path.open("wb") as file:
            for index in range(IN_FILE):
                example = Example()
                features = example.features.feature
                features["label"].int64_list.value.append(int(random.integers(1000)))
                features["pixels"].float_list.value.extend(random.random(32, np.float32).tolist())
                features["words"].int64_list.value.extend(random.integers(50_000, size=3).tolist())
                features["name"].bytes_list.value.append(b"example %d of %d" % (index, number))
                data = example.SerializeToString()
                length = len(data).to_bytes(8, "little")
                file.write(length + mask(crc32c(length)).to_bytes(4, "little"))
                file.write(data + mask(crc32c(data)).to_bytes(4, "little"))
        names.append(str(path))
    return names


def parsed(graph: fe.Graph, serialized: fe.Tensor) -> list[fe.Tensor]:
    """Label, pixels and name of a batch of examples or of one, and how many words there are."""
    keys, types = ["label", "name", "pixels"], ["int64", "string", "float32"]
    shapes: list[list[int]] = [[], [], [32]]
    defaults = [graph.constant([], t) for t in types]
    if serialized.shape.rank == 0:
        out = graph.ops.ParseSingleExample(
            serialized,
            defaults,
            num_sparse=1,
            sparse_keys=["words"],
            sparse_types=["int64"],
            dense_keys=keys,
            Tdense=types,
            dense_shapes=shapes,
        )
    else:
        out = graph.ops.ParseExample(
            serialized,
            graph.constant([], "string"),
            [graph.constant("words", "string")],
            [graph.constant(key, "string") for key in keys],
            defaults,
            sparse_types=["int64"],
            Tdense=types,
            dense_shapes=shapes,
        )
    _, (words,), _, dense = out
    return [*dense, graph.ops.Size(words)]


def pipeline(form: str, names: list[str]) -> tuple[fe.Graph, list[str]]:
    """The graph of one form, and what a step fetches."""
    graph = fe.Graph(producer=27)
    epochs = FORMS[form] // (FILES * IN_FILE)
    queue = fe.train.string_input_producer(graph, names, num_epochs=epochs, shuffle=False)
    reader = graph.ops.TFRecordReaderV2()
    options: dict[str, Any] = {"capacity": 4096, "min_after_dequeue": 2048, "allow_smaller_final_batch": True}
    if form == "block":
        records = graph.ops.ReaderReadUpToV2(reader, queue.handle, 256).values
        examples = parsed(graph, records)[:3]
        shapes: list[list[int]] = [[], [], [32]]
        fetched = fe.train.shuffle_batch(examples, BATCH, enqueue_many=True, shapes=shapes, **options)
    else:
        record = graph.ops.ReaderReadV2(reader, queue.handle).value
        if form == "single":
            fetched = fe.train.shuffle_batch(parsed(graph, record)[:3], BATCH, **options)
        else:
            (batch,) = fe.train.shuffle_batch([record], BATCH, **options)
            fetched = parsed(graph, batch)
    return graph, [tensor.name for tensor in fetched]


def write_pipeline(folder: Path, form: str, names: list[str]) -> None:
    """`pipeline.meta` with the graph, its queue runners and local variables, and what to fetch."""
    graph, fetches = pipeline(form, names)
    meta = MetaGraphDef(graph_def=graph.to_graph_def())
    for runner in fe.train.queue_runners_of(graph):
        meta.collection_def["queue_runners"].bytes_list.value.append(runner.to_proto().SerializeToString())
    for variable in fe.train.pipelines.local_variables_of(graph):
        meta.collection_def["initializers"].node_list.value.append(variable.initializer)
    meta.collection_def["fetches"].node_list.value.extend(fetches)
    folder.mkdir()
    (folder / "pipeline.meta").write_bytes(meta.SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tensorflow", help="a Python that has TensorFlow; without it, only this engine runs"
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--form", choices=list(FORMS), action="append")
    asked = parser.parse_args()
    scripts = [(sys.executable, "pipeline_flowengine.py")]
    if asked.tensorflow:
        scripts.append((asked.tensorflow, "pipeline_tensorflow.py"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = write_records(folder)
        for form in asked.form or FORMS:
            write_pipeline(folder / form, form, names)
            with ExitStack() as stack:
                engines = [stack.enter_context(Engine(*each, asked.cores)) for each in scripts]
                compare(form, folder / form, engines, asked.turns)


def compare(form: str, folder: Path, engines: list[Engine], turns: int) -> None:
    """Let the engines take turns and print their rates; the first turn of each is not counted."""
    rates: list[list[float]] = [[] for _ in engines]
    costs: list[list[float]] = [[] for _ in engines]
    for turn in range(turns + 1):
        for engine, found, spent in zip(engines, rates, costs, strict=True):
            answer = engine.ask(what="drain", folder=str(folder))
            assert answer["records"] == FORMS[form], answer
            if turn:
                found.append(answer["records"] / answer["seconds"])
                spent.append(1e6 * answer["processor"] / answer["records"])
    line = f"{form:8}" + "".join(
        f"  {e.name}: {statistics.median(r):9.0f}/s (best {max(r):9.0f}; {min(c):.1f} us of processors each)"
        for e, r, c in zip(engines, rates, costs, strict=True)
    )
    if len(engines) == 2:
        ratios = [a / b for a, b in zip(*rates, strict=True)]
        line += (
            f"  ratio {statistics.median(ratios):.2f} (best over best {max(rates[0]) / max(rates[1]):.2f})"
        )
    print(line, flush=True)


if __name__ == "__main__":
    main()
