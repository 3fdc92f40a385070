"""A process's own control group: folders in the place of the kernel's, and sessions that have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import ResourceExhaustedError, UnavailableError
from flowengine.sandbox import confine, control_groups

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


class _Kernel:
    """Groups as folders: one that is made gets the files that the kernel would put there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.above = root / "service"
        self.own = self.above / "main"
        self.own.mkdir(parents=True)
        for each in (root, self.above, self.own):
            (each / "cgroup.subtree_control").write_text("")

    def delegate(self, group: Path, controllers: str = "cpu memory pids\n") -> None:
        (group / "cgroup.subtree_control").write_text(controllers)

    @property
    def made(self) -> list[Path]:
        return sorted(self.root.rglob("flowengine-sandbox-*"))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Kernel:
    made = _Kernel(tmp_path / "cgroup")
    own = tmp_path / "own"
    own.write_text("5:cpu:/elsewhere\n0::/service/main\n")
    monkeypatch.setattr(control_groups, "_OWN", own)
    monkeypatch.setattr(control_groups, "_ROOTS", (made.root,))
    plain = Path.mkdir

    def mkdir(path: Path, *args: Any, **given: Any) -> None:
        plain(path, *args, **given)
        if path.name.startswith("flowengine-sandbox-"):
            for name in ("cgroup.procs", "memory.max", "memory.swap.max", "pids.max"):
                (path / name).touch()
            (path / "memory.current").write_text("5000\n")
            (path / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return made


def test_there_is_none_where_nothing_is_delegated(kernel: _Kernel) -> None:
    assert control_groups.MemoryGroup.of(7) is None
    kernel.delegate(kernel.above, "cpu io")
    assert control_groups.MemoryGroup.of(7) is None
    kernel.delegate(kernel.root)
    assert control_groups.MemoryGroup.of(7) is None, "who is two floors down was given nothing"
    assert kernel.made == []


@pytest.mark.parametrize("place", ["own", "above"])
def test_a_process_is_put_into_a_group_with_a_bound(kernel: _Kernel, place: str) -> None:
    kernel.delegate(getattr(kernel, place))
    group = control_groups.MemoryGroup.of(7)
    assert group is not None
    (path,) = kernel.made
    assert path.parent == getattr(kernel, place)
    assert (path / "cgroup.procs").read_text() == "7"
    group.bound(1000)
    assert (path / "memory.max").read_text() == "6000"
    assert (path / "memory.swap.max").read_text() == "0"
    assert not group.was_full
    (path / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert group.was_full


def test_what_the_kernel_lacks_is_left_out(kernel: _Kernel) -> None:
    kernel.delegate(kernel.above)
    group = control_groups.MemoryGroup.of(7)
    assert group is not None
    (path,) = kernel.made
    for each in path.iterdir():
        each.unlink()
    group.bound(1000)
    assert not group.was_full
    assert list(path.iterdir()) == []
    group.remove()
    group.remove()
    assert kernel.made == []


def test_a_process_that_cannot_be_moved_has_no_group(
    kernel: _Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: control_groups.MemoryGroup, name: str, value: int) -> None:
        raise PermissionError

    monkeypatch.setattr(control_groups.MemoryGroup, "_write", refused)
    kernel.delegate(kernel.above)
    assert control_groups.MemoryGroup.of(7) is None


@needs_box
@pytest.mark.parametrize("is_full", [True, False])
async def test_a_process_that_the_kernel_ended_for_its_memory(kernel: _Kernel, is_full: bool) -> None:
    kernel.delegate(kernel.above)
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, x, name="y")
    data = fe.GraphBytes(g.to_graph_def().SerializeToString())
    config = fe.Config.sandbox(memory_bytes=50_000_000, seconds=20, spare=False)
    async with fe.Session(data, config=config) as session:
        np.testing.assert_array_equal(await session.run("y:0", {"x:0": [1, 2]}), [2, 4])
        (path,) = kernel.made
        process = session.elsewhere._process
        assert (path / "cgroup.procs").read_text() == str(process.pid)
        assert int((path / "memory.max").read_text()) > 50_000_000
        if is_full:
            (path / "memory.events").write_text("oom_kill 1\n")
        process.kill()
        with pytest.raises(ResourceExhaustedError if is_full else UnavailableError):
            await session.run("y:0", {"x:0": [1, 2]})
