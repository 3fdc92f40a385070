"""Values of `--feed NAME=`: files, literals and standard input, read as the fed tensor requires.

| SOURCE | is read as |
|---|---|
| `a.npy` | the array; `a.npz:key`, or `a.npz` with one array in it. Of pickled objects only texts are read |
| `a.json` | a number, a text, a truth value, `{"b64": "..."}` for bytes, or nested lists of them |
| `a.jsonl` | one such value on each line: the rows of a batch |
| `a.tfrecord` | the records of the file, for a string tensor of rank 1; `a.tfrecord.gz` with gzip |
| `a.png`, `.jpg`, ... | an image: see `images`; for a string tensor, the bytes. `*.png` is a batch |
| `a.wav` | its samples: see `audio`; for a string tensor, the bytes of the file |
| `zeros`, `ones`, `random` | synthetic values, for a tensor that holds no strings: see `synthetic` |
| `-` | standard input, told apart by content: any of the above |
| `@FILE` | the bytes of the file, for a string tensor, or a batch of one; `@@x` is the text `@x` |
| anything else | a literal: `3`, `[[1, 2], [3, 4]]`, `true`, `nan`, `some text`, `"3"` |

A bare word that is the name of a file is no literal: it is `@word` or `'"word"'` that was meant.

The value is cast to the tensor's dtype where that loses nothing but precision; it is never reshaped, but for
the bytes of a file, of which no literal can make a batch.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import struct
import sys
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from flowengine.cli.failure import BAD_FEED, CommandError
from flowengine.cli.feeding.audio import AUDIO_SUFFIXES, is_audio, read_audio
from flowengine.cli.feeding.batches import (
    LINES_SUFFIXES,
    RECORD_SUFFIXES,
    read_json,
    read_lines,
    read_records,
)
from flowengine.cli.feeding.images import (
    IMAGE_SUFFIXES,
    ImageOptions,
    is_image,
    matching_files,
    read_image,
    read_images,
)
from flowengine.cli.feeding.object_arrays import read_array
from flowengine.cli.feeding.synthetic import SYNTHETIC, synthetic_value
from flowengine.core import dtypes
from flowengine.core.arrays import is_same_number
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape

_NPY_MAGIC: Final = b"\x93NUMPY"
_ZIP_MAGIC: Final = b"PK\x03\x04"

#: What NumPy and zipfile raise over files that are cut off, damaged or claim to be larger than memory.
_UNREADABLE: Final = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
#: Characters of a text that an error repeats.
_SHOWN_MAX: Final = 40
_TRUTH: Final = {"true": True, "True": True, "false": False, "False": False}


@dataclass(frozen=True, slots=True)
class ValueTarget:
    """The tensor that a value is for: its name, dtype (None: unknown here) and partial shape.

    label   what stands after `--feed`: a signature's input; the tensor's name without it
    """

    name: str
    dtype: DType | None
    shape: TensorShape
    label: str = ""


def read_source(source: str, wanted: ValueTarget, images: ImageOptions) -> Any:
    """The array (or bytes) of a SOURCE; CommandError (a bad feed) if it cannot be had or does not fit."""
    try:
        value = _read(source, wanted, images)
    except CommandError:
        raise
    except _UNREADABLE as error:
        raise _bad(wanted, f"cannot read {source!r}: {error}") from error
    return check_shape(cast(value, wanted), wanted)


def read_archive(source: str) -> dict[str, Any]:
    """Every array of an .npz file, by key; CommandError (a bad feed) if it cannot be read."""
    try:
        with open(source, "rb") as file:
            return dict(_arrays(file))
    except _UNREADABLE as error:
        raise CommandError(f"--feed {source}: cannot read it: {error}", BAD_FEED) from error


def _read(source: str, wanted: ValueTarget, images: ImageOptions) -> Any:
    if source in SYNTHETIC and wanted.dtype is not dtypes.string:
        return synthetic_value(source, wanted.dtype, wanted.shape)
    if source == "-":
        return _from_bytes(sys.stdin.buffer.read(), wanted, images)
    if source.startswith("@@"):
        return source[1:]
    if source.startswith("@"):
        return _from_file(source[1:], wanted)
    path, key = _split_archive(source)
    if path is not None:
        with open(path, "rb") as file:
            return _pick(_arrays(file), key, path)
    suffix = os.path.splitext(source)[1].lower()
    if suffix == ".npy":
        with open(source, "rb") as file:
            return read_array(file)
    if source.lower().endswith(RECORD_SUFFIXES):
        return _from_records(source, wanted)
    if suffix in LINES_SUFFIXES:
        return read_lines(source)
    if suffix == ".json":
        with open(source, encoding="utf-8") as text:
            return read_json(text.read(), source)
    if (paths := matching_files(source)) is not None:
        return _from_images(source, paths, wanted, images)
    if suffix in IMAGE_SUFFIXES:
        with open(source, "rb") as file:
            return _from_image(file.read(), wanted, images, source)
    if suffix in AUDIO_SUFFIXES:
        with open(source, "rb") as file:
            return _from_audio(file.read(), wanted, source)
    return _literal(source, wanted, is_typed=True)


def _from_file(path: str, wanted: ValueTarget) -> Any:
    if wanted.dtype not in (dtypes.string, None):
        raise _bad(wanted, f"@{path} is the bytes of a file, for a string tensor, and this is {wanted.dtype}")
    with open(path, "rb") as file:
        return _in_a_batch(file.read(), wanted)


def _in_a_batch(data: bytes, wanted: ValueTarget) -> Any:
    """Bytes as the one element of a tensor that takes any number of them."""
    dims = wanted.shape.dims
    if not dims or any(size not in (None, 1) for size in dims):
        return data
    value = np.empty((1,) * len(dims), dtype=object)
    value[...] = data
    return value


def _split_archive(source: str) -> tuple[str | None, str | None]:
    """(path, key) of `path.npz:key` or `path.npz`; (None, None) for any other source."""
    lower = source.lower()
    if lower.endswith(".npz"):
        return source, None
    at = lower.find(".npz:")
    if at < 0 or source.startswith(("[", '"')):
        return None, None
    return source[: at + 4], source[at + 5 :]


def _arrays(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != _ZIP_MAGIC:
        raise ValueError("it is not an .npz archive")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _pick(arrays: dict[str, Any], key: str | None, path: str) -> Any:
    held = ", ".join(sorted(arrays)[:12]) or "nothing"
    if key is None:
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise ValueError(f"say which array: {path}:KEY (it holds {held})")
    if key not in arrays:
        raise ValueError(f"it has no array {key!r} (it holds {held})")
    return arrays[key]


def _from_bytes(data: bytes, wanted: ValueTarget, images: ImageOptions) -> Any:
    if data.startswith(_NPY_MAGIC):
        return read_array(io.BytesIO(data))
    if data.startswith(_ZIP_MAGIC):
        return _pick(_arrays(io.BytesIO(data)), None, "-")
    if is_audio(data):
        return _from_audio(data, wanted, "-")
    if is_image(data):
        return _from_image(data, wanted, images, "-")
    try:
        return _literal(data.decode("utf-8").strip(), wanted)
    except UnicodeDecodeError:
        if wanted.dtype is dtypes.string:
            return data
        raise ValueError("it is neither .npy, .npz, an image nor text") from None


def _from_image(data: bytes, wanted: ValueTarget, images: ImageOptions, source: str) -> Any:
    if wanted.dtype is dtypes.string:
        return _in_a_batch(data, wanted)
    return read_image(data, wanted.shape, images, source)


def _from_images(pattern: str, paths: Sequence[str], wanted: ValueTarget, images: ImageOptions) -> Any:
    """A batch of images, or of the bytes of their files for a string tensor."""
    if not paths:
        raise _bad(wanted, f"no file matches {pattern!r}")
    if wanted.dtype is not dtypes.string:
        return read_images(paths, wanted.shape, images)
    values = np.empty(len(paths), dtype=object)
    for number, path in enumerate(paths):
        with open(path, "rb") as file:
            values[number] = file.read()
    return values


def _from_audio(data: bytes, wanted: ValueTarget, source: str) -> Any:
    if wanted.dtype is dtypes.string:
        return _in_a_batch(data, wanted)
    return read_audio(data, wanted.dtype, wanted.shape, source)


def _from_records(path: str, wanted: ValueTarget) -> Any:
    """The records of a file: a batch, or the only one where the tensor takes one."""
    if wanted.dtype not in (dtypes.string, None):
        raise _bad(wanted, f"{path} holds records, for a string tensor, and this is {wanted.dtype}")
    records = read_records(path)
    return records[0] if wanted.shape.rank == 0 and len(records) == 1 else records


def _literal(text: str, wanted: ValueTarget, *, is_typed: bool = False) -> Any:
    """The value that a text stands for. What somebody typed may be the name of a file by mistake."""
    if text in _TRUTH and wanted.dtype is not dtypes.string:
        return _TRUTH[text]
    try:
        return read_json(text, "the literal")
    except ValueError:
        pass
    if is_typed and os.path.isfile(text):
        node = wanted.label or wanted.name.removesuffix(":0")
        raise _bad(wanted, f"{text!r} is the name of a file: {_way_to_feed(text, node, wanted)}")
    if wanted.dtype is dtypes.string:
        return text
    for number in (float, complex):
        try:
            return number(text)
        except ValueError:
            continue
    looks_like = "no such file" if os.path.splitext(text)[1] and not os.path.exists(text) else "not a number"
    raise _bad(wanted, f"{text!r} is neither a literal nor a kind of file that can be fed ({looks_like})")


def _way_to_feed(path: str, node: str, wanted: ValueTarget) -> str:
    """How a file of an unknown kind is fed to a tensor of this type."""
    if wanted.dtype in (dtypes.string, None):
        held, text = shlex.quote(f"@{path}"), shlex.quote(f'"{path}"')
        return f"write --feed {node}={held} for its bytes, or --feed {node}={text} for the text"
    kinds = ".npy, .npz, .json and .jsonl files, and images"
    return f"a {wanted.dtype} is fed from {kinds}: write its values into one of them"


def cast(value: Any, wanted: ValueTarget) -> Any:
    """The value with the tensor's dtype; CommandError where that would change what it says.

    Between kinds: a whole number may become a float, a float or a number too large may not become an integer
    that differs, a complex number stays one, text only becomes a string tensor.
    """
    if wanted.dtype is dtypes.string:
        return _to_strings(value, wanted)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _bad(wanted, f"its rows differ in length: {error}") from error
    if array.dtype == object and array.size:
        raise _bad(wanted, "it holds something else than numbers, or whole numbers beyond 64 bits")
    if wanted.dtype is None:
        return array
    target = wanted.dtype.as_numpy_dtype
    if array.dtype == target:
        return array
    if target.hasobject:
        raise _bad(wanted, f"a {wanted.dtype} cannot be fed from the command line")
    if array.dtype.kind in "SU":
        raise _bad(wanted, f"it is text, not {wanted.dtype}")
    if array.dtype.kind == "c" and not wanted.dtype.is_complex:
        raise _bad(wanted, f"it is complex, not {wanted.dtype}")
    with np.errstate(all="ignore"):
        result = array.astype(target)
        if not (wanted.dtype.is_floating or wanted.dtype.is_complex) and not is_same_number(array, result):
            different = np.argwhere(np.asarray(result != array))
            culprit = array[tuple(different[0])] if len(different) else array.max()
            raise _bad(wanted, f"{culprit} is no {wanted.dtype}")
    return result


def _to_strings(value: Any, wanted: ValueTarget) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        array = _as_objects(value) if isinstance(value, list) else np.asarray(value)
    except ValueError as error:
        raise _bad(wanted, f"its rows differ in length: {error}") from error
    if array.dtype.kind not in "SUO":
        raise _bad(wanted, f"it holds {array.dtype}, not text")
    flat = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
    if not all(isinstance(item, bytes) for item in flat):
        raise _bad(wanted, "it holds something else than text")
    if not array.shape:
        return flat[0]
    result = np.empty(array.size, dtype=object)
    result[:] = flat
    return result.reshape(array.shape)


def _as_objects(value: list[Any]) -> Any:
    """A list of texts and bytes as objects: NumPy's own type for bytes drops zero bytes at their ends."""
    array = np.asarray(value)
    if array.dtype.kind != "S":
        return array
    result = np.empty(array.size, dtype=object)
    flat: list[Any] = value
    for _ in array.shape[1:]:
        flat = [each for row in flat for each in row]
    result[:] = flat
    return result.reshape(array.shape)


