"""A host and a process that is none of ours: it dies, lies, floods, takes too much, or never answers."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import (
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
    from flowengine.sandbox import inside, words as w
    from flowengine.transport.calls.service import Reply
    Box = inside.BoxService
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


async def _error_of(
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    body: str,
    *,
    goes_on: bool = False,
    seconds: float = 60.0,
) -> OpError:
    """What a step of a session in this process ends with. `goes_on`: see that the next one is right."""
    indented = textwrap.indent(textwrap.dedent(body).strip(), "    " if program is _LOCKED else "")
    async with fe.Session(_graph(), config=_config(seconds=seconds)) as session:
        with monkeypatch.context() as patch:
            patch.setattr("flowengine.sandbox.process._BEGIN", program.format(body=indented))
            patch.setattr("flowengine.sandbox.process._START_SECONDS", 30.0)
            with pytest.raises(OpError) as raised:
                await session.run("y:0", {"x:0": [1, 2]})
        if goes_on:
            np.testing.assert_array_equal(await session.run("y:0", {"x:0": [1, 2]}), [2, 4])
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
        "Box._run = lambda self, request: Reply(True, [])",
        "Box._run = lambda self, request: Reply(True, [np.zeros(2, np.int64)])",
        "Box._run = lambda self, request: Reply(True, [np.zeros(2, np.float32)] * 9)",
        "Box._run = lambda self, request: Reply(True, [np.array([b'text'], object)])",
    ],
)
async def test_answers_that_make_no_sense_end_the_process(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert isinstance(error, UnavailableError) or type(error).__name__ == "InvalidArgumentError"
    assert str(error).isprintable()


async def test_a_flood_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "Box._run = lambda self, request: Reply(True, [np.zeros(60_000_000, np.float32)])"
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert isinstance(error, ResourceExhaustedError)
    body = "Box._run = lambda self, request: os.write(int(sys.argv[1]), os.urandom(1 << 20))"
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, UnavailableError)


async def test_memory_that_no_account_knows_of_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        def run(self, request):
            held = [np.ones(4_000_000) for _ in range(4) if not time.sleep(0.1)]
            time.sleep(5)
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body, goes_on=True)
    assert isinstance(error, ResourceExhaustedError)
    assert "more than its 50000000" in error.message


@pytest.mark.parametrize(
    "body", ["Box._run = lambda self, request: time.sleep(30)", "Box._run = lambda s, r: 9**9**9"]
)
async def test_a_step_that_never_answers_ends_with_its_process(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    error = await _error_of(monkeypatch, _LOCKED, body, seconds=0.5)
    assert isinstance(error, DeadlineExceededError)


async def test_texts_of_errors_are_bounded_and_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        def run(self, request):
            error = InternalError('\\x1b[2J' * 100_000)
            error.node_name = '\\r\\n' * 3000
            raise error
        Box._run = run
        """
    error = await _error_of(monkeypatch, _LOCKED, body)
    assert str(error).isprintable()
    assert len(str(error)) < 20_000
