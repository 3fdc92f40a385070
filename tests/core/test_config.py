"""Config: what it says of itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio

import flowengine as fe


def test_a_config_shows_what_differs_from_the_defaults() -> None:
    assert repr(fe.Config()) == "Config()"
    config = fe.Config(file_access="none", fold_constants=False, device_count={"CPU": 2})
    assert repr(config) == "Config(file_access='none', fold_constants=False, device_count={'CPU': 2})"


@pytest.mark.parametrize("timeout", [-1, 0, 0.0, float("nan"), "1", True, [1]])
def test_a_timeout_is_a_positive_number(timeout: Any) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="must be a positive number of seconds"):
        fe.RunOptions(timeout_seconds=timeout)


def test_options_are_run_options() -> None:
    graph = fe.Graph()
    graph.constant(1.0, name="x")
    options: Any = "x"

    async def main() -> None:
        async with fe.Session(graph) as session:
            for _ in range(2):
                with pytest.raises(
                    fe.errors.InvalidArgumentError, match="options is a str: give `RunOptions"
                ):
                    await session.run("x:0", options=options)
            assert await session.run("x:0") == 1
            with pytest.raises(fe.errors.InvalidArgumentError, match="options is a str: give `RunOptions"):
                await session.run("x:0", options=options)

    trio.run(main)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("file_access", "nonsense", "file_access is 'nonsense': it must be one of all, read, none"),
        ("memory_limit_bytes", "1", "memory_limit_bytes is '1'"),
        ("memory_limit_bytes", 1.5, "memory_limit_bytes is 1.5"),
        ("memory_limit_bytes", -1, "memory_limit_bytes is -1"),
        ("silence_seconds", "soon", "silence_seconds is 'soon'"),
        ("silence_seconds", float("nan"), "silence_seconds is nan"),
        ("worker_threads", "no", "worker_threads is 'no': it must be True or False"),
        ("kernel_provider", "nonsense", "kernel_provider is 'nonsense'"),
        ("tensor_float_32", 1, "tensor_float_32 is 1: it must be True or False"),
        ("deterministic", "yes", "deterministic is 'yes': it must be True or False"),
    ],
)
def test_a_setting_that_cannot_be_names_field_and_value(field: str, value: Any, message: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=re.escape(message)):
        fe.Session(fe.Graph(), config=fe.Config(**{field: value}))
