"""Summaries that a graph's summary ops have made: the tags in them, and the kind of each one's values."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.wire import BYTES
from flowengine.kernels.io.summary_fields import fields

#: {field of a value: the plugin that shows it}, in the form of TensorFlow 1.
_PLUGINS: Final = {2: "scalars", 4: "images", 5: "histograms", 6: "audio"}
#: Fields of a value, of its metadata, and of the plugin's part of that.
_TAG, _METADATA, _PLUGIN_DATA, _PLUGIN_NAME, _NODE_NAME = 1, 9, 1, 1, 7


def kinds_in(summary: object) -> list[tuple[str, str]] | None:
    """(tag, plugin) of each value of a serialized Summary; None for anything else."""
    if not isinstance(summary, bytes):
        return None
    try:
        found = []
        for number, kind, payload in fields(summary):
            if (number, kind) != (1, BYTES):
                return None
            parts = {(place, held): content for place, held, content in fields(payload)}
            tag = parts.get((_TAG, BYTES), parts.get((_NODE_NAME, BYTES)))
            if tag is None:
                return None
            found.append((str(tag, "utf-8"), _plugin(parts)))
    except (InvalidArgumentError, UnicodeDecodeError):
        return None
    return found


def _plugin(parts: dict[tuple[int, int], memoryview]) -> str:
    for number, _ in parts:
        if number in _PLUGINS:
            return _PLUGINS[number]
    message = parts.get((_METADATA, BYTES), memoryview(b""))
    for wanted in (_PLUGIN_DATA, _PLUGIN_NAME):
        message = next(
            (content for number, kind, content in fields(message) if (number, kind) == (wanted, BYTES)),
            memoryview(b""),
        )
    return str(message, "utf-8") or "tensors"


__all__ = ["kinds_in"]
