"""`flowengine serve` as a process of its own, for tests that speak HTTP with it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tests.serving.clients import rows

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

    def until_running(self, count: int, model: str = "") -> None:
        """Wait until at least so many requests run, or none, of one model or of all, as the metrics tell."""
        which = f'.*model_name="{model}".*' if model else ".*"
        while True:
            _, text = self.ask("/metrics")
            found = re.findall(rf"^flowengine_serving_running_requests{which} ([0-9.]+)$", text, re.M)
            running = sum(map(float, found))
            if running >= count if count else not running:
                return


class GoodClient:
    """A client that asks again and again, and counts its answers: right, wrong, or lost."""

    def __init__(self, port: int, number: int, until: threading.Event) -> None:
        self.counts: Counter[str] = Counter()
        self._port, self._number, self._until = port, number, until
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        asked = 0
        while not self._until.is_set():
            asked += 1
            value = float(self._number * 1000 + asked)
            try:
                connection.request("POST", "/v1/models/m:predict", rows(value))
                reply = connection.getresponse()
                answer = json.loads(reply.read())
            except (OSError, http.client.HTTPException) as error:
                self.counts[f"lost: {error!r}"] += 1
            else:
                right = answer == {"predictions": [3.0 * value]} and reply.status == 200
                # More rows may wait than are allowed: those of requests with thousands.
                self.counts["right" if right else "busy" if reply.status == 429 else "wrong"] += 1
        connection.close()

    def ended(self) -> Counter[str]:
        """Wait until it has ended, and return its counts."""
        self.thread.join(PATIENCE)
        return self.counts


def resident_bytes(server: Server) -> int:
    """Return the resident memory of a server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+) kB", status, re.M)[0]) << 10


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
