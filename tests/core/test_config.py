"""Config: what it says of itself."""

from __future__ import annotations

import dataclasses
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
        (
            "file_access",
            "nonsense",
            "file_access is 'nonsense': it must be one of 'all', 'read', 'none', or a FileAccess",
        ),
        (
            "file_access",
            "al",
            "it must be one of 'all', 'read', 'none', or a FileAccess; did you mean 'all'?",
        ),
        ("kernel_provider", "onedn", "one of 'auto', 'numpy', 'onednn'; did you mean 'onednn'?"),
        ("kernel_provider", 3, "kernel_provider is 3: it must be one of 'auto', 'numpy', 'onednn'"),
        ("max_steps", 0, "max_steps is 0: it must be a positive whole number"),
        ("max_waiting_steps", -1, "max_waiting_steps is -1: it must be a whole number, 0 or more"),
        ("session_memory_bytes", 2.0, "session_memory_bytes is 2.0"),
        ("device_count", 4, "device_count is 4: give a dict, such as {'CPU': 4}"),
        ("device_count", {"CPU": "4"}, "device_count says '4' for 'CPU': it must be a whole number"),
        ("device_memory_limits", {"CPU:0": -1}, "device_memory_limits says -1 for 'CPU:0'"),
        ("place", ["layer1"], "place is ['layer1']: give a dict, such as {'layer1/*': 'CPU:1'}"),
        ("place", {"layer1/*": ""}, "place has 'layer1/*': '': both must say something"),
        ("compress_transfers", "scope", "compress_transfers is 'scope': give a list of scopes"),
        ("silence_seconds", 0, "silence_seconds is 0: it must be positive and finite"),
        ("checked", 1, "checked is 1: it must be True or False"),
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
        fe.Config(**{field: value})


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(fe.Config)])
def test_every_field_is_checked_when_a_config_is_made(field: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match=f"{field} "):
        fe.Config(**{field: object()})  # type: ignore[arg-type]


def test_the_environment_is_checked_when_a_session_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_FILE_ACCESS", "nonsense")
    config = fe.Config()
    with pytest.raises(fe.errors.InvalidArgumentError, match="FLOWENGINE_FILE_ACCESS is 'nonsense'"):
        fe.Session(fe.Graph(), config=config)
    monkeypatch.setenv("FLOWENGINE_FILE_ACCESS", "read")
    monkeypatch.setenv("FLOWENGINE_KERNEL_PROVIDER", "nonsense")
    with pytest.raises(fe.errors.InvalidArgumentError, match="FLOWENGINE_KERNEL_PROVIDER is 'nonsense'"):
        fe.Session(fe.Graph(), config=config)
