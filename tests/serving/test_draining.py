"""The end of a server while requests run: it answers each, or refuses it before it has begun."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import flowengine as fe
from tests.serving.clients import rows
from tests.serving.processes import PATIENCE, Server, serving

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")


def _export_busy(path: Path) -> None:
    """Write a model of y = x after a thousand products of matrices, which take some milliseconds."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")

    def step(count: Any, matrix: Any) -> tuple[Any, Any]:
        return count + 1, matrix @ matrix

    identity = graph.constant([[1.0, 0.0], [0.0, 1.0]])
    _, last = graph.while_loop(lambda count, matrix: count < 1000, step, (graph.constant(0), identity))
    y = x * last[0, 0]
    with fe.blocking.Session(graph) as session:
        signatures: dict[str, Any] = {"serving_default": ({"x": x}, {"y": y})}
        session.call(fe.saved_model.save, path, signatures=signatures)


def _outcome(server: Server, number: int, go: threading.Barrier) -> str:
    """Return the status of one request, "wrong", or "closed" if no byte of an answer came."""
    answer = head = body = b""
    try:
        go.wait()
        with server.begin("/v1/models/busy:predict", rows(float(number))) as connection:
            while piece := connection.recv(1 << 16):
                answer += piece
                head, _, body = answer.partition(b"\r\n\r\n")
                if body.endswith((b"}", b"}\n")):
                    break
    except OSError:
        pass
    if not answer:
        return "closed"
    status = head.split()[1].decode()
    return status if status != "200" or json.loads(body) == {"predictions": [number]} else "wrong"


@pytest.mark.parametrize("batching", [[], ["--batch", "16"]], ids=["alone", "batched"])
def test_requests_are_answered_or_refused(batching: list[str], tmp_path: Path) -> None:
    _export_busy(tmp_path / "busy" / "1")
    log = tmp_path / "access.log"
    with serving(tmp_path, "--access-log", str(log), "--drain", "60", *batching) as server:
        server.until("'busy', version 1: AVAILABLE")
        outcomes: Counter[str] = Counter()
        go = threading.Barrier(101)

        def ask(number: int) -> None:
            outcomes[_outcome(server, number, go)] += 1

        threads = [threading.Thread(target=ask, args=[number]) for number in range(100)]
        for each in threads:
            each.start()
        go.wait()
        server.until_running(20)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        for each in threads:
            each.join(PATIENCE)
    logged = Counter(
        str(json.loads(line)["status"]) for line in log.read_text().splitlines() if "predict" in line
    )
    assert set(outcomes) <= {"200", "503", "closed"}, outcomes
    assert sum(outcomes.values()) == 100
    assert outcomes["200"] >= 20
    # Each request that had begun was answered.
    assert logged == {each: count for each, count in outcomes.items() if each != "closed"}
