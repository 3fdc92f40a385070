"""Several files as one input: their names and contents, one after another."""

from __future__ import annotations

import os
from collections.abc import Mapping


def pack(contents: Mapping[str, bytes]) -> bytes:
    """{name: content} as bytes that `unpack` reads."""
    parts = []
    for name, content in sorted(contents.items()):
        head = f"{name}\n{len(content)}\n".encode()
        parts.append(head + content)
    return b"".join(parts)


def unpack(data: bytes) -> dict[str, bytes]:
    found = {}
    position = 0
    while position < len(data):
        end = data.index(b"\n", position)
        name = data[position:end].decode()
        position = data.index(b"\n", end + 1)
        size = int(data[end + 1 : position])
        found[name] = data[position + 1 : position + 1 + size]
        position += 1 + size
    return found


def lay_out(data: bytes, folder: str) -> None:
    """Write the files into a folder."""
    for name, content in unpack(data).items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
