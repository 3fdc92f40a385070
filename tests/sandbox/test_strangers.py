"""Further attempts of a stranger's graph: odd files, races, text that looks like code, ids of others."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from packaging.requirements import Requirement

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.sandbox import confine, process
from flowengine.testing.control import while_loop
from tests.kernels.test_file_access import READING

pytestmark = [
    pytest.mark.everywhere,
    pytest.mark.skipif(bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"),
]

_NOBODY: Final = 65534
_SECRET: Final = b"a secret of the host"
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE: Final = -100  # AT_FDCWD


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 150_000_000, "seconds": 2.0, "spare": False}
    return fe.Config.sandbox(**(settings | given))


def _bytes(graph: fe.Graph) -> fe.GraphBytes:
    graph.constant(1.0, name="one")
    return fe.GraphBytes(graph.to_graph_def().SerializeToString())


async def _refused(session: fe.Session, name: str) -> OpError:
    """Return the error that a step ends with; the next step must be right, in the same process."""
    first = session.incarnation
    with pytest.raises(OpError) as raised:
        await session.run(name)
    assert await session.run("one:0") == 1
    assert session.incarnation == first
    assert str(raised.value).isprintable()
    error: OpError = raised.value
    return error


async def test_what_is_no_regular_file_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    os.mkfifo(root / "pipe")
    (root / "device").symlink_to("/dev/zero")
    (root / "terminal").symlink_to("/dev/tty")
    (root / "environment").symlink_to("/proc/self/environ")
    (root / "memory").symlink_to("/proc/self/mem")
    (root / "loop").symlink_to(root / "loop")
    (root / "up").symlink_to("..")
    (tmp_path / "secret").write_bytes(_SECRET)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        paths = [str(root / each) for each in ("pipe", "device", "terminal", "environment", "memory", "loop")]
        paths += [str(root / "socket"), f"{root}/up/secret", f"{root}/../secret", f"{root}\0/../secret"]
        graph, names = fe.Graph(), []
        for op in ("ReadFile", "WholeFileReaderV2", "TextLineReaderV2", "TFRecordDataset"):
            for number, path in enumerate(paths):
                with graph.name_scope(f"{op}_{number}"):
                    names.append(READING[op](graph, path).name)
        async with fe.Session(_bytes(graph), config=_config(read=root)) as session:
            assert await session.run("one:0") == 1
            for name in names:
                await _refused(session, name)


async def test_a_folder_that_is_exchanged_for_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (root / "folder" / "file").write_bytes(b"inside")
    (outside / "file").write_bytes(_SECRET)
    (root / "link").symlink_to(outside)
    graph = fe.Graph()
    graph.ops.ReadFile(f"{root}/folder/file", name="text")
    library, over = ctypes.CDLL(None), threading.Event()
    ends = [os.fsencode(root / each) for each in ("folder", "link")]

    def exchange() -> None:
        while not over.is_set():
            library.renameat2(_HERE, ends[0], _HERE, ends[1], _EXCHANGE)

    thread = threading.Thread(target=exchange)
    seen: set[Any] = set()
    async with fe.Session(_bytes(graph), config=_config(read=root)) as session:
        assert await session.run("text:0") == b"inside"
        thread.start()
        try:
            for _ in range(200):
                try:
                    seen.add(await session.run("text:0"))
                except OpError as error:
                    seen.add(type(error).__name__)
        finally:
            over.set()
            thread.join()
        assert await session.run("one:0") == 1
    assert _SECRET not in seen
    assert b"inside" in seen


async def test_text_that_looks_like_code_stays_text(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"__import__('pathlib').Path({str(mark)!r}).touch()"
    graph = fe.Graph()
    x = graph.constant([1.0, 2.0])
    texts = graph.constant(
        [code.encode(), b"$(touch mark)", b"%s%n{0.__class__}"], dtype="string", name="texts"
    )
    graph.ops.CheckNumerics(graph.constant(np.float32("nan")), message=code, name="message")
    graph.ops.RegexReplace(texts, "(.*)", f"\\g<0>{code}", name="rewritten")
    graph.ops.StringFormat([x], template=code + "{0.__class__}", placeholder="{", name="formatted")
    with graph.control_dependencies([graph.ops.Print(x, [x], message=code)]):
        graph.ops.Identity(x, name="printed")
    graph.ops.ParseTensor(texts[0], out_type="float32", name="parsed")
    graph.ops.DecodeRaw(
        graph.constant(b"\x80\x04cposix\nsystem\n.", dtype="string"), out_type="uint8", name="raw"
    )
    async with fe.Session(_bytes(graph), config=_config()) as session:
        np.testing.assert_array_equal(
            await session.run("texts:0"), [code.encode(), b"$(touch mark)", b"%s%n{0.__class__}"]
        )
        await _refused(session, "message:0")
        await _refused(session, "parsed:0")
        for name in ("rewritten:0", "formatted:0", "printed:0", "raw:0"):
            with suppress(OpError):
                await session.run(name)
        for name in (code, "one:0; import os", "../one:0", "one:99999999999999999999", "one:-1", "\x1b[2J:0"):
            await _refused(session, name)
    assert not mark.exists()


async def test_python_and_what_others_hold_cannot_be_named() -> None:
    graph = fe.Graph()
    x = graph.constant([1.0])
    for number, token in enumerate(("os.system", "pyfunc_0", "0", "__builtins__")):
        graph.ops.PyFunc([x], token=token, Tout=["float32"], name=f"python_{number}")
    for number, handle in enumerate(("GetSessionHandle;0;localhost", "0", "", "\0" * 9)):
        graph.ops.GetSessionTensor(handle, dtype="float32", name=f"held_{number}")
        graph.ops.DeleteSessionTensor(handle, name=f"dropped_{number}")
    graph.ops.ReadVariableOp(
        graph.ops.VarHandleOp(dtype="float32", shape=[1], shared_name="of another", name="var"),
        dtype="float32",
        name="variable",
    )
    names = [f"python_{each}:0" for each in range(4)] + [f"held_{each}:0" for each in range(4)]
    async with fe.Session(_bytes(graph), config=_config()) as session:
        assert await session.run("one:0") == 1
        for name in (*names, *(f"dropped_{each}" for each in range(4)), "variable:0"):
            await _refused(session, name)


async def test_what_doubles_ends_at_the_bound() -> None:
    graph = fe.Graph()
    numbers: Any = graph.ops.Fill([1], graph.ops.PlaceholderWithDefault(np.float32(1), shape=[], name="x"))
    for _ in range(40):
        numbers = graph.ops.ConcatV2([numbers, numbers], 0)
    graph.ops.Sum(numbers, 0, name="numbers")
    tiled: Any = graph.ops.Fill([8], graph.ops.PlaceholderWithDefault(np.float32(1), shape=[], name="y"))
    graph.ops.Sum(graph.ops.Tile(tiled, [2**31 - 1]), 0, name="tiled")
    graph.ops.Sum(
        graph.ops.Range(
            np.int64(0), graph.ops.PlaceholderWithDefault(np.int64(2**40), shape=[], name="n"), np.int64(1)
        ),
        0,
        name="ranged",
    )

    def more(i: Any, value: Any) -> list[Any]:
        return [graph.ops.Add(i, 1), graph.ops.ConcatV2([value, value], 0)]

    grown = while_loop(
        graph,
        lambda i, _: graph.ops.Less(i, 60),
        more,
        [graph.constant(0), graph.constant([1.0])],
    )
    async with fe.Session(_bytes(graph), config=_config()) as session:
        assert await session.run("one:0") == 1
        for name in ("numbers:0", "tiled:0", "ranged:0", str(grown[1].name)):
            assert type(await _refused(session, name)).__name__ in {
                "ResourceExhaustedError",
                "DeadlineExceededError",
                "InvalidArgumentError",
            }


_AS_ANOTHER: Final = """
import sys
sys.path[:0] = sys.argv[2:]
import trio
import flowengine as fe

