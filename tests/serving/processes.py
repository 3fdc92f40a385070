"""`flowengine serve` as a process of its own, for tests that speak HTTP with it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

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
