"""Fetched values on their way out: readable text, JSON, and .npz, .npy or .json files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from flowengine.cli.digits import widened
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.core.arrays import to_array

FILE_KINDS: Final = (".npz", ".npy", ".json")

#: More elements than this are shown by their first and last ones.
_SHOWN_IN_FULL: Final = 200


def readable(name: str, value: Any) -> str:
    """`name = value` for a scalar; the dtype, the shape and the elements of an array."""
    label = printable(name)
    if value is None:
        return f"{label} done"
    array = to_array(value)
    if array.ndim == 0:
        return f"{label} = {_element(array[()])}"
    header = f"{label}  {dtype_name(array)} [{', '.join(map(str, array.shape))}]"
    if array.dtype == object:
        array = _quoted(array)
    body = np.array2string(array, threshold=_SHOWN_IN_FULL, separator=", ", formatter={"object": str})
    return f"{header}\n{body}"


def _quoted(array: Any) -> Any:
    shown = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        shown[index] = _element(array[index])
    return shown


def _element(item: Any) -> str:
    if isinstance(item, bytes):
        return json.dumps(item.decode("utf-8", "backslashreplace"), ensure_ascii=True)
    return str(item)


def dtype_name(array: Any) -> str:
    return "string" if array.dtype.kind in "SUO" else str(array.dtype.name)


def as_json(value: Any) -> dict[str, Any] | None:
    """`{"dtype", "shape", "value"}` with nested lists; None for a node that yields nothing.

    Floats have the fewest digits that stand for them in their dtype: 0.1, not 0.10000000149011612.
    JSON has no NaN and no infinities: they are the strings "NaN", "Infinity" and "-Infinity". A complex
    number is [real, imaginary]; a string that is not UTF-8 has its other bytes escaped as `\\xNN`.
    """
    if value is None:
        return None
    array = to_array(value)
    return {"dtype": dtype_name(array), "shape": list(array.shape), "value": plain_json(array)}


def plain_json(array: Any) -> Any:
    """The elements of an array in nested lists, as `as_json` has them."""
    return _plain(widened(array).tolist())


def _plain(item: Any) -> Any:
    if isinstance(item, list):
        return [_plain(each) for each in item]
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace")
    if isinstance(item, complex):
        return [_plain(item.real), _plain(item.imag)]
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    return item


def check_output(path: str, count: int, *, force: bool = True) -> None:
    """CommandError (usage) if so many values cannot go into this kind of file, or into this place.

    force   whether a file that is there may be replaced
    """
    from flowengine.cli.pictures.writing import check_pictures, is_for_pictures

    suffix = os.path.splitext(path)[1].lower()
    if is_for_pictures(path):
        check_pictures(path, count)
        if suffix != ".png":
            return
    elif suffix not in FILE_KINDS:
        kinds = ", ".join((*FILE_KINDS, ".png"))
        raise CommandError(f"--output {path}: the name must end in {kinds}, or be a folder's", USAGE)
    if suffix == ".npy" and count != 1:
        raise CommandError(f"--output {path}: a .npy file holds one value, not {count}: use .npz", USAGE)
    check_new_file(path, force=force)


def check_new_file(path: str, *, force: bool, option: str = "--output") -> None:
    """CommandError (usage) for a file in no folder, and without `force` for a file that is there."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{option} {path}: there is no folder {folder}: make it first", USAGE)
    if os.path.isdir(path):
        raise CommandError(f"{option} {path}: it is a folder: name a file in it", USAGE)
    if os.path.exists(path) and not force:
        raise CommandError(f"{option} {path}: it is there already: add --force to replace it", USAGE)


def write(path: str, values: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Write the values, or for .json the document, beside `path` and rename: it is whole or not there.

    Pictures go into a .png file, or as .png files into a folder.
    """
    from flowengine.cli.pictures.writing import is_for_pictures, write_pictures

    if is_for_pictures(path):
        write_pictures(path, values)
        return
    suffix = os.path.splitext(path)[1].lower()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        if suffix == ".json":
            file.write(dumps(document).encode())
        elif suffix == ".npy":
            (value,) = values.values()
            np.save(file, storable(value, path), allow_pickle=False)
        else:
            write_archive(file, {key: storable(value, path) for key, value in values.items()})


@contextlib.contextmanager
def replacing(path: str, option: str = "--output") -> Iterator[str]:
    """Give the path of a file beside `path`, which gets its name when the block ends without an error.

    A path that is no file, such as /dev/stdout, is given itself. Raises CommandError, which names the
    `option`, for an OSError in the block.
    """
    folder, name = os.path.split(os.path.abspath(path))
    is_file = os.path.isfile(path) or not os.path.exists(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.part") if is_file else path
    try:
        yield temporary
        if is_file:
            os.replace(temporary, path)
    except OSError as error:
        raise CommandError(f"{option} {path}: {error.strerror or error}", STEP_ERROR) from error
    finally:
        if is_file:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # gone already if all went well


def write_archive(file: Any, arrays: Mapping[str, Any]) -> None:
    """Write arrays as an `.npz` file under their keys."""
    # Keys may be any text, so they cannot go as keyword arguments of numpy.savez.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


#: What NumPy says of a type that another library has registered with it.
_FROM_OUTSIDE: Final = 2


def storable(value: Any, path: str) -> Any:
    """The value as .npy can hold it: strings as fixed-width bytes, bfloat16 and what is of eight bits or
    less as float32 (which is exact).
    """
    array = to_array(value)
    if array.dtype == object:
        if any(not isinstance(item, bytes) or item.endswith(b"\0") for item in array.flat):
            raise CommandError(
                f"{path}: a string that ends in a zero byte cannot be kept in this kind of file",
                STEP_ERROR,
            )
        return array.astype(np.bytes_)
    return array if array.dtype.isbuiltin != _FROM_OUTSIDE else array.astype(np.float32)


def dumps(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False) + "\n"
