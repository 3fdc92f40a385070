"""TensorFlow reads what is written here, bit for bit, in both formats."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.checkpoint import BundleWriter, V1Writer
from flowengine.core import dtypes

TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
SCRIPT = Path(__file__).with_name("read_with_tensorflow.py")


def _said(*arguments: str) -> Any:
    """Return the JSON that TensorFlow's Python prints for the script with these arguments."""
    assert TENSORFLOW is not None
    command = [TENSORFLOW, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def known_types() -> frozenset[int]:
    """The numbers of the types that this TensorFlow knows: 1.15 has none of less than a byte."""
    return frozenset(_said("--types"))


@pytest.mark.slow
@pytest.mark.skipif(TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow")
@pytest.mark.parametrize("kind", [BundleWriter, V1Writer])
def test_tensorflow_reads_what_we_write(
    kind: type[BundleWriter] | type[V1Writer], tmp_path: Path, known_types: frozenset[int]
) -> None:
    random = np.random.default_rng(5)
    words = np.empty((2, 2), dtype=object)
    words[:] = [[b"", b"a\x00"], [random.bytes(300), b"z"]]
    values = {"words": (dtypes.string, words), "empty": (dtypes.float32, np.zeros((3, 0), np.float32))}
    skipped = {"resource", "variant", "string", "bfloat16"}
    for dtype in dtypes.ALL:
        if dtype.number not in known_types:
            continue
        if dtype.name in skipped or dtype.is_quantized or (kind is V1Writer and dtype.name[:5] == "uint3"):
            continue
        if kind is V1Writer and dtype.name in ("uint64",):
            continue
        if kind is V1Writer and dtype in dtypes.STORAGE:
            continue
        is_short = dtype.is_bool or dtype in dtypes.STORAGE  # an element need not fill its byte
        raw = random.integers(0, 2 if is_short else 100, 6 * dtype.size, dtype=np.uint8)
        values[f"of/{dtype.name}"] = (dtype, raw.view(dtype.as_numpy_dtype).reshape(2, 3))
    whole = np.arange(20, dtype=np.float64).reshape(5, 4)
    prefix = str(tmp_path / "model")
    with kind(prefix) as writer:
        for name, (dtype, array) in values.items():
            writer.add(name.encode(), array, dtype)
        writer.add_slice(b"parts", (5, 4), ((0, 2), None), whole[:2], dtypes.float64)
        writer.add_slice(b"parts", (5, 4), ((2, 3), (0, 4)), whole[2:], dtypes.float64)
    found = _said(prefix)
    assert found.keys() == {*values, "parts"}
    assert found["parts"] == ["float64", [5, 4], whole.tobytes().hex()]
    for name, (dtype, array) in values.items():
        stored = [e.hex() for e in array.reshape(-1)] if dtype is dtypes.string else array.tobytes().hex()
        assert found[name] == [dtype.name, list(array.shape), stored]
