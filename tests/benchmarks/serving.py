"""`flowengine serve` beside MLServer, in turns, each server on one core and its clients on another.

    python -m tests.benchmarks.serving [--peer PYTHON] [--seconds 2] [--turns 5]

PYTHON has mlserver 1.7 installed. Two models: one small layer (4 x 3), and three layers of 2,048. For 1, 8
and 64 clients: requests a second, and the latency at 50 and at 99 in a hundred, medians of the turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import flowengine as fe

ROOT: Final = Path(__file__).resolve().parents[2]
#: Widths of the layers of each model.
MODELS: Final = {"small": (4, 3), "wide": (2048, 2048, 2048, 10)}
SERVER_CORE, CLIENT_CORE = 0, 1


def weights_of(widths: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Return the weights of layers of these widths."""
    random = np.random.default_rng(0)
    pairs = itertools.pairwise(widths)
    return [random.standard_normal((n, m), dtype=np.float32) / np.float32(n**0.5) for n, m in pairs]


def export(folder: Path) -> None:
    """Write each model for both servers."""
    for name, widths in MODELS.items():
        weights = weights_of(widths)
        graph = fe.Graph()
        x = y = graph.placeholder("float32", [None, widths[0]], name="x")
        for each in weights:
            y = fe.nn.relu(y @ graph.constant(each))
        with fe.blocking.Session(graph) as session:
            signatures: dict[str, Any] = {"serving_default": ({"x": x}, {"y": y})}
            session.call(fe.saved_model.save, folder / "models" / name / "1", signatures=signatures)
        peer = folder / "peer" / name
        peer.mkdir(parents=True)
        np.savez(peer / "weights.npz", *weights)
        settings = {
            "name": name,
            "implementation": "tests.benchmarks.serving_mlserver.DenseLayers",
            "parameters": {"uri": str(peer)},
        }
        (peer / "model-settings.json").write_text(json.dumps(settings))


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(command: list[str], ready: str, log: Path, **variables: str) -> Iterator[int]:
    """Run a server on one core until the end of the block; yields the number of its process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **variables}
    with log.open("w") as file:
        process = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), *command], env=environment, stdout=file, stderr=file
        )
        try:
            until = time.monotonic() + 120
            while True:
                try:
                    with urllib.request.urlopen(ready, timeout=5):
                        break
                except OSError:
                    has_failed = process.poll() is not None or time.monotonic() > until
                    assert not has_failed, log.read_text()[-2000:]
                    time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


@contextmanager
def flowengine(folder: Path, *options: str) -> Iterator[int]:
    """Run `flowengine serve`; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "flowengine", "serve", str(folder / "models"), "--port", str(port)]
    with started([*command, *options], f"http://127.0.0.1:{port}/v2/health/ready", folder / f"fe-{port}"):
        yield port


@contextmanager
def mlserver(python: str, folder: Path) -> Iterator[int]:
    """Run MLServer with all models in one process; yields its port."""
    port, metrics, grpc = free_port(), free_port(), free_port()
    options = {
        "MLSERVER_HTTP_PORT": str(port),
        "MLSERVER_METRICS_PORT": str(metrics),
        "MLSERVER_GRPC_PORT": str(grpc),
        "MLSERVER_PARALLEL_WORKERS": "0",
        "MLSERVER_DEBUG": "false",
    }
    command = [str(Path(python).with_name("mlserver")), "start", str(folder / "peer")]
    with started(command, f"http://127.0.0.1:{port}/v2/health/ready", folder / "peer.log", **options):
        yield port


def load(port: int, clients: int, seconds: float, requests: list[Any]) -> dict[str, Any]:
    """Send requests by so many clients from another core."""
    done = subprocess.run(
        [
            *("taskset", "-c", str(CLIENT_CORE), sys.executable, "-m", "tests.benchmarks.serving_load"),
            *(str(port), str(clients), str(seconds)),
        ],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert not found["statuses"], found
    return found


def requests_for(name: str) -> dict[str, list[Any]]:
    """Return the same row by the two protocols."""
    row = np.random.default_rng(1).standard_normal(MODELS[name][0]).round(3)
    rows = json.dumps({"instances": [row.tolist()]})
    tensor = {"name": "x", "shape": [1, len(row)], "datatype": "FP32", "data": row.tolist()}
    headers = {"Content-Type": "application/json"}
    return {
        "v1": [[f"/v1/models/{name}:predict", headers, rows]],
        "v2": [[f"/v2/models/{name}/infer", headers, json.dumps({"inputs": [tensor]})]],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 64])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        export(folder)
        sides = {
            "alone": (servers.enter_context(flowengine(folder)), "v1"),
            "batched": (servers.enter_context(flowengine(folder, "--batch", "64")), "v1"),
        }
        if asked.peer:
            sides["MLServer"] = (servers.enter_context(mlserver(asked.peer, folder)), "v2")
        for model in MODELS:
            for clients in asked.clients:
                found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
                for _ in range(asked.turns):
                    for side, (port, protocol) in sides.items():
                        found[side].append(load(port, clients, asked.seconds, requests_for(model)[protocol]))
                for side, runs in found.items():
                    rate = median(each["requests"] / each["seconds"] for each in runs)
                    p50, p99 = (median(each[at] for each in runs) for at in ("p50", "p99"))
                    print(f"{model:6} {clients:3} {side:9} {rate:8.0f}/s  p50 {p50:7.2f}  p99 {p99:7.2f} ms")


if __name__ == "__main__":
    main()
