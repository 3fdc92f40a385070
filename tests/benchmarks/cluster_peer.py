"""One task of a cluster that `bench_cluster.py` measures, ours: a server, and for a worker its client too.

Standard input brings one JSON document a line, standard output answers each: {"graph": FILE, "init": [...]}
to open a session, {"run": target, "steps": n} for the seconds of so many steps, {"processor": true} for the
seconds of processor time that the task has taken, {"files": true} for the files of FlowEngine's modules.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import trio

import flowengine as fe


def say(document: Any) -> None:
    print(json.dumps(document), flush=True)


def own_files() -> list[str]:
    """The file of each module of FlowEngine that this process has imported."""
    own = [module for name, module in sys.modules.items() if name.partition(".")[0] == "flowengine"]
    return [module.__file__ for module in own if module.__file__]


async def main(arguments: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    spec = fe.ClusterSpec.of(arguments["jobs"])
    async with fe.Server(spec, arguments["job"], arguments["task"]) as server:
        say({"ready": server.name})
        session: fe.Session | None = None
        lines = trio.wrap_file(sys.stdin)
        async for line in lines:
            order = json.loads(line)
            if "graph" in order:
                graph = fe.Graph.from_graph_def(
                    await trio.to_thread.run_sync(Path(order["graph"]).read_bytes)
                )
                session = fe.Session(graph, target=server.target)
                if order["init"]:
                    await session.run([], targets=order["init"])
                say({"open": True})
                continue
            if "processor" in order:
                say({"processor": time.process_time()})
                continue
            if "files" in order:
                say({"files": own_files()})
                continue
            assert session is not None, "a session is opened first"
            step = session.make_callable([], targets=[order["run"]])
            seconds = []
            for _ in range(order["steps"]):
                begun = time.perf_counter()
                await step()
                seconds.append(time.perf_counter() - begun)
            say({"seconds": seconds})


if __name__ == "__main__":
    trio.run(main, json.loads(sys.argv[1]))
