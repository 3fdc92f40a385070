"""Waits for the work of a device with streams of its own, while the event loop continues.

An event is polled for a moment, since most are near. After that, one thread for each device blocks on it and
answers through the inbox, as heavy kernels do. Without worker threads, the waiting task checks again in each
round of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import trio

from flowengine.devices.device import Device, StreamDevice
from flowengine.runtime.threads import Job, ThreadPool, current_inbox

if TYPE_CHECKING:
    from flowengine.devices.ordering import StreamEvent

#: A thread's answer takes some 60 us; polling is cheaper for a nearer event.
_LOOK_SECONDS: Final = 50e-6

#: {name of a device: the thread that waits for its events}
_WAITERS: Final[dict[str, ThreadPool]] = {}
#: {name of a device: the thread of kernels that read values there}; they do not wait for the ends of steps
_LOOKERS: Final[dict[str, ThreadPool]] = {}


async def brought_out(device: Device, values: Sequence[Any], *, uses_threads: bool) -> list[Any]:
    """Return values of a device in host memory, once all its work is done.

    Without streams, this blocks the event loop. If cancelled, copies that were begun continue, and nobody
    takes them.
    """
    if not isinstance(device, StreamDevice):
        device.synchronize()
        return [device.copy_out(value) for value in values]
    copies = [device.start_copy_out(value) for value in values]
    await wait_reached(device, device.unfinished(), uses_threads=uses_threads)
    return [value if copy is None else copy.value() for value, copy in zip(values, copies, strict=True)]


async def wait_reached(device: StreamDevice, events: Sequence[StreamEvent], *, uses_threads: bool) -> None:
    """Return when all of the events have happened. Raises the device's error for work that failed.

    If cancelled, a thread may block a little longer for a result that nobody needs any more.
    """
    left = list(events)
    ends = perf_counter() + _LOOK_SECONDS
    while left:
        left = [event for event in left if not device.is_done(event)]
        if not uses_threads:
            await trio.lowlevel.checkpoint()
        elif perf_counter() >= ends:
            break
    if left:
        await _wait_on_thread(device, left)


async def called_beside(device: Device, function: Callable[[], Any]) -> Any:
    """Call a function that blocks on a device, on a thread of its own, and return its result.

    If cancelled, the function continues, and nobody takes its result.
    """
    return await _on_thread(_LOOKERS, device.name, function, ())


async def _wait_on_thread(device: StreamDevice, events: Sequence[StreamEvent]) -> None:
    await _on_thread(_WAITERS, device.name, _wait_for, (device, events))


async def _on_thread(
    threads: dict[str, ThreadPool], name: str, function: Callable[..., Any], arguments: Sequence[Any]
) -> Any:
    thread = threads.get(name)
    if thread is None:
        thread = threads[name] = ThreadPool(1)
    task = trio.lowlevel.current_task()

    def done(job: Job) -> None:
        if not job.is_given_up:
            trio.lowlevel.reschedule(task)

    def give_up(_: Any) -> trio.lowlevel.Abort:
        job.is_given_up = True
        return trio.lowlevel.Abort.SUCCEEDED

    job = Job(function, arguments, {}, done, current_inbox())
    thread.submit(job)
    await trio.lowlevel.wait_task_rescheduled(give_up)
    if job.error is not None:
        raise job.error
    return job.result


def _wait_for(device: StreamDevice, events: Sequence[StreamEvent]) -> None:
    for event in events:
        device.wait(event)


__all__ = ["brought_out", "called_beside", "wait_reached"]
