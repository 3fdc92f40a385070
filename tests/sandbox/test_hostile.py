"""A host and a process that is none of ours: it dies, lies, floods, takes too much, or never answers."""

from __future__ import annotations

import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import (
    CancelledError,
    DeadlineExceededError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.sandbox import confine

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

#: A process that has locked itself in, and then does what `body` says.
_LOCKED = """
import sys; sys.path[:0] = sys.argv[2:]
from flowengine.sandbox import child
begin = child._begin
def locked(orders, descriptor):
    levels = begin(orders, descriptor)
    import os, time
    import numpy as np
    from flowengine.core.errors import InternalError, OpError
    from flowengine.sandbox import child_service as inside, messages as w
    from flowengine.transport.calls.service import Reply
    Box = inside.BoxService
    def answer(making):
        async def run(self, message, given):
            return making()
        Box._run = run
{body}
    return levels
child._begin = locked
child.main()
"""

#: What answers before there is a protocol.
_UNLOCKED = """
import json, os, socket, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
channel.recv(1 << 20)
{body}
"""


def _graph() -> fe.GraphBytes:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, x, name="y")
    return fe.GraphBytes(g.to_graph_def().SerializeToString())


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 50_000_000, "seconds": 60.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


async def _step(session: fe.Session) -> Any:
    return await session.run("y:0", {"x:0": [1, 2]})


async def _error_of(
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    body: str,
    *,
    goes_on: bool = False,
    seconds: float = 60.0,
    ask: Callable[[fe.Session], Awaitable[Any]] = _step,
) -> OpError:
    """Return the error that a call of the session ends with. `goes_on`: see that the next step is right."""
    indented = textwrap.indent(textwrap.dedent(body).strip(), "    " if program is _LOCKED else "")
    async with fe.Session(_graph(), config=_config(seconds=seconds)) as session:
        with monkeypatch.context() as patch:
            patch.setattr("flowengine.sandbox.startup._BEGIN", program.format(body=indented))
            patch.setattr("flowengine.sandbox.startup._START_SECONDS", 30.0)
            with pytest.raises(OpError) as raised:
                await ask(session)
        if goes_on:
            np.testing.assert_array_equal(await _step(session), [2, 4])
    error: OpError = raised.value
    return error


