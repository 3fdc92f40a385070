"""JPEG files with restarts and several scans, damaged at their markers.

    PYTHONPATH=. python tests/kernels/pictures/jpeg_restarts.py

draws the whole files with Pillow where `jpeg_restarts.npz` lacks them. The damage is done to them here, at
each use; that part runs with the Python of TensorFlow 1.15 too, which is 3.7.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.kernels.pictures.png_files import Case

FILES = Path(__file__).with_name("jpeg_restarts.npz")
RESTARTS = range(0xD0, 0xD8)
#: Restarts, markers with contents, reserved ones and those of other frames.
MARKERS = (0x02, 0x46, 0xBF, 0x01, 0xD0, 0xD3, 0xD7, 0xE1, 0xE0, 0xFE, 0xC4, 0xC8, 0xDC, 0xF0, 0xFD, 0xDA)
KINDS = ("marker", "reserved", "renumbered", "removed", "gap_in_head", "marker_without_end")


def draw() -> dict[str, bytes]:
    """The whole files, by name."""
    from PIL import Image

    chance = np.random.default_rng(77)
    out: dict[str, bytes] = {}
    for progressive in (False, True):
        for form, mode, subsampling in (
            ("444", "RGB", 0),
            ("420", "RGB", 2),
            ("grey", "L", 0),
            ("cmyk", "CMYK", 0),
        ):
            for interval in (1, 3):
                height, width = chance.integers(34, 60, 2)
                rough = chance.integers(0, 256, (height // 6, width // 6, 3), dtype=np.uint8)
                image = Image.fromarray(rough).resize((int(width), int(height))).convert(mode)
                stream = io.BytesIO()
                more = {"subsampling": subsampling} if mode == "RGB" else {}
                image.save(
                    stream,
                    "JPEG",
                    quality=60,
                    progressive=progressive,
                    restart_marker_blocks=interval,
                    **more,
                )
                name = f"{form}_{interval}" + ("_progressive" if progressive else "")
                out[name] = stream.getvalue()
    return out


def damaged(chance: random.Random, kind: str, file: bytes) -> bytes:
    """The file with this damage."""
    scan = file.index(b"\xff\xda") + 14
    out = bytearray(file)
    restarts = [i for i in range(scan, len(file) - 1) if file[i] == 0xFF and file[i + 1] in RESTARTS]
    at = chance.choice(restarts)
    if kind == "reserved":
        out[at + 1] = chance.randrange(0x02, 0xC0)
    elif kind == "renumbered":
        out[at + 1] = chance.choice(RESTARTS)
    elif kind == "removed":
        del out[at : at + 2]
    elif kind == "gap_in_head":
        table = file.index(b"\xff\xc4")
        out[table:table] = b"gap"
    else:
        at = chance.randrange(scan, len(file) - 4)
        out[at : at + 2] = bytes((0xFF, chance.choice(MARKERS)))
    return bytes(out[:-2] if kind == "marker_without_end" else out)


def torn(chance: random.Random, file: bytes) -> bytes:
    """The file, cut off within the contents of a table after its first scan."""
    scan = file.index(b"\xff\xda")
    tables = [i for i in range(scan, len(file) - 1) if file[i : i + 2] == b"\xff\xc4"]
    at = chance.choice(tables)
    return file[: at + 2 + chance.randrange(1, file[at + 2] * 256 + file[at + 3])]


def cases() -> Iterator[Case]:
    with np.load(FILES) as kept:
        files = {name: kept[name].tobytes() for name in kept.files}
    chance = random.Random(4)
    for name, file in files.items():
        for kind in KINDS:
            for count in range(2):
                attrs: dict[str, Any] = {"channels": chance.choice([0, 0, 3])}
                if chance.random() < 0.5:
                    attrs["dct_method"] = "INTEGER_ACCURATE"
                yield f"restarts/{kind}/{name}/{count}", "DecodeJpeg", damaged(chance, kind, file), attrs
        if name.endswith("_progressive"):
            for count in range(4):
                attrs = {"channels": 0, "try_recover_truncated": True}
                yield f"torn/{name}/{count}", "DecodeJpeg", torn(chance, file), attrs


if __name__ == "__main__" and not FILES.exists():
    drawn: dict[str, Any] = {name: np.frombuffer(file, np.uint8) for name, file in draw().items()}
    np.savez_compressed(FILES, **drawn)
