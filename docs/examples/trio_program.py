"""Steps in a trio program: many at once, one that is refused, one that is given up.

python trio_program.py
"""

from pathlib import Path

import numpy as np
import trio
from batched import batched
from PIL import Image

import flowengine as fe

NINE = np.asarray(Image.open(Path(__file__).resolve().parent / "nine.png"))[np.newaxis, :, :, np.newaxis]


async def ask_together(session: fe.Session, clients: int) -> list[int]:
    """Return the answer that each of so many clients gets; the session computes their rows in batches."""
    classify = session.make_callable("batched", feeds=["image"])
    answers: list[int] = []

    async def client() -> None:
        (scores,) = await classify(NINE)
        answers.append(int(scores.argmax()))

    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(client)
    return answers


async def main() -> None:
    async with fe.Session(batched()) as session:
        answers = await ask_together(session, 100)
        print(f"{len(answers)} clients were told {set(answers)}")

        try:
            await session.run("batched:0", {"image": np.zeros((1, 9, 9, 1), np.uint8)})
        except fe.errors.InvalidArgumentError as error:
            print("refused:", error.message)

    # A lone request waits for others to share its batch; this one waits for no more than 0.05 s.
    async with fe.Session(batched(wait_seconds=60)) as session:
        with trio.move_on_after(0.05) as scope:
            await session.run("batched:0", {"image": NINE})
        print("given up:", scope.cancelled_caught)


if __name__ == "__main__":
    trio.run(main)
