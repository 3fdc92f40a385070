"""A checkpoint's tensors into one file of another format, one tensor at a time."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.cli.checkpoint.reading import text_of
from flowengine.cli.failure import STEP_ERROR, CommandError
from flowengine.cli.results import storable
from flowengine.core.errors import UnimplementedError

if TYPE_CHECKING:
    from flowengine.checkpoint import BundleReader, V1Reader

KINDS: Final = (".npz", ".safetensors")


#: A TensorFlow 2 checkpoint's description of the objects in it: a message rather than a tensor.
OBJECT_GRAPH: Final = b"_CHECKPOINTABLE_OBJECT_GRAPH"


def export(reader: BundleReader | V1Reader, names: Sequence[bytes], path: str) -> None:
    """Write the tensors beside `path` and rename: the file is whole or not there.

    Raises CommandError where it cannot be written or cannot hold one of them.
    """
    folder, base = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{base}.{os.getpid()}.part")
    write = _write_safetensors if path.lower().endswith(".safetensors") else _write_archive
    try:
        try:
            with open(temporary, "wb") as file:
                write(file, reader, names, path)
            os.replace(temporary, path)
        except UnimplementedError as error:
            raise CommandError(f"{path}: {error.message}", STEP_ERROR) from error
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}", STEP_ERROR) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # gone already if all went well


def _write_archive(file: Any, reader: BundleReader | V1Reader, names: Sequence[bytes], path: str) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in names:
            value = storable(reader.read(name), path)
            with archive.open(f"{text_of(name)}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def _write_safetensors(file: Any, reader: BundleReader | V1Reader, names: Sequence[bytes], path: str) -> None:
    from flowengine.checkpoint.safetensors import write_safetensors

    stored = {text_of(name): name for name in names}
    tensors = [(text, reader.dtype(name), reader.shape(name)) for text, name in stored.items()]
    write_safetensors(file.write, tensors, lambda text: reader.read(stored[text]), metadata={"format": "np"})