async def main(root):
    graph = fe.Graph()
    for number, path in enumerate((f"{root}/link", "/etc/passwd", "/proc/self/environ", f"{root}/../secret")):
        graph.ops.ReadFile(path, name=f"read_{number}")
        graph.ops.WriteFile(path, "text", name=f"write_{number}")
    value = graph.ops.PlaceholderWithDefault(1.0, shape=[])
    graph.ops.Sum(graph.ops.Fill([2**31 - 1], value), 0, name="large")
    graph.ops.ReadFile(f"{root}/inside", name="inside")
    data = fe.GraphBytes(graph.to_graph_def().SerializeToString())
    config = fe.Config.sandbox(memory_bytes=50_000_000, seconds=5, read=root, spare=False)
    async with fe.Session(data, config=config) as session:
        for name in (*(f"read_{n}:0" for n in range(4)), *(f"write_{n}" for n in range(4)), "large:0"):
            try:
                await session.run(name)
                print("ran", name)
            except fe.errors.OpError:
                print("refused", name)
            assert await session.run("inside:0") == b"inside"

trio.run(main, sys.argv[1])
"""


def _python_of(as_another: dict[str, Any]) -> str | None:
    """A Python of this version that another user may run: this one may lie in root's home."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    for each in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        with suppress(OSError, subprocess.SubprocessError):
            ran = subprocess.run(
                [each, "-c", asked], capture_output=True, timeout=60, check=True, **as_another
            )
            if ran.stdout.decode().strip() == version:
                return each
    return None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that other users may enter: each start of pytest closes those of `tmp_path` anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def _places_for_others(folder: Path) -> list[str]:
    """Return folders to import the package and its dependencies from, as another user.

    They are copied into `folder` where a folder above them is closed to others, as root's home is. Its name
    must end in `-packages`: a sandbox opens no other folder of programs.
    """
    checkout = Path(fe.__file__).resolve().parents[1]
    places = [checkout, *(Path(each) for each in sys.path if each.endswith("-packages"))]
    if all(each.stat().st_mode & 0o001 for place in places for each in (place, *place.parents)):
        return [str(place) for place in places]
    for name in ("flowengine", "kernels", "transport"):
        unpacked = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / name, folder / name, symlinks=True, ignore=unpacked)
    for name in _needed("flowengine-dataflow"):
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                copy = folder / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), copy)
    for each in (folder, *folder.rglob("*")):
        each.chmod(each.stat().st_mode | (0o055 if each.is_dir() else 0o044))
    return [str(folder)]


