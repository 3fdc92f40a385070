"""Saves and restores with FlowEngine's Saver: the counterpart of `checkpoint_tensorflow.py`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import trio

import flowengine as fe


async def turn(session: fe.Session, saver: fe.train.Saver, folder: str, kind: str) -> dict[str, float]:
    """Seconds of one save and of one restore."""
    prefix = os.path.join(folder, "ours")
    started = time.perf_counter()
    if kind == "ops":
        await session.run((), {"save/Const:0": prefix.encode()}, targets=["save/control_dependency"])
    else:
        await saver.save(session, prefix)
    saved = time.perf_counter()
    if kind == "ops":
        await session.run((), {"save/Const:0": prefix.encode()}, targets=["save/restore_all"])
    else:
        await saver.restore(session, prefix)
    return {"save": saved - started, "restore": time.perf_counter() - saved}


def read(path: str) -> bytes:
    return Path(path).read_bytes()


async def serve() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sessions: dict[str, tuple[fe.Session, fe.train.Saver]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if asked["what"] == "version":
            answer = f"FlowEngine {fe.__version__}"
        elif asked["what"] == "turn":
            folder, kind = asked["folder"], asked["kind"]
            key = "no sync" if kind == "ops" else kind
            if key not in sessions:
                meta = read(os.path.join(folder, "model.meta"))
                config = fe.Config(sync_checkpoints=key == "sync")
                session = fe.Session(fe.Graph.from_graph_def(meta), config=config)
                await session.run((), targets=["init"])
                sessions[key] = session, fe.train.Saver.from_meta_graph(meta)
            answer = await turn(*sessions[key], folder, kind)
        elif asked["what"] == "resume":
            meta = read(os.path.join(asked["folder"], "model.meta"))
            session = fe.Session(fe.Graph.from_graph_def(meta))
            saver = fe.train.Saver.from_meta_graph(meta)
            started = time.perf_counter()
            await saver.restore(session, os.path.join(asked["folder"], "ours"))
            answer = {"resume": time.perf_counter() - started}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    trio.run(serve)
