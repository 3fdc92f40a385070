"""Many tensors of a checkpoint at once: files are read and sums are made on several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final

from flowengine.checkpoint.elements import Check, never
from flowengine.checkpoint.reader import BundleReader
from flowengine.checkpoint.slices import Slice
from flowengine.checkpoint.v1 import V1Reader
from flowengine.core.arrays import Array
from flowengine.core.errors import CancelledError

#: Two threads fill the memory bus of a small machine, four that of a larger one.
THREADS_MAX: Final = 4
#: Less than this is not worth starting a thread.
_SMALL_BYTES: Final = 1 << 22


def read_many(
    reader: BundleReader | V1Reader,
    requests: Sequence[tuple[bytes, Slice | None]],
    *,
    check: Check = never,
) -> list[Array]:
    """Read each (name, slice) as `reader.read` does, and return the arrays in order.

    The largest are read first.

    check   called on the calling thread, between pieces: it may raise to stop all of them
    Raises what the first failing read raises.
    """
    if not isinstance(reader, BundleReader):
        return [reader.read(name, part) for name, part in requests]
    sizes = [reader.stored_bytes(name) for name, _ in requests]
    threads = min(THREADS_MAX, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    threads = min(threads, len(requests), 1 + sum(sizes) // _SMALL_BYTES)
    if threads < 2:
        return [reader.read(name, part) for name, part in requests]
    results: list[Array | None] = [None] * len(requests)
    errors: list[BaseException] = []
    waiting = sorted(range(len(requests)), key=sizes.__getitem__)  # taken from the end

    def stop_when_failed() -> None:
        if errors:
            raise CancelledError("another tensor could not be read")

    def work(own_check: Check) -> None:
        with reader.another(own_check) as mine:
            while waiting and not errors:
                try:
                    index = waiting.pop()
                except IndexError:
                    return
                try:
                    results[index] = mine.read(*requests[index])
                except BaseException as error:  # raised on the calling thread, once all have ended
                    errors.append(error)

    def check_both() -> None:
        stop_when_failed()
        check()

    helpers = [threading.Thread(target=work, args=(stop_when_failed,)) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        work(check_both)
    finally:
        for helper in helpers:
            helper.join()
    if errors:
        raise errors[0]
    return [value for value in results if value is not None]