def _needed(distribution: str) -> set[str]:
    """Return the names of what a distribution needs without its extras, directly and through others."""
    found: set[str] = set()
    left = [distribution]
    while left:
        for line in metadata.requires(left.pop()) or ():
            needed = Requirement(line)
            if needed.name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                found.add(needed.name)
                left.append(needed.name)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; this is one already")
def test_whole_sessions_of_an_ordinary_user(open_folder: Path) -> None:
    root = open_folder / "root"
    root.mkdir()
    (root / "inside").write_bytes(b"inside")
    (open_folder / "secret").write_bytes(_SECRET)
    (root / "link").symlink_to(open_folder / "secret")
    for each in (root, *open_folder.iterdir()):
        each.chmod(each.stat().st_mode | (0o055 if each.is_dir() else 0o044))
    as_another: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    python = _python_of(as_another)
    if python is None:
        pytest.skip("an ordinary user may run no Python of this version")
    places = _places_for_others(open_folder / "site-packages")
    ran = subprocess.run(
        [python, "-c", _AS_ANOTHER, str(root), *places],
        capture_output=True,
        timeout=120,
        **as_another,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    lines = ran.stdout.decode().splitlines()
    assert len(lines) == 9
    assert all(line.startswith("refused") for line in lines)


async def test_functions_that_never_come_back_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandboxed process ends such a step by itself, so that the next step finds the same process."""
    # On a busy machine it may come to its own deadline long after the host's clock has.
    monkeypatch.setattr(process, "_SPARE_SECONDS", 60.0)
    graph = fe.Graph()

    @fe.function(graph, ["int32"], outputs=["int32"], stateful=False)
    def forever(n: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = forever(n + 1)
        return result

    @fe.function(graph, ["int32"], outputs=["int32"], stateful=False)
    def doubling(n: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = doubling(n) + doubling(n + 1)
        return result

    @fe.function(graph, ["int32"])
    def always(n: fe.Tensor) -> fe.Tensor:
        return n > -1

    @fe.function(graph, ["int32"])
    def same(n: fe.Tensor) -> fe.Tensor:
        return n * 1

    n = graph.ops.PlaceholderWithDefault(1, shape=[], name="n")
    forever(n, name="recursive")
    doubling(n, name="wide")
    functions: dict[str, Any] = {"cond": always.attr, "body": same.attr}
    graph.ops.StatelessWhile([n], name="turning", **functions)
    graph.ops.For(0, 2**31 - 1, 1, [n], body=_second(graph).attr, name="counting")
    async with fe.Session(_bytes(graph), config=_config(seconds=1.0)) as session:
        assert await session.run("one:0") == 1
        for name in ("recursive:0", "wide:0", "turning:0", "counting:0"):
            error = await _refused(session, name)
            assert type(error).__name__ in {"ResourceExhaustedError", "DeadlineExceededError"}, name


def _second(graph: fe.Graph) -> Any:
    @fe.function(graph, ["int32", "int32"])
    def second(i: fe.Tensor, n: fe.Tensor) -> fe.Tensor:
        return n + i

    return second
