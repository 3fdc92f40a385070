"""Triton's own client, unchanged, against a server: every type, both forms of data, and the repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flowengine as fe
from tests.serving.exports import export_factor
from tests.serving.processes import Server, serving
from tests.serving.v2.exports import TYPES, export_identity, export_sum

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")
triton: Any = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    for datatype in TYPES:
        export_identity(folder / f"identity {datatype}" / "1", datatype)
    export_sum(folder / "simple" / "1")
    export_factor(folder / "factor" / "3", 3.0)
    with serving(folder) as started:
        for name in (*(f"identity {datatype}" for datatype in TYPES), "simple", "factor"):
            started.until(f"'{name}', version {3 if name == 'factor' else 1}: AVAILABLE")
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as made:
        yield made


def values_of(datatype: str) -> Any:
    """Two rows of three values, the limits of the type among them."""
    if datatype == "BYTES":
        return np.array([[b"a", b"", "ä€".encode()], [b'\n"', b"a\tb", b"x" * 1000]], object)
    if datatype == "BOOL":
        return np.array([[True, False, True], [False, False, True]])
    dtype: Any = ml_dtypes.bfloat16 if datatype == "BF16" else np.dtype(TYPES[datatype])
    if datatype in ("BF16", "FP16", "FP32", "FP64"):
        finfo: Any = ml_dtypes.finfo
        limits = finfo(dtype)
        values = [0.1, -0.0, float(limits.max), float(limits.min), float(limits.tiny), 1 / 3]
    else:
        whole = np.iinfo(dtype)
        values = [0, 1, whole.max, whole.min, whole.max - 1, 7]
    return np.array(values, dtype).reshape(2, 3)


def equal(found: Any, expected: Any) -> None:
    """Compare bit for bit; strings as bytes, since JSON carries text."""
    assert found.shape == expected.shape
    if expected.dtype == object:
        texts = [each.encode() if isinstance(each, str) else each for each in found.reshape(-1)]
        assert texts == expected.reshape(-1).tolist()
    else:
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("as_binary", [True, False])
@pytest.mark.parametrize("datatype", TYPES)
def test_each_type(client: Any, datatype: str, as_binary: bool, compression: str | None) -> None:
    values = values_of(datatype)
    given = triton.InferInput("x", list(values.shape), datatype)
    if datatype in ("FP16", "BF16") and not as_binary:
        given.set_data_from_numpy(values)  # JSON has no such values
    else:
        given.set_data_from_numpy(values, binary_data=as_binary)
    is_half = datatype in ("FP16", "BF16")
    outputs = [
        triton.InferRequestedOutput("z", binary_data=True),
        triton.InferRequestedOutput("y", binary_data=as_binary or is_half),
    ]
    result = client.infer(
        f"identity {datatype}",
        [given],
        outputs=outputs,
        request_id="7",
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    equal(result.as_numpy("y"), values)
    equal(result.as_numpy("z"), values.T.copy())
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == (
        "7",
        f"identity {datatype}",
        "1",
    )


@pytest.mark.parametrize("datatype", TYPES)
def test_all_outputs_by_default(client: Any, datatype: str) -> None:
    values = values_of(datatype)
    given = triton.InferInput("x", list(values.shape), datatype).set_data_from_numpy(values)
    result = client.infer(f"identity {datatype}", [given])
    equal(result.as_numpy("y"), values)
    equal(result.as_numpy("z"), values.T.copy())


def test_no_rows(client: Any) -> None:
    values = np.zeros((0, 3), np.float32)
    for as_binary in (True, False):
        given = triton.InferInput("x", [0, 3], "FP32").set_data_from_numpy(values, binary_data=as_binary)
        outputs = [triton.InferRequestedOutput("y", binary_data=as_binary)]
        assert client.infer("identity FP32", [given], outputs=outputs).as_numpy("y").shape == (0, 3)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_a_large_tensor(client: Any, compression: str | None) -> None:
    values = np.random.default_rng(0).standard_normal((1000, 500)).astype(np.float32)
    given = triton.InferInput("x", [1000, 500], "FP32").set_data_from_numpy(values)
    result = client.infer(
        "identity FP32",
        [given],
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    equal(result.as_numpy("y"), values)


def test_the_example_with_two_inputs(client: Any) -> None:
    arrays = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)
    inputs = [triton.InferInput(f"INPUT{n}", [1, 16], "INT32") for n in range(2)]
    inputs[0].set_data_from_numpy(arrays[0], binary_data=False)
    inputs[1].set_data_from_numpy(arrays[1], binary_data=True)
    outputs = [
        triton.InferRequestedOutput("OUTPUT0", binary_data=True),
        triton.InferRequestedOutput("OUTPUT1", binary_data=False),
    ]
    result = client.infer("simple", inputs, outputs=outputs, query_params={"test_1": 1})
    equal(result.as_numpy("OUTPUT0"), arrays[0] + arrays[1])
    equal(result.as_numpy("OUTPUT1"), arrays[0] - arrays[1])
    pending = [client.async_infer("simple", inputs, outputs=outputs) for _ in range(3)]
    for each in pending:
        equal(each.get_result().as_numpy("OUTPUT0"), arrays[0] + arrays[1])
    result = client.infer(
        "simple", inputs, outputs=outputs, timeout=10_000_000, priority=1, parameters={"a": 1}
    )
    equal(result.as_numpy("OUTPUT0"), arrays[0] + arrays[1])


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("factor")
    assert client.is_model_ready("factor", "3")
    assert not client.is_model_ready("factor", "4")
    assert not client.is_model_ready("other")
    server = client.get_server_metadata()
    assert (server["name"], server["version"]) == ("flowengine", fe.__version__)
    model = client.get_model_metadata("factor", "3")
    assert (model["name"], model["versions"]) == ("factor", ["3"])
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1]}]
    index = {each["name"]: each["state"] for each in client.get_model_repository_index()}
    assert index["simple"] == "READY"


def test_what_is_refused(client: Any) -> None:
    given = triton.InferInput("x", [1], "FP32").set_data_from_numpy(np.ones(1, np.float32))
    other = triton.InferInput("x", [1], "INT32").set_data_from_numpy(np.ones(1, np.int32))
    for model, version, tensor, status, text in (
        ("other", "", given, "404", "unknown model"),
        ("factor", "4", given, "404", "version 4 is not found"),
        ("factor", "", other, "400", "data-type is 'INT32', but model 'factor' expects 'FP32'"),
    ):
        with pytest.raises(triton.InferenceServerException) as caught:
            client.infer(model, [tensor], model_version=version)
        assert (caught.value.status(), text in caught.value.message()) == (status, True)
    with pytest.raises(triton.InferenceServerException, match="--model-control=explicit"):
        client.load_model("factor")


def test_models_are_loaded_and_unloaded(tmp_path: Path) -> None:
    export_factor(tmp_path / "factor" / "3", 3.0)
    with serving(tmp_path, "--model-control=explicit") as started:
        started.until("models at")
        with triton.InferenceServerClient(f"127.0.0.1:{started.port}") as client:
            while not _is_live(client):
                pass
            assert client.get_model_repository_index() == [
                {"name": "factor", "state": "UNAVAILABLE", "reason": ""}
            ]
            for _ in range(2):
                client.load_model("factor")
                assert client.is_model_ready("factor")
                given = triton.InferInput("x", [1], "FP32").set_data_from_numpy(np.ones(1, np.float32))
                assert client.infer("factor", [given]).as_numpy("y").tolist() == [3.0]
                client.unload_model("factor", unload_dependents=True)
                assert not client.is_model_ready("factor")
            with pytest.raises(triton.InferenceServerException, match="unknown model"):
                client.load_model("other")
            with pytest.raises(triton.InferenceServerException, match="'config' is not supported"):
                client.load_model("factor", config="{}")


def _is_live(client: Any) -> bool:
    try:
        return bool(client.is_server_live())
    except OSError:
        return False
