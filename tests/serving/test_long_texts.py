"""A long text is read on a thread, which ends after a piece when its caller is cancelled."""

from __future__ import annotations

import pytest
import trio

from flowengine.core.work_pieces import Pieces
from flowengine.serving.long_texts import TextThread
from flowengine.serving.text.reading import SLICE_BYTES


@pytest.mark.parametrize("size", [SLICE_BYTES, SLICE_BYTES + 1])
async def test_the_result_is_that_of_the_pieces(size: int) -> None:
    def pieces() -> Pieces[str]:
        yield
        return "read"

    assert await TextThread().finish(pieces(), size) == "read"


async def test_a_cancelled_text_ends_after_a_piece() -> None:
    done = 0

    with trio.CancelScope() as scope:

        def pieces() -> Pieces[None]:
            nonlocal done
            for _ in range(5000):
                done += 1
                if done == 3:
                    trio.from_thread.run_sync(scope.cancel)
                yield

        await TextThread().finish(pieces(), SLICE_BYTES + 1)
    assert scope.cancelled_caught
    assert done < 5000
