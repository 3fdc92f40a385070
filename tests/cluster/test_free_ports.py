"""Ports for the tasks of a local cluster: free, different, and not those of outgoing connections."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flowengine.cluster.local import free_ports


def test_no_port_of_outgoing_connections(tmp_path: Path) -> None:
    told = tmp_path / "range"
    told.write_text("20000\t60999\n")
    ports = free_ports(20, told)
    assert len(set(ports)) == 20
    assert all(10_000 <= port < 20_000 for port in ports)
    for port in ports:
        with socket.socket() as each:
            each.bind(("127.0.0.1", port))


def test_ports_in_use_are_passed_over(tmp_path: Path) -> None:
    told = tmp_path / "range"
    told.write_text("10003 60999")
    free = free_ports(3, told)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free[0]))
        found = free_ports(3, told)
    assert len(set(found)) == 3
    assert free[0] not in found
    # Where none is left of those, the system chooses.
    assert len({*found} - {10_000, 10_001, 10_002}) >= 1


@pytest.mark.parametrize("text", [None, "", "nothing", "10000 60999"])
def test_where_the_system_does_not_say(tmp_path: Path, text: str | None) -> None:
    told = tmp_path / "range"
    if text is not None:
        told.write_text(text)
    assert len(set(free_ports(5, told))) == 5
