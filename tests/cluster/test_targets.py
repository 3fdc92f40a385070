"""Targets of sessions, as text."""

from __future__ import annotations

import pytest

from flowengine.cluster.remote import Target
from flowengine.core.errors import InvalidArgumentError


def test_all_that_a_target_says() -> None:
    target = Target.parse("flow+tls://h:1/?cluster=c&key_file=k&client=me&tls=t&certificate=mine")
    assert target == Target("tls://h:1", "c", "k", "me", "t", "mine")
    assert Target.parse("flow://h:1") == Target("tcp://h:1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow://", "'flow://' has no address: write flow://host:port"),
        ("flow://?cluster=c", "has no address"),
        ("flow", "has no address"),
        ("flow://h:1?clusters=c", "clusters is not understood; there are certificate, client, cluster"),
        ("flow://h:1?tls=t", r"is a target without TLS: write flow\+tls://h:1\?tls=t"),
    ],
)
def test_what_is_no_target_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Target.parse(text)
