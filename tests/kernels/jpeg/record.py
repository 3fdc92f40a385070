"""The images that TensorFlow decodes from `picture.jpg` and `grey.jpg`: run with a Python that has it.

    /path/to/python tests/kernels/jpeg/record.py

The files are drawn first, where they are not there, with Pillow. The results are committed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent

#: {name: (file, options of `tf.io.decode_jpeg`)}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("picture.jpg", {}),
    "own_channels": ("picture.jpg", {"channels": 0}),
    "as_grey": ("picture.jpg", {"channels": 1}),
    "fast": ("picture.jpg", {"dct_method": "INTEGER_FAST"}),
    "accurate": ("picture.jpg", {"dct_method": "INTEGER_ACCURATE"}),
    "rough": ("picture.jpg", {"fancy_upscaling": False}),
    "rough_accurate": ("picture.jpg", {"fancy_upscaling": False, "dct_method": "INTEGER_ACCURATE"}),
    "half": ("picture.jpg", {"ratio": 2}),
    "quarter": ("picture.jpg", {"ratio": 4, "dct_method": "INTEGER_ACCURATE"}),
    "eighth": ("picture.jpg", {"ratio": 8}),
    "grey": ("grey.jpg", {"channels": 0}),
    "grey_in_colours": ("grey.jpg", {}),
}
#: First row and column, height and width of the part that is decoded alone.
PART = (5, 9, 20, 17)


def draw() -> None:
    """Two files of colours that change quickly, so that every way to decode them shows."""
    from PIL import Image

    chance = np.random.default_rng(5)
    rough = chance.integers(0, 256, (9, 12, 3), dtype=np.uint8)
    for name, mode in (("picture.jpg", "RGB"), ("grey.jpg", "L")):
        out = io.BytesIO()
        picture = Image.fromarray(rough).resize((45, 37), Image.Resampling.BICUBIC)
        picture.convert(mode).save(out, "JPEG", quality=88)
        (HERE / name).write_bytes(out.getvalue())


def main() -> None:
    if not (HERE / "picture.jpg").exists():
        draw()
        return
    import tensorflow as tf

    found = {}
    for name, (file, options) in CASES.items():
        given = {"channels": 3, **options}
        found[name] = tf.io.decode_jpeg((HERE / file).read_bytes(), **given).numpy()
    picture = (HERE / "picture.jpg").read_bytes()
    found["part"] = tf.io.decode_and_crop_jpeg(picture, PART, channels=3).numpy()
    found["of_any_format"] = tf.io.decode_image(picture, channels=3).numpy()
    found["by_decode_png"] = tf.io.decode_png(picture, channels=3).numpy()
    np.savez_compressed(HERE / "tensorflow.npz", **found)


if __name__ == "__main__":
    main()
