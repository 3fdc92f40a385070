"""`--draw FOLDER`: the pictures that were fed, with boxes around the objects that a model has found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.failure import BAD_FEED, STEP_ERROR, USAGE, CommandError
from flowengine.cli.feeding.images import IMAGE_SUFFIXES, matching_files

if TYPE_CHECKING:
    from flowengine.cli.pictures.detections import DetectedObject, DetectionResults

#: Lines and letters for a picture of this many pixels on its longer side, and the least of either.
_PIXELS: Final = 600
_LINE: Final = 3
_LINE_MIN: Final = 1
_LETTERS: Final = 16
_LETTERS_MIN: Final = 9
#: How bright the eye sees a colour (ITU-R BT.601); on what is darker than this, letters are white.
_RED: Final = 0.299
_GREEN: Final = 0.587
_BLUE: Final = 0.114
_DARK: Final = 140


def fed_pictures(feeds: Sequence[str]) -> list[str]:
    """Return the picture files of the first feed that has some, in the order of its batch."""
    for feed in feeds:
        source = feed.partition("=")[2].removeprefix("@")
        if (paths := matching_files(source)) is not None:
            return paths
        if os.path.splitext(source)[1].lower() in IMAGE_SUFFIXES:
            return [source]
    return []


def targets(folder: str, paths: Sequence[str]) -> list[Path]:
    """Return the file for each picture: of its name, or with its old ending in it where two would be one."""
    stems = [Path(path).stem for path in paths]
    names = [
        stem if stems.count(stem) == 1 else Path(path).name for stem, path in zip(stems, paths, strict=True)
    ]
    return [Path(folder) / f"{name}.png" for name in names]


def checked_pictures(folder: str | None, feeds: Sequence[str], *, force: bool) -> list[str]:
    """Return the pictures among the feeds, after a look at the folder of --draw, if there is one.

    Raises CommandError for a folder that pictures cannot be drawn into, and where no feed is a picture.
    """
    paths = fed_pictures(feeds)
    if folder is None:
        return paths
    if not paths:
        raise CommandError(f"--draw {folder}: no feed is a picture: add --feed NAME=a.png", USAGE)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise CommandError(f"--draw {folder}: it is a file: name a folder", USAGE)
    there = next((each for each in targets(folder, paths) if each.exists()), None)
    if there is not None and not force:
        raise CommandError(f"--draw {folder}: {there} is there already: add --force to replace it", USAGE)
    return paths


def draw(folder: str, paths: Sequence[str], results: DetectionResults) -> int:
    """Draw boxes and labels on each picture; write them as PNG files and return their number.

    Raises CommandError where the model has seen other pictures than were fed, where Pillow is missing, and
    where a file cannot be read or written.
    """
    try:
        from PIL import Image
    except ImportError:
        raise CommandError(
            "drawing on a picture needs Pillow: pip install 'pillow>=10.3'", BAD_FEED
        ) from None
    if len(paths) != len(results.pictures):
        raise CommandError(
            f"--draw {folder}: {len(paths)} pictures were fed, and the detections are of "
            f"{len(results.pictures)}",
            STEP_ERROR,
        )
    try:
        os.makedirs(folder, exist_ok=True)
        for path, target, objects in zip(paths, targets(folder, paths), results.pictures, strict=True):
            with Image.open(path) as opened:
                image = opened.convert("RGB")
            for each in reversed(objects):  # the surest on top
                _box(image, each)
            image.save(target, "PNG")
    except OSError as error:
        raise CommandError(f"--draw {folder}: {error.strerror or error}", STEP_ERROR) from error
    return len(paths)


def _box(image: Any, each: DetectedObject) -> None:
    from PIL import ImageDraw, ImageFont

    from flowengine.cli.pictures.palette import colour_of

    scale = max(image.size) / _PIXELS
    line = max(_LINE_MIN, round(_LINE * scale))
    font = ImageFont.load_default(size=max(_LETTERS_MIN, round(_LETTERS * scale)))
    top, left, bottom, right = (
        round(min(max(side, 0.0), 1.0) * (size - 1))
        for side, size in zip(each.box, (image.height, image.width) * 2, strict=True)
    )
    left, right, top, bottom = min(left, right), max(left, right), min(top, bottom), max(top, bottom)
    colour = colour_of(each.index)
    pencil = ImageDraw.Draw(image)
    pencil.rectangle((left, top, right, bottom), outline=colour, width=line)
    title = f"{each.title} {each.score:.2f}"
    wide, high = pencil.textbbox((0, 0), title, font=font)[2:]
    # Above the box, or in it where there is no place above; never outside of the picture.
    x = max(0, min(left, image.width - wide - 2 * line))
    y = top - high - line if top >= high + line else top
    pencil.rectangle((x, y, x + wide + 2 * line, y + high + line), fill=colour)
    red, green, blue = colour
    dark = _RED * red + _GREEN * green + _BLUE * blue < _DARK
    pencil.text((x + line, y), title, fill=(255, 255, 255) if dark else (0, 0, 0), font=font)


__all__ = ["checked_pictures", "draw", "fed_pictures", "targets"]
