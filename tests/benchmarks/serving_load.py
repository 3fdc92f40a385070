"""Clients of an HTTP server: each sends its request again and again over one connection.

    python -m tests.benchmarks.serving_load PORT CLIENTS SECONDS < requests.json

Standard input is JSON: a list of [path, headers, body]; each client goes through it. Prints JSON: requests,
seconds, the latencies at 50, 90 and 99 in a hundred in milliseconds, and other statuses than 200 by count.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from time import perf_counter
from typing import Any


class _Client(asyncio.Protocol):
    """One connection: sends its next request as soon as the last one has been answered."""

    def __init__(self, requests: list[bytes], first: int, load: _Load) -> None:
        self._requests = requests
        self._next = first
        self._load = load
        self._missing = 0
        self._head = b""
        self._began = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = perf_counter()
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, found, body = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._head = b""
            lines = head.lower().split(b"\r\n")
            self._status = lines[0].split()[1].decode()
            size = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
            self._missing = size - len(body)
        if not self._missing:
            self._load.answered(self._status, perf_counter() - self._began)
            if self._load.goes_on():
                self._send()
            else:
                self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.left(error)


class _Load:
    def __init__(self, clients: int, seconds: float) -> None:
        self.latencies: list[float] = []
        self.statuses: dict[str, int] = {}
        self._clients = clients
        self._until = perf_counter() + seconds
        self._ended = asyncio.Event()

    def goes_on(self) -> bool:
        return perf_counter() < self._until

    def answered(self, status: str, seconds: float) -> None:
        self.latencies.append(seconds)
        if status != "200":
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def left(self, error: Exception | None) -> None:
        if self.goes_on():
            self.statuses["lost"] = self.statuses.get("lost", 0) + 1
        self._clients -= 1
        if not self._clients:
            self._ended.set()

    async def end(self) -> None:
        await self._ended.wait()


def _request(path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def load(port: int, clients: int, seconds: float, requests: list[bytes]) -> dict[str, Any]:
    """Send requests for so many seconds, and return what came of them."""
    loop = asyncio.get_running_loop()
    began = perf_counter()
    measured = _Load(clients, seconds)
    for number in range(clients):
        await loop.create_connection(partial(_Client, requests, number, measured), "127.0.0.1", port)
    await measured.end()
    taken = perf_counter() - began
    latencies = sorted(measured.latencies)
    at = {f"p{part}": 1e3 * latencies[len(latencies) * part // 100] for part in (50, 90, 99)}
    return {"requests": len(latencies), "seconds": taken, **at, "statuses": measured.statuses}


def main() -> None:
    port, clients, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    requests = [
        _request(path, headers, body.encode("latin-1")) for path, headers, body in json.load(sys.stdin)
    ]
    print(json.dumps(asyncio.run(load(port, clients, seconds, requests))))


if __name__ == "__main__":
    main()
