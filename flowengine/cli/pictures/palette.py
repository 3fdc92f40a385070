"""Colours of classes: neighbours in number are far apart in colour."""

from __future__ import annotations

import colorsys
from typing import Any, Final

import numpy as np

COLOURS: Final = 256
#: The golden ratio parts a circle so that any number of consecutive hues stay apart.
_STEP: Final = 0.61803398875


def colour_of(index: int) -> tuple[int, int, int]:
    """Return the colour of a class as red, green and blue; class 0, the background, is black."""
    index %= COLOURS
    if not index:
        return (0, 0, 0)
    light = (0.95, 0.7, 0.85)[index % 3]
    red, green, blue = colorsys.hsv_to_rgb(index * _STEP % 1.0, (0.9, 0.65)[index % 2], light)
    return round(255 * red), round(255 * green), round(255 * blue)


def coloured(classes: Any) -> Any:
    """Colour a map of classes: (H, W) integers to (H, W, 3) uint8."""
    table = np.array([colour_of(index) for index in range(COLOURS)], np.uint8)
    return table[classes % COLOURS]


__all__ = ["COLOURS", "colour_of", "coloured"]
