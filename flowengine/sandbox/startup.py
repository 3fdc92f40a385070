"""How a process in a box is started: its orders, the memory that both have, its word that it is ready."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Final

import trio

import flowengine
from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config
from flowengine.core.errors import FailedPreconditionError, OpError, UnavailableError
from flowengine.core.text import printable
from flowengine.runtime.failures import leaves_of
from flowengine.sandbox.process import BoxProcess
from flowengine.sandbox.shared_memory import Segment, sealed_memory, whole_pages
from flowengine.sandbox.shared_values import Passage, idle_bytes
from flowengine.sandbox.start_orders import WORD_BYTES_MAX, BoxOrders
from flowengine.transport.streams.pair import PairStream, ends

logger: Final = logging.getLogger("flowengine.sandbox")

#: What a process may take to lock itself in.
_START_SECONDS: Final = 60.0
#: What every process in a box knows of its surroundings.
_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/nonexistent",
    # A graph that names an unknown op has nothing imported for it: what `imports` brings is there before.
    "FLOWENGINE_PLUGINS": "0",
    # The C library keeps up to 64 MB that nobody uses, and as much for each thread: all that a graph may take
    # besides its values before its process is ended.
    "MALLOC_MMAP_THRESHOLD_": str(8 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 20),
    "MALLOC_ARENA_MAX": "2",
}

_BEGIN: Final = "import sys; sys.path[:0] = sys.argv[2:]; from flowengine.sandbox.child import main; main()"


def _orders(config: Config, box: Sandbox, segments: list[list[int]], *, warms: bool) -> BoxOrders:
    own = Path(flowengine.__file__).resolve().parent
    packages = [str(own), *(str(each.resolve()) for each in own.iterdir() if each.is_symlink())]
    modules = [str(Path(each).resolve()) for each in sys.path if each]
    # A folder of programs that is no environment's holds more than programs: only the imports' is opened.
    packages += [each for each in modules if each.endswith("-packages")]
    if box.imports:
        packages += modules
    settings = {
        each.name: value
        for each in fields(config)
        if each.name != "box" and (value := getattr(config, each.name)) is not None
    }
    return BoxOrders(
        parent=os.getpid(),
        packages=packages,
        modules=modules,
        write_bytes=box.write_bytes,
        read=list(box.read),
        write=list(box.write),
        require=list(box.require),
        imports=list(box.imports),
        exec_memory=box.exec_memory,
        settings=settings,
        segments=segments,
        idle_bytes=idle_bytes(box.memory_bytes),
        warms=warms,
    )


def _made_segments(box: Sandbox) -> list[Segment]:
    """The memory that this side writes, and that which it reads; none where there can be none."""
    size, found = whole_pages(box.memory_bytes), list[Segment]()
    try:
        for _ in range(2):
            segment = Segment(sealed_memory(size), size)
            found.append(segment)
    except OSError as error:
        logger.debug("values pass through the socket: %s", error)
        for each in found:
            each.close()
        return []
    return found


async def start(config: Config, box: Sandbox, *, warms: bool = False) -> BoxProcess:
    """Start a process and wait until it has locked itself in.

    warms   whether it brings in libraries that only some graphs need, which takes a second; else they come
            when they are wanted, and count among what a step takes
    Raises FailedPreconditionError where a level is missing on this machine, UnavailableError where the
    process does not come up. It is driven by a system task of the run, until `kill`.
    Cancelled, it leaves none.
    """
    if not sys.platform.startswith("linux"):
        raise FailedPreconditionError("a sandbox needs Linux: Landlock and seccomp are parts of its kernel")
    ours, theirs = ends()
    segments = _made_segments(box)
    descriptors = [each.descriptor for each in segments]
    try:
        # On this thread: a child dies with the thread that made it, and trio's own helpers may end any time.
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-I", "-c", _BEGIN, str(theirs.fileno()), *_module_folders()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            pass_fds=(theirs.fileno(), *descriptors),
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        ours.close()
        for each in segments:
            each.close()
        raise UnavailableError(f"no process can be started: {error.strerror}") from None
    finally:
        theirs.close()
    passage = Passage(segments[0], segments[1], idle_bytes(box.memory_bytes)) if segments else None
    found = BoxProcess(process, box, passage)
    try:
        ours.setblocking(False)
        found.levels = await _first_word(
            ours, _orders(config, box, [[each.descriptor, each.size] for each in segments], warms=warms)
        )
    except BaseException:
        ours.close()
        found.kill()
        with trio.CancelScope(shield=True):
            await found.reap()
        raise
    opened = trio.Event()
    failed: list[OpError] = []

    async def drive() -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(found.drive, PairStream(ours, "sandbox", lends=False))
                opened.set()
        except* OpError as group:
            failed.extend(each for each in leaves_of(group) if isinstance(each, OpError))
        finally:
            opened.set()

    trio.lowlevel.spawn_system_task(drive, name="flowengine sandbox")
    try:
        await opened.wait()
    except BaseException:
        found.kill()
        raise
    if not found.is_alive:
        raise failed[0] if failed else await found.why_ended()
    return found


def _module_folders() -> Sequence[str]:
    """Return the folders of this package and its dependencies.

    A fresh interpreter may look elsewhere.
    """
    packages = [str(Path(each).resolve()) for each in sys.path if each.endswith("-packages")]
    return [str(Path(flowengine.__file__).resolve().parents[1]), *packages]


async def _first_word(channel: socket.socket, orders: BoxOrders) -> dict[str, str]:
    """Give the orders and take the process's word."""
    line = bytearray()
    with trio.move_on_after(_START_SECONDS) as scope:
        waiting = memoryview(orders.to_line())
        while waiting:
            await trio.lowlevel.wait_writable(channel)
            with suppress(BlockingIOError):
                waiting = waiting[channel.send(waiting) :]
        while not line.endswith(b"\n") and len(line) < WORD_BYTES_MAX:
            await trio.lowlevel.wait_readable(channel)
            piece = channel.recv(WORD_BYTES_MAX - len(line))
            if not piece:
                break
            line += piece
    if scope.cancelled_caught:
        raise UnavailableError(f"the sandbox was not ready within {_START_SECONDS:g} s")
    try:
        word = json.loads(line)
        levels, error = dict(word["levels"]), str(word["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnavailableError("the sandbox ended before it was ready") from None
    if error:
        raise FailedPreconditionError(
            f"there can be no sandbox here: {printable(error)}; `flowengine sandbox --check` says what there "
            "is, and `require=` what must be there"
        )
    return {printable(name): printable(text) for name, text in levels.items()}


__all__ = ["start"]
