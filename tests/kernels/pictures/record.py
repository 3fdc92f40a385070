"""TensorFlow 1.15's answers for the drawn pictures: run with a Python that has it.

    PYTHONPATH=. /path/to/python tests/kernels/pictures/record.py

They are kept in `recorded.json` as digests, with "refused" for an error.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kernels.pictures import gif_files, jpeg_files, jpeg_restarts, png_files

if TYPE_CHECKING:
    from tests.kernels.pictures.png_files import Case

RECORDED = Path(__file__).with_name("recorded.json")
REFUSED = "refused"


def all_cases() -> Iterator[Case]:
    """Every drawn picture; {name: (op, file, attributes)} of it is the same everywhere."""
    files = (png_files, gif_files, jpeg_files, jpeg_restarts)
    return itertools.chain.from_iterable(module.cases() for module in files)


def digest(array: Any) -> str:
    """A short digest of a result: dtype, shape and values."""
    text = f"{array.dtype} {list(array.shape)} ".encode()
    return hashlib.sha256(text + array.tobytes()).hexdigest()[:16]


def main() -> None:
    import tensorflow as tf

    found = {}
    for name, op, file, attrs in all_cases():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            if "window" in attrs:
                attrs = {**attrs, "crop_window": attrs["window"]}
                del attrs["window"]
            try:
                found[name] = digest(session.run(getattr(tf.raw_ops, op)(contents=file, **attrs)))
            except tf.errors.InvalidArgumentError:
                found[name] = REFUSED
    RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