@pytest.mark.parametrize(
    "body",
    [
        "",
        "channel.sendall(b'nonsense\\n')",
        "channel.sendall(b'[' * 100000)",
        'channel.sendall(b\'{"levels": 7, "error": []}\\n\'); time.sleep(60)',
        'channel.sendall(b\'{"levels": {}, "error": ""}\\n\' + os.urandom(100000)); time.sleep(60)',
        'channel.sendall(b\'{"levels": {}, "error": ""}\\n\')',
    ],
)
async def test_a_process_that_never_gets_ready(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    error = await _error_of(monkeypatch, _UNLOCKED, body)
    assert isinstance(error, UnavailableError)


@pytest.mark.parametrize(
    "body",
    [
        "Box._open = lambda self, request: os._exit(7)",
        "Box._prepare = lambda self, request: 'nonsense'",
        "Box._prepare = lambda self, request: {'number': 1, 'feeds': [], 'fetches': [], 'positions': [0]}",
        """
        said = {'number': 1, 'positions': [0], 'feeds': [{'name': 'x', 'dtype': 'float32', 'dims': None}]}
        Box._prepare = lambda self, request: {**said, 'fetches': [{'dtype': '__import__'}]}
        """,
        """
        said = {'number': 1, 'positions': [5], 'feeds': [{'name': 'x', 'dtype': 'float32', 'dims': None}]}
        Box._prepare = lambda self, request: {**said, 'fetches': [{'dtype': 'float32'}]}
        """,
        """
        said = {'number': 1, 'positions': [0], 'fetches': [{'dtype': 'float32'}]}
        Box._prepare = lambda self, request: {**said, 'feeds': [{'dtype': 'float32', 'dims': [-7]}]}
        """,
        "answer(lambda: Reply(None, []))",
        "answer(lambda: Reply(None, [np.zeros(2, np.int64)]))",
        "answer(lambda: Reply(None, [np.zeros(2, np.float32)] * 9))",
        "answer(lambda: Reply(None, [np.array([b'text'], object)]))",
    ],
)
async def test_answers_that_make_no_sense_end_the_process(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert isinstance(error, UnavailableError) or type(error).__name__ == "InvalidArgumentError"
    assert str(error).isprintable()


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has found a way around what it may ask for."""
    monkeypatch.setattr(
        "flowengine.sandbox.process_usage.ProcessUsage.allow", lambda self, room, least=0: None
    )


@pytest.mark.usefixtures("unbounded")
async def test_a_flood_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "answer(lambda: Reply(None, [np.zeros(60_000_000, np.float32)]))"
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert isinstance(error, ResourceExhaustedError)
    body = "answer(lambda: os.write(int(sys.argv[1]), os.urandom(1 << 20)))"
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, UnavailableError)


@pytest.mark.parametrize("making", ["[0] * 50_000_000", "bytes(400_000_000)", "np.ones(50_000_000)"])
async def test_memory_that_may_not_be_asked_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, making: str
) -> None:
    error = await _error_of(monkeypatch, _LOCKED, f"answer(lambda: Reply(None, [{making}]))", goes_on=False)
    assert isinstance(error, ResourceExhaustedError)
    assert "the step needed more memory" in error.message


@pytest.mark.usefixtures("unbounded")
async def test_memory_that_no_account_knows_of_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        async def run(self, message, given):
            held = [np.ones(4_000_000) for _ in range(4) if not time.sleep(0.1)]
            time.sleep(5)
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, ResourceExhaustedError)
    assert "more than its 50000000" in error.message


@pytest.mark.parametrize("program", ["threading.Thread(target=event.wait, daemon=True).start()", "bare()"])
async def test_threads_without_end_end_the_process(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    body = f"""
        import ctypes, threading
        threading.stack_size(1 << 15)
        event = threading.Event()
        def bare():
            # By the call itself, so that no library bounds them: each sleeps for ever.
            stack = ctypes.create_string_buffer(4096)
            kept.append(stack)
            top = (ctypes.addressof(stack) + 4096) & ~15
            library.clone(library.sleep, ctypes.c_void_p(top), 0x10F00, ctypes.c_void_p(10**6))
        kept, library = [], ctypes.CDLL(None)
        async def run(self, message, given):
            while True:
                try:
                    {program}
                except RuntimeError:
                    pass
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, ResourceExhaustedError)
    assert "threads" in error.message


@pytest.mark.parametrize("body", ["answer(lambda: time.sleep(30))", "answer(lambda: 9**9**9)"])
async def test_a_step_that_never_answers_ends_with_its_process(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    error = await _error_of(monkeypatch, _LOCKED, body, seconds=0.5)
    assert isinstance(error, DeadlineExceededError)


@pytest.mark.parametrize(
    ("body", "kind"), [("time.sleep(30)", DeadlineExceededError), ("os._exit(3)", UnavailableError)]
)
async def test_a_reset_that_never_answers_ends_with_its_process(
    monkeypatch: pytest.MonkeyPatch, body: str, kind: type[OpError]
) -> None:
    error = await _error_of(
        monkeypatch,
        _LOCKED,
        f"Box._reset = lambda self, request: {body}",
        goes_on=True,
        seconds=0.5,
        ask=lambda session: session.reset([]),
    )
    assert isinstance(error, kind)


async def test_a_reset_that_its_session_overtakes_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(session: fe.Session) -> None:
        await _step(session)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def close() -> None:
                while not session.elsewhere.running:
                    await trio.lowlevel.checkpoint()
                await session.close()

            await session.reset([])

    body = "Box._reset = lambda self, request: time.sleep(30)"
    with pytest.raises(ExceptionGroup) as caught:
        await _error_of(monkeypatch, _LOCKED, body, ask=ask)
    assert caught.group_contains(CancelledError, match="the session was closed")


async def test_texts_of_errors_are_bounded_and_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        async def run(self, message, given):
            error = InternalError('\\x1b[2J' * 100_000)
            error.node_name = '\\r\\n' * 3000
            raise error
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert str(error).isprintable()
    assert len(str(error)) < 20_000


@pytest.mark.parametrize(
    ("places", "done", "beside"),
    [
        ("[[1 << 62, 2]]", "[]", "[]"),
        ("[[0, 1 << 40]]", "[]", "[]"),
        ("[[0, 1 << 62, 1 << 62]]", "[]", "[]"),
        ("[[-4096, 2]]", "[]", "[]"),
        ("[[0, -2]]", "[]", "[]"),
        ("[[0, 2], [4096, 2]]", "[]", "[]"),
        ("[['0', 2]]", "[]", "[]"),
        ("[[]]", "[]", "[]"),
        ("[None]", "[]", "[]"),
        ("[[0, 2]]", "[]", "[np.zeros(2, np.float32)]"),
        ("[[0, 2]]", "[0]", "[]"),
        ("[[0, 2]]", "[-1, 'x', None]", "[]"),
        ("[[0, 2]]", "[[]]", "[]"),
    ],
)
async def test_memory_that_is_none_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, places: str, done: str, beside: str
) -> None:
    body = f"answer(lambda: Reply(w.BoxValues({places}, {done}).to_wire(), {beside}))"
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, UnavailableError)
    assert str(error).isprintable()


_CHANGING = """
        import threading
        from flowengine.core.errors import InternalError
        def change(segment):
            value = 0
            while True:
                value += 1
                segment.view(0, (1_000_000,), np.float32)[:] = value
                segment.empty(0, 4 << 20)
        async def run(self, message, given):
            segment = self._passage._out
            self._passage.released = lambda offsets: None
            for size in (0, 1 << 12, 1 << 40):
                try:
                    os.ftruncate(segment.descriptor, size)
                except OSError as error:
                    pass
                else:
                    raise InternalError("the size of the memory was changed")
            threading.Thread(target=change, args=(segment,), daemon=True).start()
            return Reply(w.BoxValues([[0, 1_000_000]], []).to_wire(), [])
        Box._run = run
        """


async def test_memory_that_changes_while_it_is_read_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    indented = textwrap.indent(textwrap.dedent(_CHANGING).strip(), "    ")
    async with fe.Session(_graph(), config=_config()) as session:
        with monkeypatch.context() as patch:
            patch.setattr("flowengine.sandbox.startup._BEGIN", _LOCKED.format(body=indented))
            for _ in range(5):
                value = await session.run("y:0", {"x:0": [1, 2]})
                before = value.copy()
                await trio.sleep(0.02)
                # What was handed out is this process's own.
                np.testing.assert_array_equal(value, before)


@pytest.mark.usefixtures("unbounded")
async def test_memory_that_is_filled_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        async def run(self, message, given):
            segment = self._passage._out
            segment.view(0, (segment.size,), np.uint8)[:] = 1
            held = np.ones(10_000_000)
            time.sleep(5)
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, ResourceExhaustedError)
