"""Playing an input: through the public doors, under a memory limit and a deadline.

Each returns what happened in a word: "value" or the class of an error of ours. Anything else comes through.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import trio
import trio.testing

from flowengine.core.config import Config
from flowengine.core.errors import OpError
from flowengine.core.run_options import RunOptions
from flowengine.graphs.graph import Graph
from flowengine.session import Session
from flowengine.transport.errors import RemoteProtocolError
from tests.tools.fuzz.files import lay_out

#: A step may hold so much, and take so long.
MEMORY_LIMIT: Final = 64 << 20
STEP_SECONDS: Final = 1.0
#: Where so long nothing moves and no thread works, the rest of the time is not waited for.
_STILL: Final = 0.1
#: A process whose clock of work stands still so long has no thread that works.
_LOOK: Final = 0.05
#: Of a graph's ends so many are asked for.
_ENDS: Final = 6
_ELEMENTS_MAX: Final = 1 << 16
_DECODERS: Final = ("DecodePng", "DecodeJpeg", "DecodeBmp", "DecodeGif")


def _config(**more: Any) -> Config:
    return Config(memory_limit_bytes=MEMORY_LIMIT, **({"file_access": "none"} | more))


def _fed(graph: Graph) -> dict[str, Any]:
    """Something for each placeholder: ones of its shape, dimensions that are not known being 2."""
    feeds: dict[str, Any] = {}
    for node in graph:
        if not node.is_placeholder or not node.output_types:
            continue
        dims = graph.tensor(f"{node.name}:0").shape
        sizes = [2] if dims.rank is None else [2 if size is None else size for size in dims.as_list()]
        dtype = node.output_types[0].base.as_numpy_dtype
        if np.prod(sizes, dtype=object) > _ELEMENTS_MAX:
            continue
        empty = np.dtype(dtype).hasobject
        feeds[f"{node.name}:0"] = np.full(sizes, b"", object) if empty else np.ones(sizes, dtype)
    return feeds


async def _run(data: bytes, config: Config, seconds: float, fetches: list[str] | None) -> str:
    graph = Graph.from_graph_def(data)
    feeds = _fed(graph)
    targets: list[str] = []
    if fetches is None:
        # The ends of the graph: what is inside of a loop cannot be fetched.
        used = {
            name for node in graph for name in (*(port.node for port in node.inputs), *node.control_inputs)
        }
        ends = [node for node in graph if node.name not in used and not node.is_placeholder]
        chosen = random.Random(len(data)).sample(ends, min(len(ends), _ENDS))
        fetches = [f"{node.name}:{slot}" for node in chosen for slot in range(min(len(node.output_types), 3))]
        targets = [node.name for node in chosen]
    async with Session(graph, config=config) as session:
        options = RunOptions(timeout_seconds=seconds)
        trio.lowlevel.spawn_system_task(_hasten, seconds)  # ends with the run
        await session.run(fetches, feeds, targets=targets, options=options)
    return "value"


async def _hasten(seconds: float) -> None:
    """Let the time be over once nothing moves; a kernel that works on a thread is something that moves."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    while True:
        before = time.process_time()
        await trio.testing.wait_all_tasks_blocked(_STILL)
        if time.process_time() - before < _STILL / 10:
            clock.jump(seconds)


def _played(data: bytes, config: Config, seconds: float, fetches: list[str] | None = None) -> str:
    """A step of the graph; where nothing moves any more its deadline comes at once."""
    clock = trio.testing.MockClock(rate=1.0)
    began = clock.current_time()
    try:
        return trio.run(_run, data, config, seconds, fetches, clock=clock)
    finally:
        if clock.current_time() - began >= seconds:
            _wait_for_threads()


def _wait_for_threads() -> None:
    """Wait for threads of a step that go on after its time, so that they do not count as another input's."""
    working = True
    while working:
        before = time.process_time()
        time.sleep(_LOOK)
        working = time.process_time() - before > _LOOK / 10


def _graph(data: bytes, seconds: float) -> str:
    return _played(data, _config(), seconds)


def _records(data: bytes, seconds: float) -> str:
    """Read by a reader op, in batches and one by one."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        with open(path, "wb") as file:
            file.write(data)
        compression = b"ZLIB" if data[:1] == b"\x78" else b""
        graph = Graph()
        queue = graph.ops.FIFOQueueV2(component_types=["string"], shapes=[[]])
        put = graph.ops.QueueEnqueueV2(queue, [graph.constant(os.fsencode(path), "string")])
        reader = graph.ops.TFRecordReaderV2(compression_type=compression)
        with graph.control_dependencies([put]):
            graph.ops.ReaderReadUpToV2(reader, queue, np.int64(30), name="read")
        whole = bytes(graph.to_graph_def().SerializeToString())
        return _played(whole, _config(file_access="read"), seconds, ["read:0", "read:1"])


def _checkpoint(data: bytes, seconds: float) -> str:
    """Restored by the ops that a saver's graph has, and read by name."""
    with tempfile.TemporaryDirectory() as folder:
        lay_out(data, folder)
        graph = Graph()
        name = graph.constant(os.fsencode(os.path.join(folder, "m")), "string")
        graph.ops.RestoreV2(
            name,
            [b"a", b"s", b"p"],
            [b"", b"", b""],
            dtypes=["float32", "string", "int32"],
            name="restore",
        )
        whole = bytes(graph.to_graph_def().SerializeToString())
        return _played(whole, _config(file_access="read"), seconds, [f"restore:{n}" for n in range(3)])


def _image(data: bytes, seconds: float) -> str:
    graph = Graph()
    content = graph.constant(data, "string")
    for op in _DECODERS:
        getattr(graph.ops, op)(content, name=op)
    whole = bytes(graph.to_graph_def().SerializeToString())
    told = {_outcome(_played, whole, _config(), seconds, [f"{op}:0"]) for op in _DECODERS}
    return "value" if "value" in told else sorted(told)[0]


def _frames(data: bytes, seconds: float) -> str:
    from tests.tools.fuzz.frames import LIMITS
    from tests.tools.links import ConnectionLink, feed

    link = ConnectionLink(limits=LIMITS)
    link.open()
    feed(link.listener, data)
    link.listener.take_events()
    return "value"


def _request(data: bytes, seconds: float) -> str:
    from tests.tools.fuzz.requests import play as play_request

    return play_request(data)


_PLAYS: Final[dict[str, Callable[[bytes, float], str]]] = {
    "graphs": _graph,
    "calls": _graph,
    "records": _records,
    "checkpoints": _checkpoint,
    "images": _image,
    "frames": _frames,
    "requests": _request,
}


def _outcome(function: Callable[..., str], *arguments: Any) -> str:
    try:
        return function(*arguments)
    except (OpError, RemoteProtocolError) as error:
        return type(error).__name__


def play(kind: str, data: bytes, *, seconds: float = STEP_SECONDS) -> str:
    """Return the outcome of an input: "value", or the name of our error's class; raise other errors.

    seconds   the time that a step has: by the wall, so that one on a busy machine may need more
    """
    return _outcome(_PLAYS[kind], data, seconds)
