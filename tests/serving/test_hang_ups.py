"""Clients that hang up, send slowly or in part, or reset their connection, beside clients that do not."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.serving.clients import rows
from tests.serving.exports import export_factor, export_gate
from tests.serving.processes import PATIENCE, GoodClient, Server, resident_bytes, serving

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")
#: Threads that behave badly.
_BAD: Final = 8


def _hang_up(server: Server, chance: random.Random) -> None:
    """Behave badly in one of many ways."""
    path, size = chance.choice([("/v1/models/gate:predict", 1), ("/v1/models/m:predict", 1), ("/", 1)])
    body = rows(*[1.0] * chance.choice([size, size, 5000]))
    lie = chance.choice([0, 0, 0, 0, -3, 1, 100])
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {max(len(body) + lie, 0)}\r\n\r\n"
    message = head.encode() + body
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        cut = chance.choice([len(message), len(message), chance.randrange(len(message)), len(head)])
        try:
            for begin in range(0, cut, chance.choice([cut or 1, 7, 1000])):
                connection.sendall(message[begin : min(cut, begin + 1000)])
                if chance.random() < 0.01:
                    connection.settimeout(0.01)
                    connection.recv(100)
            if chance.random() < 0.3:
                # Closing such a socket sends a reset.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if chance.random() < 0.3:
                connection.settimeout(0.02)
                connection.recv(1 << 16)
        except OSError:
            pass


def _misbehave(server: Server, seed: int, times: int) -> None:
    def some(number: int) -> None:
        chance = random.Random(f"{seed}:{number}")
        for _ in range(times // _BAD):
            _hang_up(server, chance)

    threads = [threading.Thread(target=some, args=[number]) for number in range(_BAD)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.mark.parametrize(
    ("times", "clients", "batching"),
    [
        pytest.param(80, 4, ["--batch", "8"], id="few"),
        pytest.param(2000, 64, [], id="many", marks=pytest.mark.nightly),
        pytest.param(2000, 64, ["--batch", "64"], id="many-batched", marks=pytest.mark.nightly),
    ],
)
def test_good_clients_are_answered_beside_bad_ones(
    times: int, clients: int, batching: list[str], tmp_path: Path
) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path, *batching) as server:
        server.until("'m', version 1: AVAILABLE")
        server.until("'gate', version 1: AVAILABLE")
        until = threading.Event()
        good = [GoodClient(server.port, number, until) for number in range(clients)]
        _misbehave(server, 0, times // 2)
        server.until_running(0, "gate")
        before = resident_bytes(server)
        _misbehave(server, 1, times // 2)
        server.until_running(0, "gate")
        after = resident_bytes(server)
        until.set()
        counts = sum((each.ended() for each in good), Counter())
        assert set(counts) <= {"right", "busy"}, counts
        assert counts["right"] >= clients
        assert after - before < 16 << 20, (before, after)
        assert not [line for line in server.lines if "Traceback" in line]
