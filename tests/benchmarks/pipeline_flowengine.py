"""Drains a pipeline with this engine: see `bench_pipeline.py`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import trio

import flowengine as fe
from flowengine.ir.graphfile import load_meta_graph


async def drain(folder: str) -> Any:
    loaded = load_meta_graph((Path(folder) / "pipeline.meta").read_bytes())
    graph = fe.Graph.from_graph_def(loaded.graph_def)
    fetches = list(loaded.collections["fetches"].node_list.value)
    records = 0
    async with fe.Session(graph) as session:
        await session.run([], targets=list(loaded.collections["initializers"].node_list.value))
        step = session.make_callable(fetches)
        started, used = time.perf_counter(), time.process_time()
        async with fe.train.QueueRunners(session, loaded):
            while True:
                records += len((await step())[0])
        seconds, processor = time.perf_counter() - started, time.process_time() - used
        return {"records": records, "seconds": seconds, "processor": processor}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if asked["what"] == "version":
            answer = f"FlowEngine {fe.__version__}"
        elif asked["what"] == "drain":
            answer = trio.run(drain, asked["folder"])
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
