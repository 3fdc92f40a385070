"""The elements of a dataset into a file of records."""

from __future__ import annotations

import contextlib
import secrets
import zlib
from functools import partial
from io import BufferedWriter
from typing import BinaryIO, Final

import trio

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.access import Files
from flowengine.resources.data.dataset import DatasetValue, Iteration, shape_of
from flowengine.resources.event_files import framed

#: Bytes of records that wait until a thread writes them.
_PIECE: Final = 256 * 1024
WINDOWS: Final = {"ZLIB": 15, "GZIP": 31}


async def write_tf_records(
    made: DatasetValue, iteration: Iteration, path: str, compression: str, files: Files
) -> None:
    """Write each element of a dataset, a string of rank 0, as a record of the TFRecord file `path`.

    compression   "", "ZLIB" or "GZIP"
    The file is written aside and takes its place when it is whole; a run that fails or is cancelled leaves
    what was there. InvalidArgumentError for a dataset of other elements; OSError as it comes.
    """
    if made.types != (dtypes.string,):
        shown = ", ".join(dtype.name for dtype in made.types)
        raise InvalidArgumentError(f"a record is written from an element of one string, not of ({shown})")
    aside = f"{path}.{secrets.token_hex(8)}.writing"
    source = made.iterator(iteration)
    machine = zlib.compressobj(wbits=WINDOWS[compression]) if compression else None

    def write(file: BinaryIO, records: list[bytes], *, is_last: bool) -> None:
        data = b"".join([framed(record) for record in records])
        if machine is not None:
            data = machine.compress(data) + (machine.flush() if is_last else b"")
        file.write(data)

    try:
        file = await trio.to_thread.run_sync(_opened, files, aside)
        try:
            waiting: list[bytes] = []
            size = 0
            while (element := await source.next()) is not None:
                record = element[0]
                if not isinstance(record, bytes):
                    if shape_of(record):
                        raise InvalidArgumentError(
                            f"a record must be a scalar string, not of shape {list(shape_of(record))}"
                        )
                    record = record.item()
                waiting.append(record)
                size += len(record)
                if size >= _PIECE:
                    await trio.to_thread.run_sync(partial(write, file, waiting, is_last=False))
                    waiting, size = [], 0
            await trio.to_thread.run_sync(partial(write, file, waiting, is_last=True))
        finally:
            file.close()
        files.rename(aside, path)
    finally:
        source.close()
        with contextlib.suppress(FileNotFoundError):
            files.remove(aside)


def _opened(files: Files, path: str) -> BinaryIO:
    return BufferedWriter(files.create(path))
