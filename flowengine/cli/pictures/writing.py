"""`--output out.png` and `--output FOLDER/`: values that are images or segmentations, as PNG files.

| value | picture |
|---|---|
| uint8, uint16 (H, W) or (H, W, 1, 3 or 4) | as it is |
| floats (H, W) or (H, W, 1, 3 or 4) | from 0 to 1, made bytes as by TensorFlow's `convert_image_dtype` |
| bool (H, W) | black and white |
| integers (H, W) or (H, W, 1) | classes, each in its colour |
| floats (H, W, C) of other C | the class of the highest score, in its colour |

Each may have a batch dimension in front: these are as many pictures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.cli.pictures.palette import coloured
from flowengine.core.arrays import to_array

#: TensorFlow multiplies with the largest byte and half a step, and cuts the fraction off.
_BYTE_SCALE: Final = 255.5
_CHANNELS: Final = (1, 3, 4)


def is_for_pictures(path: str) -> bool:
    """Whether an `--output` of this name is for pictures: a .png, or a folder."""
    return path.lower().endswith(".png") or path.endswith(("/", os.sep)) or os.path.isdir(path)


def check_pictures(path: str, count: int) -> None:
    """CommandError (usage) if so many values cannot go into one .png file."""
    if path.lower().endswith(".png") and count != 1:
        raise CommandError(
            f"--output {path}: a .png file holds one picture, not {count}: name a folder", USAGE
        )


def write_pictures(path: str, values: Mapping[str, Any]) -> None:
    """Write the pictures among the values into a .png file, or into a folder, which is made.

    Raises CommandError for values without a picture, for several pictures in one file, and where a file
    cannot be written.
    """
    pictures = {
        name: each for key, value in values.items() for name, each in _named(key, pictures_of(value)).items()
    }
    if not pictures:
        shapes = ", ".join(f"{name} {list(np.shape(value))}" for name, value in values.items())
        raise CommandError(f"--output {path}: no value is a picture ({shapes})", STEP_ERROR)
    try:
        if path.lower().endswith(".png"):
            if len(pictures) > 1:
                raise CommandError(
                    f"--output {path}: a .png file holds one picture, not {len(pictures)}: name a folder",
                    STEP_ERROR,
                )
            _write(path, next(iter(pictures.values())))
            return
        os.makedirs(path, exist_ok=True)
        for name, each in pictures.items():
            _write(os.path.join(path, f"{name}.png"), each)
    except OSError as error:
        raise CommandError(f"--output {path}: {error.strerror or error}", STEP_ERROR) from error


def _named(key: str, pictures: list[Any]) -> dict[str, Any]:
    name = printable(key.removesuffix(":0")).replace("/", "_").replace(":", "_")
    if len(pictures) == 1:
        return {name: pictures[0]}
    return {f"{name}_{number}": each for number, each in enumerate(pictures)}


def pictures_of(value: Any) -> list[Any]:
    """Return the pictures of a value as uint8 or uint16 (H, W, 1 to 4); an empty list if it is none."""
    array = None if value is None else to_array(value)
    if array is None or array.dtype.kind not in "biufV" or not array.size:
        return []
    if array.dtype.kind == "V":  # bfloat16 and its like
        array = array.astype(np.float32)
    is_batch = array.ndim == 4 or (array.ndim == 3 and _is_batch_of_planes(array))
    planes = list(array) if is_batch else [array]
    return [_picture(each) for each in planes] if planes[0].ndim in (2, 3) else []


def _is_batch_of_planes(array: Any) -> bool:
    """Whether three dimensions are (N, H, W) rather than (H, W, C)."""
    if array.shape[-1] in _CHANNELS:
        return False
    return bool(array.dtype.kind != "f" or array.shape[0] == 1)


def _picture(plane: Any) -> Any:
    if plane.ndim == 2:
        plane = plane[:, :, np.newaxis]
    channels = plane.shape[-1]
    if plane.dtype == bool:
        plane = plane.astype(np.uint8) * np.uint8(255)
    if plane.dtype.kind == "f":
        if channels not in _CHANNELS:
            return coloured(plane.argmax(-1))
        low, high = float(np.nanmin(plane)), float(np.nanmax(plane))
        if low < 0 or high > 1:
            line = f"values from {low:.4g} to {high:.4g} are clipped to 0 and 1 for a picture"
            print(line, file=sys.stderr, flush=True)
        return (np.nan_to_num(plane.astype(np.float64), nan=0.0).clip(0, 1) * _BYTE_SCALE).astype(np.uint8)
    if plane.dtype in (np.uint8, np.uint16) and channels <= 4:
        return plane
    return coloured((plane[..., 0] if channels == 1 else plane.argmax(-1)).astype(np.int64))


def _write(path: str, picture: Any) -> None:
    from flowengine.kernels.image.coding import encode_png

    with open(path, "wb") as file:
        file.write(encode_png(picture, compression=-1))


__all__ = ["check_pictures", "is_for_pictures", "pictures_of", "write_pictures"]
