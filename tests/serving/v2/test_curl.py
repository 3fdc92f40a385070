"""The examples with `curl` in KServe's and Triton's documentation, against a server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import flowengine as fe
from tests.serving.processes import Server, serving

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")
CURL: Final = shutil.which("curl")
pytestmark = pytest.mark.skipif(CURL is None, reason="there is no curl")
#: The rows of KServe's example, and of what each of them is.
IRIS: Final = {
    "inputs": [
        {
            "name": "input-0",
            "shape": [2, 4],
            "datatype": "FP32",
            "data": [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]],
        }
    ]
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    graph = fe.Graph()
    rows = graph.placeholder("float32", [None, 4], name="rows")
    # Petals of more than 1.0 in width are those of the second kind.
    kind = fe.cast(fe.greater(graph.ops.GatherV2(rows, 3, 1), 1.0), "int32")
    with fe.blocking.Session(graph) as session:
        signatures: Any = {"serving_default": ({"input-0": rows}, {"predict": kind})}
        session.call(fe.saved_model.save, folder / "sklearn-v2-iris" / "1", signatures=signatures)
    with serving(folder) as started:
        started.until("'sklearn-v2-iris', version 1: AVAILABLE")
        yield started


def curl(server: Server, arguments: str, folder: Path) -> str:
    """The output of a command, with the address of the server in the place of the documentation's."""
    assert CURL is not None
    words = [each.replace("SERVER", f"http://127.0.0.1:{server.port}") for each in arguments.split()]
    done = subprocess.run([CURL, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "-v -H Content-Type:application/json -d @./iris-input.json SERVER/v2/models/sklearn-v2-iris/infer",
        "-X POST SERVER/v2/models/sklearn-v2-iris/versions/1/infer --data-binary @iris-input.json",
        "-s -H Host:sklearn.example.com -d @./iris-input.json SERVER/v2/models/sklearn-v2-iris/infer",
        "--compressed -d @./iris-input.json SERVER/v2/models/sklearn-v2-iris/infer",
        "-H Transfer-Encoding:chunked -d @./iris-input.json SERVER/v2/models/sklearn-v2-iris/infer",
    ],
)
def test_an_inference(server: Server, arguments: str, tmp_path: Path) -> None:
    (tmp_path / "iris-input.json").write_text(json.dumps(IRIS))
    answer = json.loads(curl(server, arguments, tmp_path))
    assert answer["model_name"] == "sklearn-v2-iris"
    assert answer["outputs"] == [{"name": "predict", "datatype": "INT32", "shape": [2], "data": [1, 1]}]


def test_health(server: Server, tmp_path: Path) -> None:
    for path in ("live", "ready"):
        arguments = f"-m 5 -L -s -o out -w %{{http_code}} SERVER/v2/health/{path}"
        assert curl(server, arguments, tmp_path) == "200"
    ready = json.loads(curl(server, "-v SERVER/v2/models/sklearn-v2-iris/ready", tmp_path))
    assert ready == {"name": "sklearn-v2-iris", "ready": True}


def test_metadata_and_the_index(server: Server, tmp_path: Path) -> None:
    assert json.loads(curl(server, "-s SERVER/v2", tmp_path))["name"] == "flowengine"
    model = json.loads(curl(server, "-s SERVER/v2/models/sklearn-v2-iris", tmp_path))
    assert model["inputs"] == [{"name": "input-0", "datatype": "FP32", "shape": [-1, 4]}]
    index = json.loads(curl(server, "-s -X POST SERVER/v2/repository/index", tmp_path))
    assert index == [{"name": "sklearn-v2-iris", "version": "1", "state": "READY", "reason": ""}]


def test_binary_data(server: Server, tmp_path: Path) -> None:
    (tmp_path / "row.bin").write_bytes(bytes(16))
    arguments = (
        "-s -o out -w %{content_type} -H Content-Type:application/octet-stream "
        "-H Inference-Header-Content-Length:0 --data-binary @row.bin SERVER/v2/models/sklearn-v2-iris/infer"
    )
    assert curl(server, arguments, tmp_path) == "application/octet-stream"
    assert (tmp_path / "out").read_bytes().endswith(bytes(4))