def check_shape(value: Any, wanted: ValueTarget) -> Any:
    """The value, if it has a shape that the tensor may have; CommandError otherwise."""
    shape = np.shape(value) if isinstance(value, np.ndarray) else ()
    if not TensorShape(shape).is_compatible_with(wanted.shape):
        hint = ""
        missing = (wanted.shape.rank or 0) - len(shape)
        if missing > 0 and TensorShape([1] * missing + list(shape)).is_compatible_with(wanted.shape):
            more = "one more pair" if missing == 1 else f"{missing} more pairs"
            hint = f": for a batch of one, write {more} of brackets"
            if isinstance(value, bytes):
                hint = _as_text(value, missing, wanted)
        raise _bad(wanted, f"its shape is {list(shape)}, but the graph wants {wanted.shape}{hint}")
    return value


def _as_text(value: bytes, pairs: int, wanted: ValueTarget) -> str:
    """How a text is written for a tensor of texts: in brackets it is quoted."""
    text = value.decode("utf-8", "replace")
    if text.startswith("["):
        return """: texts in brackets are quoted, as in '["one", "two"]'"""
    shown = text if len(text) <= _SHOWN_MAX and text.isprintable() else "..."
    written = "[" * pairs + json.dumps(shown, ensure_ascii=False) + "]" * pairs
    return f": for a batch of one, write --feed {shlex.quote(f'{wanted.label or wanted.name}={written}')}"


def _bad(wanted: ValueTarget, reason: str) -> CommandError:
    return CommandError(f"--feed {wanted.label or wanted.name}: {reason}", BAD_FEED)
