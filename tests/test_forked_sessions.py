"""A session that was opened before a fork: the child is told, at once, and the parent goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, sys
import flowengine as fe

graph = fe.Graph()
graph.constant(2.0, name="x")

def in_child(doing):
    child = os.fork()
    if not child:
        try:
            doing()
        except fe.errors.FailedPreconditionError as error:
            print(error, flush=True)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child did not end as it should"

with fe.blocking.Session(graph) as session:
    assert session.run("x:0") == 2
    call = session.make_callable("x:0")
    in_child(lambda: session.run("x:0"))
    in_child(call)
    child = os.fork()
    if not child:
        session.close()
        session.__del__()
        with fe.blocking.Session(graph) as own:
            os._exit(0 if own.run("x:0") == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert session.run("x:0") == 2

async def main():
    async with fe.asyncio.Session(graph) as session:
        assert await session.run("x:0") == 2
        def doing():
            asyncio._set_running_loop(None)
            asyncio.run(session.run("x:0"))
        in_child(doing)
        assert await session.run("x:0") == 2

asyncio.run(main())
print("the parent went on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_is_told_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *told, last = done.stdout.splitlines()
    assert last == "the parent went on"
    assert len(told) == 3
    for line in told:
        assert "this session belongs to process" in line
        assert "open another here" in line
