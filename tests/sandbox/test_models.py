"""SavedModels in a box: read, restored and called there; this process knows their signatures alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError
from flowengine.sandbox import confine
from flowengine.sandbox.signatures import believed, encoded
from flowengine.saved_model.reading import read_saved_model
from flowengine.transport.calls.service import Reply
from flowengine.transport.errors import RemoteProtocolError

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


def _config() -> fe.Config:
    return fe.Config.sandbox(memory_bytes=200_000_000, seconds=60, spare=False)


async def _saved(folder: Path) -> Path:
    g = fe.Graph()
    v = g.variable([2.0, 3.0], name="v")
    x = g.placeholder("float32", [None], name="x")
    y = g.ops.Mul(x, v, name="y")
    async with fe.Session(g) as session:
        await session.initialize()
        path = folder / "model"
        await fe.saved_model.save(session, path, signatures={"serving_default": ({"x": x}, {"y": y})})
    return path


@needs_box
async def test_a_model_is_called_by_its_signature(tmp_path: Path) -> None:
    path = await _saved(tmp_path)
    async with await fe.saved_model.load(path, config=_config()) as model:
        facts = model.signature.facts
        assert facts == read_saved_model(path).signatures["serving_default"]
        np.testing.assert_array_equal((await model(x=[1, 10]))["y"], [2, 30])
        with pytest.raises(InvalidArgumentError, match="no input 'z'"):
            await model(z=1)
        # The process is gone, and the next one reads the files again.
        model.session.elsewhere._process.kill()
        with pytest.raises(OpError):
            await model(x=[1, 10])
        np.testing.assert_array_equal((await model(x=[1, 10]))["y"], [2, 30])


@needs_box
def test_a_blocking_model(tmp_path: Path) -> None:
    import trio

    path = trio.run(_saved, tmp_path)
    with fe.blocking.load_saved_model(path, config=_config()) as model:
        np.testing.assert_array_equal(model(x=[1, 10])["y"], [2, 30])


async def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"saved_model\.pb"):
        await fe.saved_model.load(tmp_path, config=_config())


@pytest.mark.parametrize("case", ["savedmodel_keras_lstm", "tp_half_plus_two", "tp_serving_counter"])
def test_signatures_are_told_and_believed_as_they_are(case: str, shared: Path) -> None:
    folder = next((shared / "zoo" / "open" / case).rglob("saved_model.pb")).parent
    signatures = read_saved_model(folder).signatures
    assert signatures
    assert believed(encoded(signatures)) == signatures


@pytest.mark.parametrize(
    "table",
    [
        None,
        [],
        {"a": 1},
        {"a": {"inputs": {}, "outputs": {}}},
        {"a": {"inputs": {"x": {}}, "outputs": {}, "method": ""}},
        {7: {"inputs": {}, "outputs": {}, "method": ""}},
        {"a" * 5000: {"inputs": {}, "outputs": {}, "method": ""}},
    ],
)
def test_signatures_that_make_no_sense(table: object) -> None:
    with pytest.raises(RemoteProtocolError):
        believed(Reply(table))
