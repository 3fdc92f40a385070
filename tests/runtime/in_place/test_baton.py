"""The baton: a run holds it except while it waits for I/O, or else one caller does."""

from __future__ import annotations

import signal
import threading

import pytest
import trio

import flowengine as fe
from flowengine.runtime.in_place.baton import Baton, DeferredInterrupt


def test_a_run_has_it_while_it_works_and_lends_it_while_it_waits() -> None:
    baton = Baton()
    seen: list[bool] = []

    def take() -> None:
        seen.append(baton.take(0.0))
        if seen[-1]:
            baton.give()

    async def main() -> None:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()  # the run works, as far as others can tell
        while True not in seen:
            await trio.to_thread.run_sync(take)

    trio.run(main, instruments=[baton])
    assert seen[0] is False
    assert seen[-1] is True
    assert not baton.take(0.0)  # a run that is over keeps it


def test_a_run_with_tasks_to_go_on_with_keeps_it() -> None:
    baton = Baton()
    baton.before_run()
    baton.before_io_wait(0.0)
    assert not baton.take(0.0)
    baton.after_io_wait(0.0)
    baton.before_io_wait(1.0)
    assert baton.take(0.0)
    baton.give()
    baton.after_io_wait(0.0)
    assert not baton.take(0.0)


def test_no_caller_takes_it_while_the_run_waits_for_it() -> None:
    baton = Baton()
    baton.before_run()
    baton.before_io_wait(1.0)
    assert baton.take(0.0)
    back = threading.Thread(target=baton.after_io_wait, args=(0.0,))
    back.start()
    while not baton._is_wanted:
        pass
    others: list[bool] = []
    other = threading.Thread(target=lambda: others.append(baton.take(60.0)))
    other.start()
    other.join()
    assert others == [False]
    baton.give()
    back.join()
    assert not baton.take(0.0)


def test_the_thread_that_has_it_cannot_take_it_again() -> None:
    baton = Baton()
    assert baton.take(0.0)
    with pytest.raises(fe.errors.FailedPreconditionError, match="in this thread"):
        baton.take(0.0)
    baton.give()
    assert baton.take(0.0)


def test_an_interrupt_is_kept_until_it_is_delivered() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt = DeferredInterrupt()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        interrupt.restore()
        with pytest.raises(KeyboardInterrupt):
            interrupt.deliver()
        interrupt.deliver()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_that_is_none_of_python_stays(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupt = DeferredInterrupt()
        assert signal.getsignal(signal.SIGINT) is handler
        interrupt.restore()
        interrupt.deliver()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
