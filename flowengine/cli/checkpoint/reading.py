"""The CHECKPOINT argument: a prefix, one of its files, or a folder, opened for reading."""

from __future__ import annotations

import difflib
import fnmatch
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import UNREADABLE_GRAPH, USAGE, CommandError
from flowengine.core.errors import OpError

if TYPE_CHECKING:
    from flowengine.checkpoint import BundleReader, V1Reader

#: A part of a checkpoint of format V1; those of format V2 have `.data` before the number.
_PART: Final = re.compile(r"(.+)-\d{5}-of-(\d{5})")


@dataclass(frozen=True, slots=True)
class CheckpointTensorFacts:
    """A tensor of a checkpoint. `bytes`: in memory, None for strings; `slices`: how many it is stored in."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int | None
    slices: int


def locate(path: str) -> str:
    """The prefix that the argument means; of a folder the latest, or that of a SavedModel.

    Raises CommandError (cannot be read) where there is none.
    """
    from flowengine.checkpoint.files import checkpoint_prefix
    from flowengine.checkpoint.state import exists, latest_checkpoint

    with readable(path):
        if os.path.isdir(path):
            exported = os.path.join(path, "variables", "variables")
            found = latest_checkpoint(path) or (exported if exists(exported) else None)
            if found is None:
                raise CommandError(
                    f"{path} is a directory without a file 'checkpoint' that names one", UNREADABLE_GRAPH
                )
            return found
        prefix = checkpoint_prefix(path)
    if not exists(prefix):
        hint = _near(prefix)
        raise CommandError(f"cannot read {path}: there is no checkpoint of this name{hint}", UNREADABLE_GRAPH)
    return prefix


def _near(prefix: str) -> str:
    folder, base = os.path.split(prefix)
    names = sorted({os.path.basename(each) for each in complete(folder)})
    near = difflib.get_close_matches(base, names, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(os.path.join(folder, each) for each in near)}?" if near else ""


def complete(folder: str) -> list[str]:
    """The prefixes of the checkpoints in a folder, sorted; of one of format V1 in parts, a pattern.

    A file of format V1 is known by the MetaGraphDef beside it, parts of one by their names.
    """
    try:
        names = set(os.listdir(folder or "."))
    except OSError:
        return []
    found = {name.removesuffix(".index") for name in names if name.endswith(".index")}
    found |= {name.removesuffix(".meta") for name in names if name.endswith(".meta")} & names
    parts = filter(None, map(_PART.fullmatch, names))
    found |= {f"{part[1]}-?????-of-{part[2]}" for part in parts if not part[1].endswith(".data")}
    return sorted(os.path.join(folder, name) for name in found)


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn an OpError or OSError raised inside into a CommandError (cannot be read)."""
    try:
        yield
    except OpError as error:
        text = f"{type(error).__name__}: {error.message}"
        raise CommandError(f"cannot read {path}: {text}", UNREADABLE_GRAPH) from error
    except BrokenPipeError:  # of standard output, while what was read is printed
        raise
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", UNREADABLE_GRAPH) from error


@contextmanager
def opened(prefix: str) -> Iterator[BundleReader | V1Reader]:
    """A checkpoint, open; what is wrong with it becomes a CommandError (cannot be read)."""
    from flowengine.checkpoint import open_checkpoint

    with readable(prefix), open_checkpoint(prefix) as reader:
        yield reader


def facts_of(reader: BundleReader | V1Reader, name: bytes) -> CheckpointTensorFacts:
    """Return the type, shape, size and slices that the index holds for a tensor."""
    dtype, shape = reader.dtype(name), reader.shape(name)
    size = math.prod(shape) * dtype.size if dtype.size else None
    return CheckpointTensorFacts(text_of(name), dtype.name, list(shape), size, reader.slices(name))


def text_of(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def chosen(reader: BundleReader | V1Reader, patterns: Sequence[str]) -> list[bytes]:
    """The names that are given or match; all where no pattern is given.

    Raises CommandError (usage) for a name, or a pattern, of none.
    """
    names = reader.names()
    if not patterns:
        return names
    kept: set[bytes] = set()
    for pattern in patterns:
        found = [n for n in names if text_of(n) == pattern or fnmatch.fnmatchcase(text_of(n), pattern)]
        if not found:
            alike = difflib.get_close_matches(pattern, map(text_of, names), n=3, cutoff=0.6)
            hint = f"; did you mean {', '.join(alike)}?" if alike else ""
            raise CommandError(f"{pattern}: the checkpoint has no tensor of this name{hint}", USAGE)
        kept.update(found)
    return [name for name in names if name in kept]


def readable_bytes(count: int) -> str:
    """`1.5 MB`; decimal, as disks and networks are sold."""
    if count < 1000:
        return f"{count} bytes"
    units = ("kB", "MB", "GB", "TB")
    power = min(len(units), (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.3g} {units[power - 1]}"
