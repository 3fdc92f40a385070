"""A process that has locked itself in and tries everything: by system calls, without any library between."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import flowengine
from flowengine.sandbox import confine

_PROGRAM: Final = Path(__file__).with_name("confined.py")
_HERE: Final = str(Path(flowengine.__file__).resolve().parents[1])

_NOBODY: Final = 65534
#: What succeeds, because it harms nobody.
_ALLOWED: Final = {"reading inside", "writing inside"}
#: With executable memory, which oneDNN needs.
_EXECUTABLE: Final = {"executable memory", "memory made executable"}
#: How a refusal looks.
_REFUSALS: Final = {"EPERM", "EACCES", "ENOSYS"}

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)
needs_numbers = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the numbers of system calls are those of x86_64"
)


def _tried(folder: Path, *, exec_memory: bool, user: int = 0) -> dict[str, str]:
    read, write = folder / "read", folder / "write"
    read.mkdir()
    write.mkdir()
    (read / "inside").write_text("inside")
    (folder / "outside").write_text("outside")
    (read / "link").symlink_to(folder / "outside")
    if user:
        for each in (folder, read, write, read / "inside", folder / "outside"):
            os.chown(each, user, user)
    command = [sys.executable, "-I", str(_PROGRAM), _HERE, str(read), str(write), str(int(exec_memory))]
    command.append(str(user))
    ran = subprocess.run(command, capture_output=True, timeout=60, env={}, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr.decode()
    found: Any = json.loads(ran.stdout)
    return dict(found)


def _judge(found: dict[str, str], allowed: set[str]) -> None:
    wrong = {name: outcome for name, outcome in found.items() if (outcome in _REFUSALS) == (name in allowed)}
    assert wrong == {}


@needs_box
@needs_numbers
def test_what_a_locked_process_tries_is_refused(tmp_path: Path) -> None:
    found = _tried(tmp_path, exec_memory=True)
    assert len(found) >= 100
    _judge(found, _ALLOWED | _EXECUTABLE)
    assert (tmp_path / "read" / "inside").read_text() == "inside"
    assert not Path("/tmp/flowengine-escaped").exists()


@needs_box
@needs_numbers
def test_without_executable_memory_none_can_be_made(tmp_path: Path) -> None:
    _judge(_tried(tmp_path, exec_memory=False), _ALLOWED)


@needs_box
@needs_numbers
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; this is one already")
def test_an_ordinary_user_is_locked_in_alike(tmp_path: Path) -> None:
    for each in (tmp_path, *tmp_path.parents[:3]):
        each.chmod(each.stat().st_mode | 0o055)
    _judge(_tried(tmp_path, exec_memory=True, user=_NOBODY), _ALLOWED | _EXECUTABLE)


@needs_box
def test_nothing_is_missing_or_it_is_said_what() -> None:
    assert confine.missing() == {}
    assert confine.landlock_version() >= 1


def test_other_systems_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert set(confine.missing()) == set(confine.LEVELS)
    assert "Darwin" in confine.missing()[confine.LANDLOCK]
