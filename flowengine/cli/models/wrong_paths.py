"""Messages for paths that are no graph, with a remedy: folders of checkpoints, other files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from flowengine.core.files.kinds import kind_of

#: The file that makes a directory a SavedModel, in binary and in text form.
SAVED_MODEL: Final = ("saved_model.pb", "saved_model.pbtxt")
#: What TensorFlow writes beside `saved_model.pb`.
_FINGERPRINT: Final = "fingerprint.pb"
#: Endings of a checkpoint's files.
_CHECKPOINT: Final = (".index", ".data-00000-of-")
#: Endings of tables in text form, which look like any other text.
_TABLES: Final = (".csv", ".tsv")
#: What GRAPH may be.
REMEDY: Final = "name a GraphDef (.pb, .pbtxt), a MetaGraphDef (.meta) or a SavedModel's folder"
#: A field of a graph in text form.
_GRAPH_TEXT: Final = re.compile(rb"\b(node|library|versions|graph_def|meta_info_def|meta_graphs)\s*[:{<]")
#: Bytes below this one, other than white space, are in no text; so many are looked at.
_PRINTABLE: Final = 0x20
_BEGINNING: Final = 4096
#: Files of a folder that are looked at.
_FILES: Final = 20


def describe_folder(path: str) -> str:
    """That a directory is no SavedModel, and what in it, or beside it, may have been meant."""
    return f"{path} is a directory without saved_model.pb{_meant(Path(path))}"


def _meant(folder: Path) -> str:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ""
    versions = [name for name in names if any((folder / name / each).is_file() for each in SAVED_MODEL)]
    if versions:
        newest = max(versions, key=lambda name: (name.isdigit(), int(name) if name.isdigit() else 0))
        return f": did you mean {folder / newest}?"
    if any((folder.parent / each).is_file() for each in SAVED_MODEL):
        return f": did you mean {folder.parent}?"
    graphs = _graphs(folder, names)
    if graphs:
        return f", but has {graphs[0].name}: name {graphs[0]}"
    if any(_is_checkpoint(name) for name in names):
        return ": it has checkpoints, and no graph to restore them into (flowengine checkpoint ls shows them)"
    return _others(folder, names)


def _others(folder: Path, names: Sequence[str]) -> str:
    """Name the first file of a known kind in a folder without a graph."""
    if not names:
        return f": it is empty: {REMEDY}"
    if _FINGERPRINT in names:
        return f": {_FINGERPRINT} in it is the fingerprint of a SavedModel that is not here: {REMEDY}"
    for name in names[:_FILES]:
        try:
            with open(folder / name, "rb") as file:
                kind = kind_of(file.read(_BEGINNING))
        except OSError:  # a folder, or a file that may not be read
            continue
        if kind is not None:
            return f": {name} in it is {kind}"
    return f": {REMEDY}"


def _graphs(folder: Path, names: Sequence[str]) -> list[Path]:
    """Files of graphs, the newest MetaGraphDef first."""
    metas = [folder / name for name in names if name.endswith(".meta")]
    metas.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    others = [name for name in names if name.endswith((".pb", ".pbtxt")) and name != _FINGERPRINT]
    return metas + [folder / name for name in others]


def _is_checkpoint(name: str) -> bool:
    return any(each in name for each in _CHECKPOINT)


def describe_file(path: str, data: bytes) -> str | None:
    """Describe a file that holds no graph, with a remedy; None for a file of unknown kind."""
    if not data:
        return f"{path} is empty: {REMEDY}"
    if _is_checkpoint(os.path.basename(path)):
        prefix = path.partition(".data-")[0].removesuffix(".index")
        return f"{path} is a part of a checkpoint: {_graph_of(prefix)}"
    if os.path.basename(path) == _FINGERPRINT:
        folder = Path(path).parent
        if any((folder / each).is_file() for each in SAVED_MODEL):
            told = "the fingerprint of a SavedModel, whose graph is beside it: name the folder"
            return f"{path} is {told} {folder}"
        return f"{path} is the fingerprint of a SavedModel that is not here: {REMEDY}"
    kind = kind_of(data)
    if kind is None and path.lower().endswith(_TABLES) and _is_text(data[:_BEGINNING]):
        kind = "a table, whose columns --feed FILE feeds to a graph: name the graph first"
    return None if kind is None else f"{path} is {kind}"


def not_a_graph(path: str, data: bytes, fault: str) -> str:
    """Describe a file that is no graph: its kind if that is known, else the fault that its reader found."""
    told = describe_file(path, data)
    if told is not None:
        return told
    is_text = _is_text(data[:_BEGINNING])
    if is_text and not _GRAPH_TEXT.search(data):
        return f"{path} is text, but no graph in text form: {REMEDY}"
    if is_text:
        return f"{path} is no graph that can be run: {fault}"
    return f"{path} is no graph that can be run: {fault}: compare its size with the original's; {REMEDY}"


def _is_text(beginning: bytes) -> bool:
    """Return whether a file begins as UTF-8 text does; its last character may be cut."""
    if any(each < _PRINTABLE and each not in b"\t\n\r\f" for each in beginning):
        return False
    try:
        beginning.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def describe_missing(path: str) -> str | None:
    """Return a remedy for a path without a file; None if there is none to suggest."""
    if os.path.exists(f"{path}.index"):
        return f"{path} is a checkpoint: {_graph_of(path)}"
    return None


def _graph_of(prefix: str) -> str:
    if os.path.exists(f"{prefix}.meta"):
        return f"its graph is {prefix}.meta"
    folder = Path(prefix).parent
    if folder.name == "variables" and any((folder.parent / each).is_file() for each in SAVED_MODEL):
        return f"its graph is {folder.parent}"
    return f"name the graph, with --restore {prefix}"


__all__ = ["REMEDY", "SAVED_MODEL", "describe_file", "describe_folder", "describe_missing", "not_a_graph"]
