"""Every public function and class of the rooms that have TensorFlow's values beside them has a record."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Any

import pytest

import flowengine as fe
from tests.client import optimizer_cases, replayed, test_initializers_of_tensorflow, test_rnn, test_schedules

ROOMS = (
    "ctc",
    "embedding",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "optimizers",
    "regularizers",
    "rnn",
    "sampled",
    "schedules",
)
#: Without a record, and what shows that they are right.
WITHOUT = {
    "initializers.get": "finds an initializer by its name: test_named",
    "initializers.fans": "numbers of a shape, which glorot's and he's draws depend on",
    "layers.multi_head_attention": "TensorFlow 1.15 has none: test_layers and the transformer of test_models",
    "losses.collected": "lists a collection",
    "losses.total": "adds up collections",
    "losses.weighted": "what every loss ends with",
    "optimizers.LossScaling": "goes around another: test_optimizers, against the same steps without it",
    "optimizers.Optimizer": "what all have in common",
    "optimizers.get": "finds an optimizer by its name: test_named",
    "optimizers.lbfgs": "a driver outside of graphs: test_lbfgs, and exchanged objectives and gradients",
    "rnn.AttentionMechanism": "what both have in common",
    "rnn.Decoder": "what both have in common",
    "rnn.Helper": "what all have in common",
    "rnn.RNNCell": "what all have in common",
    "schedules.noisy_linear_cosine_decay": "draws anew: test_schedules looks at mean and variance",
}
#: {of fe.rnn: the beginning of the names of cases that run it}
RNN = {
    "AttentionWrapper": "attention/",
    "BahdanauAttention": "attention/bahdanau",
    "BasicDecoder": "greedy",
    "BeamSearchDecoder": "beam/",
    "DeviceWrapper": "cell/device",
    "DropoutWrapper": "cell/dropout",
    "GreedyEmbeddingHelper": "greedy",
    "LuongAttention": "attention/luong",
    "MultiRNNCell": "cell/multi",
    "ResidualWrapper": "cell/residual",
    "SampleEmbeddingHelper": "sample",
    "TrainingHelper": "attention/",
    "bidirectional_dynamic_rnn": "both_ways",
    "dynamic_decode": "greedy",
    "dynamic_rnn": "whole",
    "raw_rnn": "raw",
    "tile_batch": "beam/",
} | {kind.__name__: f"cell/{name}" for name, kind in test_rnn.CELLS.items()}


def recorded() -> set[str]:
    """`room.name` of all that a case calls whose values are on file."""
    found = set()
    for family in (
        "ctc",
        "embedding",
        "layers",
        "losses",
        "metrics",
        "regularizers",
        "sampled",
        "samplers",
        "confusion",
    ):
        filed = {key.partition("|")[0] for key in replayed.expected(family)}
        found |= {case["ours"] for name, case in replayed.by_name(family).items() if name in filed}
    # Cases of CTC name their function alone.
    found |= {f"ctc.{name}" for name in found if "." not in name}
    cases = {key.partition("|")[0] for key in replayed.expected("rnn")}
    found |= {f"rnn.{name}" for name, start in RNN.items() if any(case.startswith(start) for case in cases)}
    found |= {f"optimizers.{kind}" for kind, *_ in optimizer_cases.CASES.values()}
    found |= {f"initializers.{name.split()[0]}" for name in test_initializers_of_tensorflow.RECORDED}
    found |= {f"schedules.{name.split()[0]}" for name in test_schedules.RECORDED}
    return found


def is_compared(value: Any) -> bool:
    """Whether a public name computes: no alias, constant, option, enumeration or tuple of results."""
    if typing.is_typeddict(value) or not callable(value) or typing.get_origin(value) is not None:
        return False
    if not isinstance(value, type):
        return True
    return not (issubclass(value, enum.Enum | tuple) or dataclasses.is_dataclass(value))


@pytest.mark.parametrize("room", ROOMS)
def test_each_has_values_of_tensorflow_or_a_reason(room: str) -> None:
    module = getattr(fe, room)
    public = {f"{room}.{name}" for name in module.__all__ if is_compared(getattr(module, name))}
    reasons = {name for name in WITHOUT if name.startswith(f"{room}.")}
    assert public - recorded() == reasons, "a record is missing, or a reason is of what has one or is gone"
