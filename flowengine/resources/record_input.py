"""Records of many TFRecord files in random order, epoch after epoch, for ever.

The files of an epoch are read in a random order through a buffer, out of which records are drawn at random;
each record comes once an epoch. The order is that of a generator with a seed; it is not TensorFlow's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import closing
from typing import BinaryIO

import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.records import source_of
from flowengine.resources.tf_records import tf_records


class RecordInput:
    """Draws batches of records.

    names          of the files
    opener         opens one, or raises one of our errors
    compression    "", "ZLIB" or "GZIP"
    seed           of files and records alike
    shift          part of the files, from 0 to 1, by which their order is turned each epoch
    buffer_size    records among which one is drawn
    """

    __slots__ = (
        "_buffer",
        "_buffer_size",
        "_compression",
        "_is_destroyed",
        "_lock",
        "_names",
        "_opener",
        "_random",
        "_records",
        "_shift",
    )

    def __init__(
        self,
        names: list[bytes],
        opener: Callable[[bytes], BinaryIO],
        *,
        compression: str,
        seed: int,
        shift: float,
        buffer_size: int,
    ) -> None:
        self._names = names
        self._opener = opener
        self._compression = compression
        self._random = random.Random(seed)
        self._shift = int(len(names) * shift)
        self._buffer_size = max(buffer_size, 1)
        self._buffer: list[bytes] = []
        self._records = self._epochs()
        self._lock = trio.Lock()
        self._is_destroyed = False

    async def draw(self, count: int) -> list[bytes]:
        """The next records, read on a thread.

        Raises what opening a file raises, DataLossError for a damaged one, InvalidArgumentError where all
        files are empty.
        """
        async with self._lock:
            try:
                return await trio.to_thread.run_sync(self._draw, count)
            finally:
                if self._is_destroyed:
                    self._forget()

    def destroy(self) -> None:
        """Forget what was read and close the file, at the end of a draw that is under way."""
        self._is_destroyed = True
        if not self._lock.locked():
            self._forget()

    def _forget(self) -> None:
        self._buffer.clear()
        self._records.close()
        self._records = self._epochs()

    def _draw(self, count: int) -> list[bytes]:
        try:
            return [next(self._records) for _ in range(count)]
        except BaseException:
            self._records = self._epochs()  # a generator that has raised is at its end
            raise

    def _epochs(self) -> Generator[bytes, None, None]:
        held = self._buffer
        while True:
            names = list(self._names)
            self._random.shuffle(names)
            names = names[self._shift :] + names[: self._shift]
            found = False
            for name in names:
                with closing(self._opener(name)) as file:
                    for block in tf_records(source_of(file, self._compression, name), name):
                        for _, record in block:
                            found = True
                            held.append(record)
                            if len(held) > self._buffer_size:
                                yield self._drawn()
            if not found:
                raise InvalidArgumentError(f"the {len(names)} files of this RecordInput hold no record")
            while held:
                yield self._drawn()

    def _drawn(self) -> bytes:
        held = self._buffer
        chosen = int(self._random.random() * len(held))
        held[chosen], held[-1] = held[-1], held[chosen]
        return held.pop()
