"""JPEG files drawn at random: subsampling, restarts, scans, CMYK, windows, options of the ops, and damage.

    PYTHONPATH=. python tests/kernels/pictures/jpeg_files.py

draws the whole files with Pillow and simplejpeg where `jpeg_files.npz` lacks them. The damage is done to them
here, at each use; that part runs with the Python of TensorFlow 1.15 too, which is 3.7.
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

FILES = Path(__file__).with_name("jpeg_files.npz")
ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"


def picture(chance: Any, channels: int) -> Any:
    """Colours that change quickly, so that every way to decode them shows."""
    from PIL import Image

    height, width = chance.integers(20, 60, 2)
    rough = chance.integers(0, 256, (height // 5, width // 5, max(channels, 3)), dtype=np.uint8)
    mode = {1: "L", 3: "RGB", 4: "CMYK"}[channels]
    image = Image.fromarray(rough, "CMYK" if channels == 4 else "RGB")
    return image.resize((int(width), int(height)), Image.Resampling.BICUBIC).convert(mode)


def draw() -> dict[str, bytes]:
    """The whole files, by name."""
    import simplejpeg

    chance = np.random.default_rng(1234)
    out: dict[str, bytes] = {}

    def saved(name: str, channels: int = 3, **options: Any) -> None:
        stream = io.BytesIO()
        picture(chance, channels).save(stream, "JPEG", **{"quality": 88, **options})
        out[name] = stream.getvalue()

    for progressive in (False, True):
        more = "_progressive" if progressive else ""
        for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
            saved(name + more, subsampling=subsampling, progressive=progressive)
        saved(f"grey{more}", 1, progressive=progressive)
        saved(f"cmyk{more}", 4, progressive=progressive)
    for name, subsampling in (("restarts_444", 0), ("restarts_420", 2)):
        saved(name, subsampling=subsampling, restart_marker_blocks=3)
    saved("restarts_grey", 1, restart_marker_rows=1)
    saved("cmyk_small", 4, subsampling=0, quality=40)
    saved("rough_420", subsampling=2, quality=20)
    for form in ("411", "440"):
        image = np.asarray(picture(chance, 3))
        out[form] = simplejpeg.encode_jpeg(np.ascontiguousarray(image), 85, colorsubsampling=form)
    return out


def changed_head(file: bytes, adobe: int | None) -> bytes:
    """The file with an Adobe marker that names this transform, or without one; and without JFIF."""
    out, at = [file[:2]], 2
    if adobe is not None:
        out.append(ADOBE[:-1] + bytes((adobe,)))
    while file[at + 1] != 0xDA:
        size = 2 + file[at + 2] * 256 + file[at + 3]
        if file[at + 1] not in (0xE0, 0xEE):
            out.append(file[at : at + size])
        at += size
    return b"".join([*out, file[at:]])


def damaged(chance: random.Random, kind: str, file: bytes) -> bytes:
    """The file with this damage."""
    scan = file.index(b"\xff\xda") + 14
    if kind == "cut":
        return file[: chance.randrange(scan, len(file) - 2)]
    if kind == "cut_head":
        return file[: chance.randrange(4, scan)]
    if kind == "no_end":
        return file[: len(file) - chance.choice([1, 2])]
    if kind == "more":
        return file + chance.choice([b"\xff\xd9", b"junk" * 9, file[:40]])
    out = bytearray(file)
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(scan, len(file) - 2) if kind == "scan" else chance.randrange(2, scan)
        out[at] = chance.choice([out[at] ^ 1 << chance.randrange(8), chance.randrange(256)])
    return bytes(out)


def options(chance: random.Random) -> dict[str, Any]:
    """Attributes of DecodeJpeg, each at its default half of the time."""
    attrs: dict[str, Any] = {"channels": chance.choice([0, 3, 3, 1])}
    if chance.random() < 0.5:
        attrs["dct_method"] = chance.choice(["INTEGER_FAST", "INTEGER_ACCURATE"])
    if chance.random() < 0.3:
        attrs["fancy_upscaling"] = False
    if chance.random() < 0.2:
        attrs["ratio"] = chance.choice([2, 4, 8])
    return attrs


def window(chance: random.Random, size: tuple[int, int]) -> list[int]:
    """First row and column, height and width of a window; one in ten reaches too far."""
    height, width = (chance.randrange(1, edge + 1) for edge in size)
    top, left = chance.randrange(size[0] - height + 1), chance.randrange(size[1] - width + 1)
    return [top, left, height + (10 if chance.random() < 0.1 else 0), width + 40 * (chance.random() < 0.05)]


def cases(seed: int = 62) -> Iterator[Case]:
    with np.load(FILES) as kept:
        files = {name: kept[name].tobytes() for name in kept.files}
    sizes = {name: size_of(file) for name, file in files.items()}
    chance = random.Random(seed)
    attrs: dict[str, Any]
    for name, file in files.items():
        for count in range(3):
            attrs = options(chance) if count else {"channels": 0}
            yield f"jpeg/whole/{name}/{count}", "DecodeJpeg", file, attrs
    for name, adobe in (("444", 0), ("420", 0), ("420", None), ("cmyk", None), ("cmyk", 0), ("cmyk", 2)):
        for channels in (0, 1, 3):
            attrs = {"channels": channels}
            yield (
                f"jpeg/marker/{name}_{adobe}/{channels}",
                "DecodeJpeg",
                changed_head(files[name], adobe),
                attrs,
            )
    for name, file in files.items():
        for count in range(5):
            attrs = {**options(chance), "window": window(chance, sizes[name])}
            # TensorFlow 1.15 writes outside of its memory for windows without interpolation.
            attrs.pop("fancy_upscaling", None)
            if "ratio" in attrs:
                attrs["window"] = [-(-edge // attrs["ratio"]) for edge in attrs["window"]]
            yield f"jpeg/window/{name}/{count}", "DecodeAndCropJpeg", file, attrs
    for kind in ("cut", "no_end", "scan", "scan_again", "head", "cut_head", "more"):
        for name in files if kind != "cut_head" else ["420", "grey", "cmyk", "444_progressive"]:
            attrs = {"channels": chance.choice([0, 0, 1])}
            if kind in ("cut", "no_end") and chance.random() < 0.7:
                attrs["try_recover_truncated"] = chance.random() < 0.5
                attrs["acceptable_fraction"] = chance.choice([0.0, 0.3, 1.0])
            yield (
                f"jpeg/{kind}/{name}",
                "DecodeJpeg",
                damaged(chance, kind.split("_a")[0], files[name]),
                attrs,
            )


def size_of(file: bytes) -> tuple[int, int]:
    """Height and width, from the frame's head."""
    at = 2
    while file[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + file[at + 2] * 256 + file[at + 3]
    return file[at + 5] * 256 + file[at + 6], file[at + 7] * 256 + file[at + 8]


if __name__ == "__main__" and not FILES.exists():
    drawn: dict[str, Any] = {name: np.frombuffer(file, np.uint8) for name, file in draw().items()}
    np.savez_compressed(FILES, **drawn)
