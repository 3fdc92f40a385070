"""Files beneath roots: nothing else is reached, whatever lies in the way, by either way of opening."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, PermissionDeniedError, ResourceExhaustedError
from flowengine.core.files import safe_open
from flowengine.core.files.access import SYSTEM, FileAccess, FileRoots, Files

pytestmark = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="needs opening relative to folders")


@pytest.fixture(params=["by one call", "by parts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening; the first only where the system has it."""
    if request.param == "by parts":
        monkeypatch.setattr(safe_open, "_has_openat2", lambda: False)
    elif not safe_open._has_openat2():
        pytest.skip("this system has no openat2")
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """data/ may be read, out/ written; secret lies beside them, and links lead there."""
    (tmp_path / "data" / "inner").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "database").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "database" / "file").write_bytes(b"secret")
    (tmp_path / "data" / "file").write_bytes(b"data")
    (tmp_path / "data" / "inner" / "file").write_bytes(b"inner")
    (tmp_path / "data" / "out_of_it").symlink_to(tmp_path / "secret")
    (tmp_path / "data" / "up").symlink_to("..")
    (tmp_path / "data" / "proc").symlink_to("/proc/self/root")
    (tmp_path / "out" / "link").symlink_to(tmp_path / "database")
    return tmp_path


def roots(tree: Path, **more: int) -> FileRoots:
    return FileRoots(FileAccess(read=[tree / "data"], write=[str(tree / "out")], **more))


def test_what_lies_beneath_a_root_is_reached(tree: Path, way: str) -> None:
    files, base = roots(tree), str(tree)
    for name, content in (("file", b"data"), ("inner/../file", b"data"), ("/inner/./file", b"inner")):
        with files.open(f"{base}/data/{name}") as file:
            assert file.read() == content
    assert sorted(files.names(f"{base}/data")) == ["file", "inner", "out_of_it", "proc", "up"]
    assert files.is_folder(f"{base}/data")
    assert files.is_file(f"{base}/data/file")
    assert not files.exists(f"{base}/data/nothing/file")
    assert files.matching(f"{base}/data/*/f*") == [f"{base}/data/inner/file"]
    files.write_whole(f"{base}/out/new/folder/file", b"written")
    files.rename(f"{base}/out/new/folder/file", f"{base}/out/file")
    with files.open(f"{base}/out/file") as file:
        assert file.read() == b"written"
    files.remove(f"{base}/out/file")
    files.remove_folder(f"{base}/out/new/folder")
    assert os.listdir(tree / "out" / "new") == []
    with files.append(f"{base}/out/log") as log:
        log.write(b"one")
    files.sync_folder(f"{base}/out")
    assert (tree / "out" / "log").read_bytes() == b"one"


def test_nothing_else_is(tree: Path, way: str) -> None:
    files, base = roots(tree), str(tree)
    os.mkfifo(tree / "data" / "pipe")
    for name in (
        "secret",
        "data/../secret",
        "database/file",
        "data/out_of_it",
        "data/up/secret",
        "data/proc/etc/passwd",
        "data/pipe",
    ):
        with pytest.raises(PermissionDeniedError):
            files.open(f"{base}/{name}")
    with pytest.raises(PermissionDeniedError, match="neither a regular file nor a folder"):
        files.open(f"{base}/data/pipe")
    for name in ("data/file", "data/new", "out/link/file", "out/../secret", "out/link/new"):
        with pytest.raises(PermissionDeniedError):
            files.write_whole(f"{base}/{name}", b"x")
    for change in (files.remove, files.make_folders, files.remove_folder):
        with pytest.raises(PermissionDeniedError):
            change(f"{base}/out/link/file")
    with pytest.raises(PermissionDeniedError):
        files.rename(f"{base}/data/file", f"{base}/out/file")
    assert (tree / "secret").read_bytes() == (tree / "database" / "file").read_bytes() == b"secret"
    assert os.listdir(tree / "database") == ["file"]


def test_a_root_stays_what_it_was(tree: Path, way: str) -> None:
    files, base = roots(tree), str(tree)
    assert files.exists(f"{base}/data/file")
    (tree / "data").rename(tree / "elsewhere")
    (tree / "data").symlink_to(tree)
    with files.open(f"{base}/data/file") as file:
        assert file.read() == b"data"
    with pytest.raises(FileNotFoundError):
        files.open(f"{base}/data/secret")


def test_only_so_much_is_written(tree: Path) -> None:
    files, base = roots(tree, write_bytes=10), str(tree)
    files.write_whole(f"{base}/out/a", b"123456")
    with pytest.raises(ResourceExhaustedError, match="5 bytes are to be written, and 4 are left"):
        files.write_whole(f"{base}/out/a", b"12345")
    assert (tree / "out" / "a").read_bytes() == b"123456"
    assert sorted(os.listdir(tree / "out")) == ["a", "link"]
    files.write_whole(f"{base}/out/b", b"1234")


