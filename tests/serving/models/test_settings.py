"""Configuration files of TensorFlow Serving: what each field becomes."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.saved_model.batching import BatchedSignature
from flowengine.saved_model.model import AwaitedModel
from flowengine.serving.models.settings import RowBatching, VersionPolicy, read_batching, read_models
from flowengine.serving.models.sources import load_version
from flowengine.serving.models.versions import ServedVersion
from tests.serving.exports import export_factor
from tests.serving.models.test_manager import watched


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", VersionPolicy()),
        ("latest {}", VersionPolicy()),
        ("latest { num_versions: 3 }", VersionPolicy(latest=3)),
        ("all {}", VersionPolicy(latest=None)),
        ("specific { versions: 2 versions: 4 }", VersionPolicy(latest=None, specific=(2, 4))),
    ],
)
def test_a_policy(text: str, policy: VersionPolicy, tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text(
        f"model_config_list {{ config {{ name: 'm' base_path: '{tmp_path}' "
        f"model_version_policy {{ {text} }} version_labels {{ key: 'stable' value: 2 }} }} }}"
    )
    (settings,) = read_models(file)
    assert (settings.policy, settings.labels) == (policy, {"stable": 2})


def test_a_batching_file(tmp_path: Path) -> None:
    file = tmp_path / "batching.config"
    file.write_text(
        "max_batch_size { value: 32 } batch_timeout_micros { value: 5000 } num_batch_threads { value: 2 } "
        "max_enqueued_batches { value: 3 } allowed_batch_sizes: 8 allowed_batch_sizes: 32 "
        "pad_variable_length_inputs: true"
    )
    assert read_batching(file) == RowBatching(
        max_rows=32,
        allowed_rows=(8, 32),
        wait_seconds=0.005,
        batches_at_once=2,
        max_waiting_rows=32 * (3 + 2),
        pad=True,
        split=False,
    )


async def test_a_version_batches_by_all_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batching = RowBatching(32, (8, 32), 0.005, 2, 160, pad=True, split=False)
    given: list[object] = []
    batched = fe.saved_model.ModelSignature.batched

    def note(signature: fe.saved_model.ModelSignature, **options: object) -> BatchedSignature:
        given.append(options)
        return batched(signature, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fe.saved_model.ModelSignature, "batched", note)
    model: AwaitedModel = await fe.saved_model.load(export_factor(tmp_path / "m", 2.0))
    version = ServedVersion(1, tmp_path)
    version.open(model, batching)
    await version.close()
    assert given == [{each.name: getattr(batching, each.name) for each in fields(batching)}]


async def test_a_model_whose_signatures_cannot_be_planned_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[AwaitedModel] = []
    close = AwaitedModel.close

    async def fail(signature: fe.saved_model.ModelSignature) -> None:
        raise fe.errors.InternalError("no plan")

    async def note(model: AwaitedModel) -> None:
        closed.append(model)
        await close(model)

    monkeypatch.setattr(fe.saved_model.ModelSignature, "prepare", fail)
    monkeypatch.setattr(AwaitedModel, "close", note)
    with pytest.raises(fe.errors.InternalError, match="no plan"):
        await load_version(export_factor(tmp_path / "m", 2.0))
    assert len(closed) == 1


async def test_all_initializers_of_tables_run(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    first, second = (graph.variable(0.0, name=name) for name in ("first", "second"))
    fe.add(x * first, second, name="y")
    for variable, value in ((first, 5.0), (second, 7.0)):
        graph.add_to_collection("table_initializer", variable.assign(value).op)
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    saver = fe.train.Saver()
    async with fe.Session(graph) as session:
        for variable in (first, second):
            await session.run(variable.initializer)
        await saver.save(session, folder / "model.ckpt", write_meta_graph=True)
    signatures = {"serving_default": {"inputs": {"x": "x:0"}, "outputs": {"y": "y"}}}
    (folder / "signatures.json").write_text(json.dumps(signatures))
    async with watched(tmp_path) as made:
        await made.until("m", 1, "AVAILABLE")
        assert await made.ask("m", x=2.0) == 17.0
