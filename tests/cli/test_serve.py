"""`flowengine serve`: a process that answers, drains and ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main
from tests.serving.clients import rows
from tests.serving.exports import export_factor, export_gate

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")
#: Seconds after which a server that does not answer has failed.
PATIENCE: Final = 60.0


class Server:
    """A server in a process of its own, and the lines that it has logged."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[str] = []
        self._news = threading.Condition()
        assert process.stderr is not None
        threading.Thread(target=self._read, args=[process.stderr], daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._news:
                self.lines.append(line.rstrip())
                self._news.notify_all()

    def until(self, text: str) -> None:
        """Wait until a line has a text in it."""
        with self._news:
            assert self._news.wait_for(lambda: any(text in line for line in self.lines), PATIENCE), self.lines

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET" if body is None else "POST", path, body)
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if text[:1] in b"{[" else text.decode()
        finally:
            connection.close()

    def begin(self, path: str, body: bytes) -> socket.socket:
        """Send a request, and return its connection without reading the answer."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return connection

    def until_running(self, count: int) -> None:
        """Wait until so many requests run, as the metrics tell."""
        while True:
            _, text = self.ask("/metrics")
            found = re.findall(r"^flowengine_serving_running_requests.* ([0-9.]+)$", text, re.M)
            if sum(map(float, found)) == count:
                return


@contextmanager
def serving(models: Path | None, *options: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "flowengine", "serve", "--port", str(port), *options]
    command += [] if models is None else [str(models)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    server = Server(process, port)
    try:
        yield server
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def test_a_model_answers_and_a_new_version_takes_its_place(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    log = tmp_path / "access.log"
    with serving(tmp_path, "--poll", "0.05", "--access-log", str(log), "--batch", "8") as server:
        server.until("'m', version 1: AVAILABLE")
        assert server.ask("/v1/models/m:predict", rows(2.0)) == (200, {"predictions": [6.0]})
        assert server.ask("/v2/health/ready")[0] == 200
        export_factor(tmp_path / "m" / "2", 5.0)
        server.until("'m', version 2: AVAILABLE")
        assert server.ask("/v1/models/m:predict", rows(2.0)) == (200, {"predictions": [10.0]})
        server.until("'m', version 1: END")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [each for each in entries if each["path"] == "/v1/models/m:predict"]
    assert [(each["status"], each["version"], each["rows"]) for each in asked] == [(200, 1, 1), (200, 2, 1)]


def test_a_client_that_hangs_up_ends_its_step(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path) as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        connection.close()
        server.until_running(0)


def test_the_first_signal_drains(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path, "--drain", "0.5") as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        connection.close()


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path, "--drain", "1000") as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        server.process.send_signal(signal.SIGTERM)
        server.until("draining")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
        connection.close()


def test_files_of_tensorflow_serving(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        export_factor(tmp_path / "deep" / "m" / str(number), number)
    models = tmp_path / "models.config"
    models.write_text(
        "model_config_list { config { name: 'multiply' base_path: '" + str(tmp_path / "deep" / "m") + "' "
        "model_platform: 'tensorflow' model_version_policy { specific { versions: 1 versions: 3 } } "
        "version_labels { key: 'stable' value: 1 } } }"
    )
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 128 } batch_timeout_micros { value: 0 }")
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true path: '/counted' }")
    options = (
        *("--model_config_file", str(models), "--batching_parameters_file", str(batching)),
        *("--monitoring_config_file", str(monitoring)),
    )
    with serving(None, *options) as server:
        server.until("'multiply', version 1: AVAILABLE")
        server.until("'multiply', version 3: AVAILABLE")
        assert server.ask("/v1/models/multiply:predict", rows(2.0)) == (200, {"predictions": [6.0]})
        stable = server.ask("/v1/models/multiply/labels/stable:predict", rows(2.0))
        assert stable == (200, {"predictions": [2.0]})
        assert ":tensorflow:serving:request_count" in server.ask("/counted")[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give either MODELS, a folder, or --model_config_file"),
        (["nowhere"], "there is no folder"),
        (["."], "holds no model"),
        (["--model_config_file", "nowhere"], "'nowhere' cannot be read"),
        ([".", "--batching_parameters_file", "bad"], "bad:1:1"),
        ([".", "--sandbox", "--place", "*=CPU:0"], "leave placement options out"),
    ],
)
def test_what_cannot_be_served(
    arguments: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad").write_text("no_such_field: 1")
    assert main(["serve", *arguments]) == failure.USAGE
    assert text in capsys.readouterr().err


def test_the_help_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["serve", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 60
