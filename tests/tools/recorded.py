"""Recorded cases: a graph, the runs that were made on it, and what each returned or raised.

A case is a zip, or a folder, that holds `case.json`, the serialized GraphDef and one `.npy` member a
value; in a folder the values may also lie together in `values.npz`. Many cases may be packed into one
`.tar`. `case.json` says:

    {"id": ..., "graph": "graph.pb", "runs": [
        {"feeds": {"x:0": VALUE}, "fetches": ["y:0"], "targets": ["train"],
         "expect": [{"value": VALUE, "compare": "close", "rtol": 1e-5, "atol": 1e-6}]},
        {"feeds": {}, "fetches": ["z:0"], "targets": [], "error": {"class": "OutOfRangeError"}}]}

where a VALUE is `{"npy": member}`, with `"dtype"` for a type that NumPy lacks, or
`{"bytes_b64": [...], "shape": [...]}` for strings. `compare` is `exact`, `close`, or `shape` (shape and
type only: random or encoder-dependent values). All runs of a case share one session.

Nothing here runs a graph: `tests.tools.replay` does.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from flowengine.core.arrays import Array, to_array

#: Between a container and the name of a case inside it: `array.tar::x/y.zip`.
MEMBER_MARK: Final = "::"


@dataclass(frozen=True, slots=True)
class ExpectedFetch:
    """The value that one fetch returned when it was recorded.

    compare     "exact", "close" (with `rtol`, `atol`) or "shape"
    magnitude   compare absolute values, for results that are defined up to their sign
    tag         the type of a value that is stored as another's: "qint8", ... ("" for most)
    """

    value: Array
    compare: str = "close"
    rtol: float = 1e-6
    atol: float = 0.0
    magnitude: bool = False
    tag: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One `Session.run`: what went in, and what came out (`expect`) or was raised (`error_class`).

    start, end      in a case of concurrent runs: it may start once all that ended before have ended
    background      start it and go on with the next run; it ends whenever it can
    """

    feeds: Mapping[str, Array]
    fetches: Sequence[str]
    targets: Sequence[str]
    expect: Sequence[ExpectedFetch]
    error_class: str | None = None
    timeout_seconds: float | None = None
    start: int = 0
    end: int = 0
    background: bool = False
    files: Sequence[tuple[str, str]] = ()
    deleted: Sequence[str] = ()


