"""Worker threads for heavy kernels, and the way back to the event loop.

A job goes to a thread through a queue; its end comes back through a wake-up descriptor that one system task
of the trio run waits for. Measured, this costs 13 us where `trio.to_thread` costs 78: a kernel of 0.1 ms is
worth it. One wake-up serves every job that has finished by then.

The threads are daemons shared by the whole process and started when first needed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.abandonment import begin
from flowengine.devices.cores import available_cores

#: More threads than cores only take turns; two or three kernels at once saturate memory anyway.
THREADS_MAX: Final = 4


class Job:
    """One kernel call on a worker thread. `done` is called on the event loop's thread, with the job.

    result   the result of the function, or None
    error    the error that it raised, or None
    seconds  its time
    """

    __slots__ = (
        "arguments",
        "done",
        "error",
        "estimate",
        "function",
        "inbox",
        "is_given_up",
        "keywords",
        "pace",
        "result",
        "seconds",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: dict[str, Any],
        done: Callable[[Job], None],
        inbox: Inbox,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self.done = done
        self.inbox = inbox
        self.result: Any = None
        self.error: BaseException | None = None
        #: Set on the event loop's thread when nobody waits for it any more.
        self.is_given_up = False
        self.seconds = 0.0
        #: The estimated microseconds, and the pace of its item at that time.
        self.estimate = 0.0
        self.pace = 1.0


class Inbox:
    """The inbox of one trio run for calls from threads: a deque, and a socket that wakes its system task."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        #: A wake-up is under way: later arrivals are found with the rest.
        self._is_woken = False

    def put(self, doing: Callable[[], None]) -> None:
        """Have a function called on the event loop's thread. Called on a worker thread."""
        self._waiting.append(doing)
        # Read after the call was queued: a thread that clears it since then empties the queue afterwards.
        if self._is_woken:
            return
        self._is_woken = True
        try:
            self._writer.send(b"\0")
        except (BlockingIOError, OSError):
            # Full: a wake-up is under way already. Closed: the run is over and nobody waits.
            return

    async def serve(self) -> None:
        """Pass calls to their owners until the run ends; the system task."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._reader)
                try:
                    self._reader.recv(4096)
                except BlockingIOError:
                    continue
                self._is_woken = False
                while self._waiting:
                    self._waiting.popleft()()
        finally:
            self._reader.close()
            self._writer.close()


_inbox: Final[trio.lowlevel.RunVar[Inbox]] = trio.lowlevel.RunVar("flowengine inbox")


def current_inbox() -> Inbox:
    """Return the inbox of the current trio run; it starts its system task on first use."""
    try:
        return _inbox.get()
    except LookupError:
        inbox = Inbox()
        _inbox.set(inbox)
        trio.lowlevel.spawn_system_task(inbox.serve, name="flowengine heavy kernels")
        return inbox


class ThreadPool:
    """A fixed set of daemon threads, remade in a child process after a fork."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._process = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        atexit.register(self._finish)

    def submit(self, job: Job) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._jobs = queue.SimpleQueue()
            self._threads = [
                threading.Thread(target=_work, args=(self._jobs,), name=f"flowengine-{index}", daemon=True)
                for index in range(self._size)
            ]
            for thread in self._threads:
                thread.start()
        self._jobs.put(job)

    def is_wanted(self) -> bool:
        """Return whether jobs wait for a thread. May be asked on any."""
        return not self._jobs.empty()

    def _finish(self) -> None:
        """Wait, at the interpreter's end, for kernels that a cancelled step has left behind; drop the others.

        A thread that the interpreter stops inside BLAS never releases the locks of that library, whose own
        clean-up would then wait for ever.
        """
        if self._process != os.getpid():
            return
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    # NumPy keeps floating-point error handling per thread: kernels raise TensorFlow's errors themselves.
    with np.errstate(all="ignore"):
        while True:
            job = jobs.get()
            if job is None:
                return
            started = perf_counter()
            begin(job)
            try:
                job.result = job.function(*job.arguments, **job.keywords)
            except BaseException as error:  # passed to the step, which raises it in its own task
                job.error = error
            begin(None)
            job.seconds = perf_counter() - started
            job.inbox.put(partial(job.done, job))
            del job


POOL: Final = ThreadPool(min(available_cores(), THREADS_MAX))

#: For kernels that are BLAS calls, which use every core by themselves: two at a time would compete for them,
#: and 200 concurrent small products then take a hundred times as long.
PRODUCTS: Final = ThreadPool(1)
