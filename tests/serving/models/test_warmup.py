"""Each warm-up request runs the signature that it names, with its own inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import flowengine as fe
from flowengine.ir.proto.example_pb2 import Example
from flowengine.ir.tensorproto import encode_tensor
from flowengine.resources.event_files import framed
from flowengine.serving.models.warmup import warm_up
from flowengine.serving.proto import PredictionLog


def _example(**values: int) -> Any:
    example = Example()
    for name, value in values.items():
        example.features.feature[name].int64_list.value.append(value)
    return example


def _values(serialized: bytes) -> dict[str, list[int]]:
    features = Example.FromString(serialized).features.feature
    return {name: list(each.int64_list.value) for name, each in features.items()}


async def test_signatures_and_inputs(tmp_path: Path) -> None:
    predict, classify, regress = PredictionLog(), PredictionLog(), PredictionLog()
    predict.predict_log.request.model_spec.signature_name = "other"
    two = encode_tensor(np.float32(2.0), fe.dtypes.float32).SerializeToString()
    predict.predict_log.request.inputs["x"].ParseFromString(two)
    classify.classify_log.request.model_spec.signature_name = "classes"
    given = classify.classify_log.request.input.example_list_with_context
    given.context.ParseFromString(_example(a=1, b=2).SerializeToString())
    given.examples.add().ParseFromString(_example(b=3).SerializeToString())
    regress.regress_log.request.input.example_list.examples.add().ParseFromString(
        _example(c=4).SerializeToString()
    )
    (tmp_path / "assets.extra").mkdir()
    with (tmp_path / "assets.extra" / "tf_serving_warmup_requests").open("wb") as file:
        for log in (predict, classify, regress):
            file.write(framed(log.SerializeToString()))
    calls: list[tuple[str, Mapping[str, Any]]] = []

    async def call(signature: str, inputs: Mapping[str, Any]) -> None:
        calls.append((signature, inputs))

    names = ("serving_default", "other", "classes")
    version: Any = SimpleNamespace(folder=tmp_path, signatures=dict.fromkeys(names), call=call)
    assert await warm_up(version) == 3
    assert [signature for signature, _ in calls] == ["other", "classes", "serving_default"]
    assert calls[0][1]["x"].tolist() == 2.0
    assert [_values(each) for each in calls[1][1]["inputs"]] == [{"a": [1], "b": [3]}]
    assert [_values(each) for each in calls[2][1]["inputs"]] == [{"c": [4]}]