class RecordedCase:
    """A case opened for reading; `io_root` is the folder that stands in for the recorder's."""

    def __init__(self, members: Mapping[str, bytes], io_root: str = "") -> None:
        self._members = members
        self.meta: dict[str, Any] = json.loads(members["case.json"])
        self.io_root = io_root
        if io_root and len(io_root) != len(self.recorded_root):
            raise ValueError(
                f"the folder {io_root!r} must be as long as the recorded {self.recorded_root!r}: "
                "file names are replaced inside of length-prefixed bytes"
            )

    @property
    def id(self) -> str:
        return str(self.meta["id"])

    @property
    def suite(self) -> str:
        return str(self.meta.get("suite", "zoo"))

    @property
    def ops(self) -> frozenset[str]:
        """The op types in the graph, function bodies included, where the recorder noted them."""
        return frozenset(self.meta.get("ops", ()))

    @property
    def is_concurrent(self) -> bool:
        return bool(self.meta.get("concurrent"))

    @property
    def recorded_root(self) -> str:
        """The folder that file names in the graph and in values begin with; empty for most cases."""
        return str(self.meta.get("io_root", ""))

    @property
    def closes(self) -> Sequence[int]:
        """When the session was closed, in the numbers of `RecordedRun.start` and `end`."""
        return tuple(self.meta.get("closes", ()))

    @property
    def graph(self) -> bytes:
        """The serialized GraphDef."""
        return self._substitute(self._members[self.meta.get("graph", "graph.pb")])

    @cached_property
    def runs(self) -> Sequence[RecordedRun]:
        """The runs in order. Feeds are fresh arrays; nobody else holds them."""
        return tuple(self._run(r) for r in self.meta["runs"])

    def _run(self, record: Mapping[str, Any]) -> RecordedRun:
        timeout_ms = record.get("timeout_ms")
        return RecordedRun(
            feeds={name: self._value(v)[0] for name, v in record["feeds"].items()},
            fetches=tuple(record["fetches"]),
            targets=tuple(record.get("targets", ())),
            expect=tuple(self._expected(e) for e in record.get("expect", ())),
            error_class=record["error"]["class"] if "error" in record else None,
            timeout_seconds=None if timeout_ms is None else timeout_ms / 1e3,
            start=int(record.get("start", 0)),
            end=int(record.get("end", 0)),
            background=bool(record.get("background")),
            files=tuple((f["path"], f["member"]) for f in record.get("files", ())),
            deleted=tuple(record.get("deleted", ())),
        )

    def _expected(self, entry: Mapping[str, Any]) -> ExpectedFetch:
        value, tag = self._value(entry["value"])
        return ExpectedFetch(
            value,
            entry["compare"],
            float(entry.get("rtol", 0.0)),
            float(entry.get("atol", 0.0)),
            entry.get("mode") == "abs",
            tag,
        )

    def _value(self, stored: Mapping[str, Any]) -> tuple[Array, str]:
        if "bytes_b64" in stored:
            strings = np.empty(len(stored["bytes_b64"]), dtype=object)
            for i, text in enumerate(stored["bytes_b64"]):
                strings[i] = self._substitute(base64.b64decode(text))
            return strings.reshape(stored["shape"]), ""
        array: Array = np.load(io.BytesIO(self._members[stored["npy"]]), allow_pickle=False)
        tag = stored.get("dtype", "")
        if tag == "bfloat16":
            return array.view(ml_dtypes.bfloat16), ""
        return array, tag

    def _substitute(self, data: bytes) -> bytes:
        if not self.io_root:
            return data
        return data.replace(self.recorded_root.encode(), self.io_root.encode())

    def prepare_files(self) -> None:
        """Make the folders and files that the case needs before its first run, below `io_root`."""
        for folder in self.meta.get("mkdirs", ()):
            os.makedirs(os.path.join(self.io_root, folder), exist_ok=True)
        self._place((f["path"], f["member"]) for f in self.meta.get("files", ()))

    def prepare_run(self, run: RecordedRun) -> None:
        """Remove and write the files that the recorded program touched just before this run."""
        for path in run.deleted:
            Path(self.io_root, path).unlink(missing_ok=True)
        self._place(run.files)

    def _place(self, files: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> None:
        for path, member in files:
            target = Path(self.io_root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self._substitute(self._members[member]))


class _FolderMembers(dict[str, bytes]):
    """The members of a case that lies in a folder, read when asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> bytes:
        path = self._folder / name
        if not path.exists() and (self._folder / "values.npz").exists():
            with zipfile.ZipFile(self._folder / "values.npz") as values:
                self[name] = values.read(name)
        else:
            self[name] = path.read_bytes()
        return self[name]


def find_cases(*paths: str | Path) -> Iterator[str]:
    """The addresses of all cases at or below the paths, in a fixed order; `open_case` reads one."""
    for path in map(Path, paths):
        if path.is_dir() and (path / "case.json").exists():
            yield str(path)
        elif path.is_dir():
            for entry in sorted(path.iterdir()):
                if entry.is_dir() or entry.suffix in (".zip", ".tar"):
                    yield from find_cases(entry)
        elif path.suffix == ".tar":
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.name.endswith(".zip"):
                        yield f"{path}{MEMBER_MARK}{member.name}"
        else:
            yield str(path)


def size_of(folder: str) -> int:
    """Return the bytes of a case that is a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def open_case(address: str, io_root: str = "") -> RecordedCase:
    """Read a case that `find_cases` found. See `RecordedCase` for `io_root`."""
    address = os.path.abspath(address)  # a case may change the working directory while it is read
    if os.path.isdir(address):
        return RecordedCase(_FolderMembers(Path(address)), io_root)
    container, _, member = address.partition(MEMBER_MARK)
    blob = _read_from_tar(container, member) if member else Path(container).read_bytes()
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        return RecordedCase({name: archive.read(name) for name in archive.namelist()}, io_root)


@cache
def _tar_index(path: str) -> Mapping[str, tuple[int, int]]:
    """Return each member's (offset, size): a tar's table is read once, to keep random access cheap."""
    with tarfile.open(path) as archive:
        return {m.name: (m.offset_data, m.size) for m in archive}


def _read_from_tar(path: str, member: str) -> bytes:
    offset, size = _tar_index(path)[member]
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def difference(expected: ExpectedFetch, got: Any) -> str | None:
    """None where a fetched value is what was recorded, else what is wrong with it."""
    want, have = expected.value, to_array(got)
    if have.dtype.names:  # a quantised type as TensorFlow spells it: a record of one integer
        have = have[have.dtype.names[0]]
    if have.shape != want.shape:
        return f"shape {have.shape}, expected {want.shape}"
    if want.dtype.kind == "O":
        return _string_difference(want, have, values=expected.compare != "shape")
    if not expected.tag and have.dtype != want.dtype:
        return f"dtype {have.dtype}, expected {want.dtype}"
    if expected.compare == "shape":
        return None
    with np.errstate(all="ignore"):
        if expected.compare == "exact":
            same = have == want
            if want.dtype.kind in "fcV":
                same |= (have != have) & (want != want)
        else:
            same = _is_close(have, want, expected)
    if bool(np.all(same)):
        return None
    wrong = np.flatnonzero(~np.ravel(same))
    first = int(wrong[0])
    bound = "" if expected.compare == "exact" else f" (rtol {expected.rtol:g}, atol {expected.atol:g})"
    return (
        f"{wrong.size} of {want.size} elements differ; first [{first}]: "
        f"{have.ravel()[first]!r}, expected {want.ravel()[first]!r}{bound}"
    )


def _string_difference(want: Array, have: Array, *, values: bool) -> str | None:
    if have.dtype.kind not in "OSU":
        return f"dtype {have.dtype}, expected strings"
    if not values:
        return None
    for i, (a, b) in enumerate(zip(want.ravel(), have.ravel(), strict=True)):
        if a != (b.encode() if isinstance(b, str) else b):
            return f"string {i}: {b!r:.100}, expected {a!r:.100}"
    return None


def _is_close(have: Array, want: Array, expected: ExpectedFetch) -> Any:
    if expected.magnitude:
        have, want = np.abs(have), np.abs(want)
    close: Any = partial(np.isclose, rtol=expected.rtol, atol=expected.atol, equal_nan=True)
    if want.dtype.kind == "c":
        h, w = have.astype(np.complex128), want.astype(np.complex128)
        # Infinite and NaN parts make the distance NaN: those are compared part by part.
        return (close(h.real, w.real) & close(h.imag, w.imag)) | close(h, w)
    return close(have.astype(np.float64), want.astype(np.float64))


__all__ = [
    "ExpectedFetch",
    "RecordedCase",
    "RecordedRun",
    "difference",
    "find_cases",
    "open_case",
    "size_of",
]
