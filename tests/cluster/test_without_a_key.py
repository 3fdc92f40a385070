"""A task without a key: it says what is missing, in one line, before it listens to anybody."""

from __future__ import annotations

import logging

import pytest

import flowengine as fe
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
