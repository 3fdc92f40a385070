"""Run a model that you have: which digit is in a picture?

python run_model.py nine.png
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import flowengine as fe

HERE = Path(__file__).resolve().parent


def main(picture: str) -> None:
    graph = fe.Graph.load(HERE / "digits.pb")
    names = (HERE / "digits.txt").read_text().split()
    pixels = np.asarray(Image.open(picture).convert("L"))
    with fe.blocking.Session(graph) as session:
        classify = session.make_callable("scores", feeds=["image"])
        (scores,) = classify(pixels[np.newaxis, :, :, np.newaxis])  # a batch of one, with one channel
    for row, name, score in zip(pixels, names, scores, strict=False):
        drawn = "".join(" ░▒▓█"[int(value) * 4 // 240] * 2 for value in row)
        print(f"{drawn}  {name:>5} {score:6.1%} {'█' * round(20 * float(score))}")
    for name, score in zip(names[8:], scores[8:], strict=True):
        print(f"{'':16}  {name:>5} {score:6.1%} {'█' * round(20 * float(score))}")


if __name__ == "__main__":
    main(sys.argv[1])
