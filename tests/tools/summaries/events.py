"""Event files read for tests: as records with their checksums, and the fields in them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from flowengine.ir.wire import fields
from flowengine.resources.tf_records import tf_records


def message(data: bytes) -> dict[int, Any]:
    """{number: what the last field of it holds}."""
    return {number: value for number, _, value in fields(data)}


def parts(data: bytes, number: int) -> list[bytes]:
    """Every field of this number, in order."""
    return [bytes(value) for found, _, value in fields(data) if found == number]


def records(data: bytes) -> list[bytes]:
    """The records of a file; DataLossError where a checksum does not fit."""
    return [bytes(record) for block in tf_records(io.BytesIO(data), b"file") for _, record in block]


def files_of(folder: Path) -> list[Path]:
    """The event files of a folder in the order in which TensorBoard reads them."""
    return sorted(folder.glob("events.out.tfevents.*"))


def events(folder: Path) -> list[dict[int, Any]]:
    """The events of the newest file of a folder."""
    return [message(record) for record in records(files_of(folder)[-1].read_bytes())]


def values(folder: Path) -> list[tuple[int, str, str]]:
    """(step, tag, plugin) of each value in the newest file of a folder."""
    found = []
    for event in events(folder):
        for value in parts(event.get(5, b""), 1):
            read = message(value)
            plugin = message(message(read[9])[1]) if 9 in read else {}
            found.append((event.get(2, 0), str(read[1], "utf-8"), str(plugin.get(1, b""), "utf-8")))
    return found


def tensor_of(folder: Path, tag: str) -> dict[int, Any]:
    """The TensorProto of the last value with this tag."""
    for event in reversed(events(folder)):
        for value in parts(event.get(5, b""), 1):
            if message(value)[1] == tag.encode():
                return message(message(value)[8])
    raise AssertionError(f"no value has the tag {tag}")
