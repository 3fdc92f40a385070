"""The way from worker threads back to the event loop."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from flowengine.runtime.threads import Inbox, Job, ThreadPool, current_inbox


def test_a_run_of_trio_has_one_inbox() -> None:
    """One for all that is computed in it, served by one task; the next run has its own."""
    found = []

    async def look() -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        found.append(current_inbox())
        assert current_inbox() is found[-1]
        assert trio.lowlevel.current_statistics().tasks_living == before + 1

    for _ in range(2):
        trio.run(look)
    assert found[0] is not found[1]


def test_a_pool_ends_when_the_kernel_that_runs_does_and_drops_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the interpreter's end: a thread that it stops inside BLAS keeps that library's locks."""
    at_end: list[Callable[[], object]] = []
    monkeypatch.setattr(atexit, "register", at_end.append)
    began, may_end = threading.Event(), threading.Event()
    join = threading.Thread.join

    def waited_for(thread: threading.Thread, timeout: float | None = None) -> None:
        may_end.set()
        join(thread, timeout)

    def kernel() -> int:
        began.set()
        assert may_end.wait(120)
        return 7

    inbox = Inbox()
    pool = ThreadPool(1)
    done: list[Any] = []
    first, second = (Job(kernel, (), {}, done.append, inbox) for _ in range(2))
    pool.submit(first)
    assert began.wait(120)
    pool.submit(second)
    monkeypatch.setattr(threading.Thread, "join", waited_for)
    (finish,) = at_end
    finish()
    (thread,) = pool._threads
    is_alive = thread.is_alive()
    may_end.set()
    assert not is_alive
    assert (first.result, second.result) == (7, None)
    assert not pool.is_wanted()
    inbox._reader.close()
    inbox._writer.close()


def test_a_forked_child_makes_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its parent are not there, though what is known of them is."""
    inbox = Inbox()
    pool = ThreadPool(1)
    jobs = [Job(threading.get_ident, (), {}, lambda job: None, inbox) for _ in range(3)]
    threads = []
    for job, process in zip(jobs, (1, 1, 2), strict=True):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        pool.submit(job)
        threads.append(pool._threads[0])
    pool._finish()
    threads[0]._started.wait()  # type: ignore[attr-defined]
    assert threads[0] is threads[1]
    assert threads[1] is not threads[2]
    inbox._reader.close()
    inbox._writer.close()
