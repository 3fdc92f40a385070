"""Calls of a model in a trio program: many at once, one that is refused, one that is given up.

python trio_program.py
"""

from pathlib import Path

import numpy as np
import trio
from PIL import Image

import flowengine as fe

HERE = Path(__file__).resolve().parent
NINE = np.asarray(Image.open(HERE / "nine.png"), np.float32)[np.newaxis, :, :, np.newaxis]


async def ask_together(classify: fe.saved_model.BatchedSignature, clients: int) -> list[int]:
    """Return the answer that each of so many clients gets; their rows are computed in batches."""
    answers: list[int] = []

    async def client() -> None:
        (scores,) = (await classify(image=NINE))["scores"]
        answers.append(int(scores.argmax()))

    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(client)
    return answers


async def main() -> None:
    async with await fe.saved_model.load(HERE / "keras_digits") as model:
        classify = model.signature.batched(max_rows=64)
        answers = await ask_together(classify, 100)
        print(f"{len(answers)} clients were told {set(answers)}")

        try:
            await classify(image=np.zeros((1, 9, 9, 1), np.float32))
        except fe.errors.InvalidArgumentError as error:
            print("refused:", error.message)

        # Here a lone row waits for others up to a minute; this one waits for no more than 0.05 s.
        patient = model.signature.batched(max_rows=64, wait_seconds=60)
        with trio.move_on_after(0.05) as scope:
            await patient(image=NINE)
        print("given up:", scope.cancelled_caught)


if __name__ == "__main__":
    trio.run(main)
