"""Files read, written and found, as far as the configuration allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import NotFoundError, PermissionDeniedError
from flowengine.core.files.access import files_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.files import matching_files, read_file, write_file
from flowengine.resources.container import ResourceManager, StepContainer


def _ctx(file_access: str = "all") -> KernelContext:
    return KernelContext(
        resources=ResourceManager(), step_container=StepContainer(), files=files_of(file_access)
    )


def _name(path: Path) -> bytes:
    return str(path).encode()


async def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    await write_file(_name(path), b"bytes\0\n", ctx=_ctx())
    assert await read_file(_name(path), ctx=_ctx("read")) == b"bytes\0\n"
    with pytest.raises(NotFoundError, match="nowhere"):
        await read_file(_name(tmp_path / "nowhere"), ctx=_ctx())


async def test_found(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden.txt", "c.dat"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.txt").write_bytes(b"")

    async def find(*patterns: str) -> list[str]:
        array: Any = np.empty(len(patterns), dtype=object)
        array[:] = [_name(tmp_path / pattern) for pattern in patterns]
        found = await matching_files(array, ctx=_ctx())
        return [str(Path(path.decode()).relative_to(tmp_path)) for path in found.tolist()]

    assert await find("*.txt") == [".hidden.txt", "a.txt", "b.txt"]
    assert await find("[ab].txt", "?.dat", "a.*") == ["a.txt", "b.txt", "c.dat"]
    assert await find("*/*.txt") == ["sub/d.txt"]
    assert await find("nothing*") == []


@pytest.mark.parametrize("access", ["none", "read"])
async def test_not_allowed(tmp_path: Path, access: str) -> None:
    with pytest.raises(PermissionDeniedError, match="file_access"):
        await write_file(_name(tmp_path / "f"), b"", ctx=_ctx(access))
    assert not (tmp_path / "f").exists()
    if access == "none":
        with pytest.raises(PermissionDeniedError, match="file_access"):
            await read_file(_name(tmp_path / "f"), ctx=_ctx(access))
        with pytest.raises(PermissionDeniedError, match="file_access"):
            await matching_files(_name(tmp_path / "*"), ctx=_ctx(access))
