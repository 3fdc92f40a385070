"""How long idle OpenMP threads look for work is said while the library loads, unless the host has said it."""

from __future__ import annotations

import os

import pytest

from flowengine.kernels.onednn.library import brief_idle_threads


def test_the_setting_is_there_while_a_library_loads_and_then_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    with brief_idle_threads():
        assert int(os.environ["GOMP_SPINCOUNT"]) > 0
    assert "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")])
def test_a_hosts_own_setting_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for other in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with brief_idle_threads():
        assert dict(os.environ) == before
    assert dict(os.environ) == before