@pytest.mark.parametrize(
    "given",
    [{"read": "/data"}, {"write": [3]}, {"write_bytes": -1}, {"write_bytes": True}, {"write_bytes": 1.5}],
)
def test_what_names_no_folders_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"FileAccess\."):
        FileAccess(**given)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="or a FileAccess"):
        fe.Config(file_access="nonsense").resolved()


def test_a_device_is_written_as_it_is(tmp_path: Path) -> None:
    before = os.stat(os.devnull)
    SYSTEM.write_whole(os.devnull, b"nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_ino == before.st_ino
    with pytest.raises(PermissionDeniedError, match="file_access='read'"):
        Files("read").create(str(tmp_path / "x"))


async def test_a_graph_saves_restores_and_logs_beneath_its_roots(tree: Path) -> None:
    access = FileAccess(read=[tree / "data"], write=[tree / "out"])
    g = fe.Graph()
    x = g.constant(np.arange(4.0))
    names, slices = g.constant(["x"], "string"), g.constant([""], "string")
    async with fe.Session(g, config=fe.Config(file_access=access)) as session:
        for folder in ("out/deep", "data", "out/link", "database"):
            prefix = str(tree / folder / "model")
            save = g.ops.SaveV2(prefix, names, slices, [x])
            if folder != "out/deep":
                with pytest.raises(PermissionDeniedError):
                    await session.run([], targets=[save])
                continue
            (tree / folder).mkdir()
            await session.run([], targets=[save])
            restored = g.ops.RestoreV2(prefix, names, slices, dtypes=["float64"])[0]
            np.testing.assert_array_equal(await session.run(restored), np.arange(4.0))
        writer = g.ops.SummaryWriter()
        create = g.ops.CreateSummaryFileWriter(writer, str(tree / "out" / "logs"), 1, 1, "")
        await session.run([], targets=[create])
        (events,) = os.listdir(tree / "out" / "logs")
        assert events.startswith("events.out.tfevents")
        dataset = g.ops.TextLineDataset(str(tree / "data" / "out_of_it"), b"", np.int64(0))
        line = g.ops.DatasetToSingleElement(dataset, output_types=["string"], output_shapes=[[]])[0]
        with pytest.raises(PermissionDeniedError, match="leads out of the folder"):
            await session.run(line)
    assert os.listdir(tree / "database") == ["file"]


async def test_a_folder_that_is_exchanged_for_a_link_leads_nowhere(tree: Path, way: str) -> None:
    """Ten thousand times, while a graph reads: each read has the file's content, or an error."""
    inner, aside, link = tree / "data" / "inner", tree / "data" / "aside", tree / "data" / "other"
    is_over = threading.Event()
    exchanges = 0

    def exchange() -> None:
        nonlocal exchanges
        link.symlink_to(tree / "database")
        while exchanges < 10_000:
            os.rename(inner, aside)
            os.rename(link, inner)
            os.rename(inner, link)
            os.rename(aside, inner)
            exchanges += 1
        is_over.set()

    g = fe.Graph()
    content = g.ops.ReadFile(str(inner / "file"))
    seen: set[object] = set()
    config = fe.Config(file_access=FileAccess(read=[tree / "data"]))
    thread = threading.Thread(target=exchange)
    async with fe.Session(g, config=config) as session:
        thread.start()
        while not is_over.is_set():
            try:
                seen.add(await session.run(content))
            except (PermissionDeniedError, fe.errors.NotFoundError) as error:
                seen.add(type(error))
        thread.join()
        seen.add(await session.run(content))
    assert exchanges == 10_000
    assert b"inner" in seen
    assert seen <= {b"inner", PermissionDeniedError, fe.errors.NotFoundError}
    assert len(seen) > 1


def test_a_file_may_be_named_itself(tree: Path) -> None:
    named, other = tree / "data" / "file", tree / "data" / "inner" / "file"
    files = FileRoots(FileAccess(read=[named]))
    with files.open(str(named)) as file:
        assert file.read() == b"data"
    assert files.is_file(str(named))
    assert files.has_name(str(named))
    with pytest.raises(PermissionDeniedError):
        files.open(str(other))
    with pytest.raises(PermissionDeniedError):
        files.append(str(named))
    # A link that has taken its place leads nowhere.
    named.unlink()
    named.symlink_to(tree / "secret")
    with pytest.raises(OSError, match="links"):
        files.open(str(named))
