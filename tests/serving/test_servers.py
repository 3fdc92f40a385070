"""The application under uvicorn and hypercorn, alone and mounted in programs of FastAPI and Starlette.

`make examples` runs these in an environment that has all of them; elsewhere those that are missing are
skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.serving.clients import rows
from tests.serving.exports import export_gate
from tests.serving.processes import PATIENCE, Server
from tests.serving.v2.test_open_inference import floats

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "docs" / "examples"
#: {server: how it is started}
SERVERS: Final = {
    "uvicorn": "uvicorn --no-access-log --port 0 {program}",
    "hypercorn on trio": "hypercorn --worker-class trio --bind 127.0.0.1:0 {program}",
    "hypercorn on asyncio": "hypercorn --worker-class asyncio --bind 127.0.0.1:0 {program}",
}
#: {framework: how the models are mounted, and where}
FRAMEWORKS: Final = {
    "": ("app = models", ""),
    "fastapi": (
        "from fastapi import FastAPI\napp = FastAPI(lifespan=models.lifespan)\napp.mount('/models', models)",
        "/models",
    ),
    "starlette": (
        "from starlette.applications import Starlette\nfrom starlette.routing import Mount\n"
        "app = Starlette(routes=[Mount('/models', app=models)], lifespan=models.lifespan)",
        "/models",
    ),
}
#: The program: it counts the running requests at a path of its own, and tells of each that has ended.
PROGRAM: Final = """
import sys
import flowengine as fe

def log(facts):
    print("answered", facts["status"], file=sys.stderr, flush=True)

models = fe.serving.app({folder!r}, access_log=log)
{mounting}
inner = app

async def app(scope, receive, send):
    if scope["type"] != "http" or scope["path"] != "/running":
        return await inner(scope, receive, send)
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b'{{"running": %d}}' % models.manager.requests}})
"""


class Host(Server):
    """A server of another kind, in a process of its own."""

    def ask_until(self, path: str, answer: Any) -> None:
        """Ask until there is this answer."""
        end = time.monotonic() + PATIENCE
        while (found := self.ask(path)[1]) != answer:
            assert time.monotonic() < end, (found, self.lines)


def needed(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not in this environment: make examples has one")


@contextmanager
def hosting(command: str, program: str, folder: Path) -> Iterator[Host]:
    """Run a server with a program of the folder, and wait until it listens."""
    needed(command.split()[0])
    path = os.pathsep.join([str(folder), str(EXAMPLES), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-m", *command.format(program=program).split()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the processes that hypercorn starts can be ended with it
    )
    server = Host(process, 0)
    try:
        server.until("unning on http")
        found = re.search(r"unning on http://127\.0\.0\.1:(\d+)", "\n".join(server.lines))
        assert found is not None
        server.port = int(found[1])
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_with_models(server: str, framework: str, tmp_path: Path) -> None:
    mounting, prefix = FRAMEWORKS[framework]
    if framework:
        needed(framework)
    export_gate(tmp_path / "all" / "gate" / "1")
    (tmp_path / "program.py").write_text(PROGRAM.format(folder=str(tmp_path / "all"), mounting=mounting))
    with hosting(SERVERS[server], "program:app", tmp_path) as started:
        predict, infer = f"{prefix}/v1/models/gate:predict", f"{prefix}/v2/models/gate/infer"
        assert started.ask(f"{prefix}/v2/health/live") == (200, {"live": True})
        started.ask_until(f"{prefix}/v2/models/gate/ready", {"name": "gate", "ready": True})
        document = started.ask(f"{prefix}/openapi.json")[1]
        assert document["servers"] == [{"url": prefix or "/"}]
        assert started.ask(f"{prefix}/v1/models/other:predict", rows(1.0))[0] == 404
        # A client that hangs up ends its step: the token is for the next one.
        connection = started.begin(predict, rows(1.0))
        started.ask_until("/running", {"running": 1})
        connection.close()
        started.ask_until("/running", {"running": 0})
        started.until("answered 499")
        tokens = b'{"signature_name": "open", "inputs": [0.0, 0.0]}'
        assert started.ask(predict, tokens)[0] == 200
        assert started.ask(predict, rows(2.0)) == (200, {"predictions": [4.0]})
        assert started.ask(infer, floats(3.0))[1]["outputs"][0]["data"] == [6.0]
        started.process.send_signal(signal.SIGTERM)
        # A server ends by the signal once it has closed what it serves.
        assert started.process.wait(PATIENCE) in (0, -signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_the_program_of_the_documentation(server: str, tmp_path: Path) -> None:
    needed("fastapi")
    (tmp_path / "keras_digits").symlink_to(EXAMPLES / "keras_digits")
    with hosting(SERVERS[server], "mounted_models:app", tmp_path) as started:
        started.ask_until("/hello", {"ready": True})
        status, document = started.ask("/models/v2/models/keras_digits")
        assert (status, document["platform"]) == (200, "tensorflow_savedmodel")
