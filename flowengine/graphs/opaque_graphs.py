"""Graphs that this process does not read: bytes and folders, which the process that runs them reads."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.files.paths import path_text, similar_files
from flowengine.ir.graph import NodeGraph


class GraphBytes(NodeGraph):
    """A graph as its bytes, for a session in a sandbox: this process does not parse them.

    data   a GraphDef, MetaGraphDef or SavedModel with one graph, binary or text

    To this process it has no nodes: fetch and feed by names. Raises InvalidArgumentError for data that is not
    bytes.

    >>> fe.Graph().save("untrusted.pb")
    >>> fe.GraphBytes.read("untrusted.pb")
    <GraphBytes, 5 bytes>
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"GraphBytes are bytes, not a {type(data).__name__}; a file is read by GraphBytes.read(path)"
            )
        super().__init__(())
        self.data = bytes(data)

    @classmethod
    def read(cls, path: str | Path) -> GraphBytes:
        """Return the bytes of the file at `path`.

        Raises NotFoundError if there is no such file, InvalidArgumentError for a folder.
        """
        given = path_text(path, "GraphBytes.read")
        try:
            return cls(Path(given).read_bytes())
        except FileNotFoundError:
            raise NotFoundError(f"there is no file {given!r}{similar_files(given)}") from None
        except OSError as error:
            raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from None

    def __repr__(self) -> str:
        return f"<GraphBytes, {len(self.data)} bytes>"

    def __reduce__(self) -> Any:
        return GraphBytes, (self.data,)


class ModelFolder(NodeGraph):
    """A SavedModel's directory, for a session in a sandbox: only its process reads the files.

    tags   which graph of several; None for the only one, or the one for serving
    """

    def __init__(self, path: str | os.PathLike[str], tags: str | Collection[str] | None = None) -> None:
        super().__init__(())
        self.path = Path(path).resolve()
        self.tags = (tags,) if isinstance(tags, str) else None if tags is None else tuple(tags)

    def __repr__(self) -> str:
        return f"<ModelFolder '{self.path}'>"


__all__ = ["GraphBytes", "ModelFolder"]
