"""The services of docs/examples under real servers: answers, refusals, timeouts, clients that hang up.

`make examples` runs these in an environment that has the servers; elsewhere they are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image

from tests.docs.transcripts import EXAMPLES, ROOT

pytestmark = pytest.mark.slow

#: {service: a module that it needs, how it is started}
SERVICES: Final = {
    "starlette_service": ("starlette", "uvicorn --no-access-log --port 0 {app}"),
    "fastapi_service": ("fastapi", "uvicorn --no-access-log --port 0 {app}"),
    "keras_service": ("fastapi", "uvicorn --no-access-log --port 0 {app}"),
    "quart_service": ("hypercorn", "hypercorn --worker-class trio --bind 127.0.0.1:0 {app}"),
}
#: The services that answer with errors, timeouts and cancellation of their own.
CAREFUL: Final = [name for name in SERVICES if name != "keras_service"]
NINE: Final = np.asarray(Image.open(EXAMPLES / "nine.png"))[np.newaxis, :, :, np.newaxis].tolist()

#: The same application with other waits; it says how each call has begun and ended.
WATCHED: Final = """
import flowengine as fe
import {base} as service
from {name} import app

batched = fe.saved_model.ModelSignature.batched

class Watched:
    def __init__(self, signature):
        self.signature = signature

    async def __call__(self, **inputs):
        # The call before the first request is alone in its batch, and would wait as long for others.
        return await self.signature(**inputs) if {wait_seconds} < 1 else None

    async def call(self, inputs, *, options):
        print("began", flush=True)
        try:
            result = await self.signature.call(inputs, options=options)
        except BaseException as error:
            print("ended with", type(error).__name__, flush=True)
            raise
        print("ended", flush=True)
        return result

fe.saved_model.ModelSignature.batched = lambda self, **options: Watched(
    batched(self, **options, wait_seconds={wait_seconds})
)
service.PATIENCE = fe.RunOptions(timeout_seconds={timeout_seconds})
"""


@dataclass
class Service:
    """A server that runs: where it listens, and what it prints."""

    port: int
    output: IO[str]

    def ask(self, body: Any) -> tuple[int, Any]:
        """(status, answer) to a body."""
        request = Request(
            f"http://127.0.0.1:{self.port}/classify",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urlopen(request) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            text = error.read().decode()
            return error.code, json.loads(text) if text.startswith("{") else text

    def says(self, line: str) -> None:
        """Wait for a line; fail where another comes."""
        assert self.output.readline() == f"{line}\n"


@contextmanager
def serving(
    name: str, folder: Path, *, wait_seconds: float = 0.002, timeout_seconds: float = 30.0
) -> Iterator[Service]:
    module, command = SERVICES[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not in this environment: make examples has one")
    base = "starlette_service" if name == "fastapi_service" else name
    (folder / "watched.py").write_text(
        WATCHED.format(base=base, name=name, wait_seconds=wait_seconds, timeout_seconds=timeout_seconds)
    )
    path = os.pathsep.join([str(folder), str(EXAMPLES), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, "-m", *command.format(app="watched:app").split()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stderr:
                running = re.search(r"running on http://127\.0\.0\.1:(\d+)", line, re.IGNORECASE)
                if running:
                    yield Service(int(running[1]), process.stdout)
                    break
            else:
                pytest.fail(f"{name} did not start")
        finally:
            process.terminate()
            process.communicate()
    # A server ends by the signal once it has closed what it serves.
    assert process.returncode in {0, -15}


@pytest.mark.parametrize("name", CAREFUL)
def test_answers_and_refusals(name: str, tmp_path: Path) -> None:
    with serving(name, tmp_path) as service:
        status, answer = service.ask(NINE)
        assert status == 200
        assert answer["digit"] == "nine"
        assert 0.9 < answer["score"] <= 1
        for wrong in ([[1, 2], [3, 4]], "nine", [[[["a"]]]], [[1], [2, 3]], 300, None):
            status, answer = service.ask(wrong)
            assert (status, list(answer)) == (400, ["error"]), wrong
        assert service.ask(NINE)[0] == 200


def test_the_service_of_the_how_to_answers(tmp_path: Path) -> None:
    (tmp_path / "keras_digits").symlink_to(EXAMPLES / "keras_digits")
    with serving("keras_service", tmp_path) as service:
        rows = [[pixel[0] for pixel in row] for row in NINE[0]]
        assert service.ask(rows) == (200, {"digit": 9})
        assert service.ask("nine")[0] == 422


@pytest.mark.parametrize("name", CAREFUL)
def test_a_step_that_takes_too_long_is_a_504(name: str, tmp_path: Path) -> None:
    with serving(name, tmp_path, wait_seconds=60, timeout_seconds=0.05) as service:
        assert service.ask(NINE) == (504, {"error": "DeadlineExceededError"})


@pytest.mark.parametrize("name", CAREFUL)
def test_a_client_that_hangs_up_ends_its_step(name: str, tmp_path: Path) -> None:
    body = json.dumps(NINE).encode()
    with serving(name, tmp_path, wait_seconds=60) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            head = (
                "POST /classify HTTP/1.1",
                "Host: here",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "\r\n",
            )
            client.sendall("\r\n".join(head).encode() + body)
            service.says("began")
        service.says("ended with Cancelled" if "quart" in name else "ended with CancelledError")
