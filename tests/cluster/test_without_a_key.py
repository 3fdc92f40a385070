"""A task or a console without a key: it says what is missing before it speaks to anybody."""

from __future__ import annotations

import logging

import pytest

import flowengine as fe
from flowengine.cluster.console import open_console
from flowengine.cluster.credentials import KEY_FILE_VARIABLE, KEY_VARIABLE


async def test_it_says_what_is_missing_and_does_not_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (KEY_FILE_VARIABLE, KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    server = fe.Server(fe.ClusterSpec({"worker": {0: "127.0.0.1:0"}}, name="keyless"), "worker", 0)
    with caplog.at_level(logging.INFO, "flowengine"), pytest.raises(fe.errors.InvalidArgumentError) as caught:
        async with server:
            pass
    text = str(caught.value)
    assert "\n" not in text
    for part in ("/job:worker/task:0 has no key", "key_file", KEY_FILE_VARIABLE, KEY_VARIABLE):
        assert part in text
    assert "serves at" not in caplog.text


async def test_a_console_says_what_is_missing_before_its_block_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (KEY_FILE_VARIABLE, KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    spec = fe.ClusterSpec({"worker": {0: "127.0.0.1:1"}}, name="keyless")
    begun = False
    with pytest.raises(fe.errors.UnauthenticatedError, match=f"'keyless' is not known.*{KEY_FILE_VARIABLE}"):
        async with open_console(spec):
            begun = True
    assert not begun
