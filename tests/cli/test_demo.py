"""What `make demo` does, in short: train by the graph's own op, keep the weights, use them elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flowengine.cli.main import main

DIGITS = Path(__file__).resolve().parent.parent / "data" / "digits"
GRAPH = str(DIGITS / "digits.pb")
DATA = DIGITS / "digits.npz"
LAYERS = ("conv1", "conv2", "dense1", "dense2")

Output = pytest.CaptureFixture[str]


def feeds(part: str) -> list[str]:
    return ["--feed", f"images={DATA}:{part}_images", "--feed", f"labels={DATA}:{part}_labels"]


@pytest.mark.slow
def test_training_lowers_the_loss_and_what_was_learnt_can_be_fed(capsys: Output, tmp_path: Path) -> None:
    trained = str(tmp_path / "trained.npz")
    weights = [f"weights/{layer}{kind}" for layer in LAYERS for kind in ("", "_bias")]
    training = ["run", GRAPH, "--init", "init", "--target", "train", "--fetch", "loss", *feeds("train")]
    keep = [word for name in weights for word in ("--final", name)]
    assert main([*training, "--steps", "200", "--every", "100", *keep, "--output", trained]) == 0
    said = capsys.readouterr()
    losses = [float(line.split()[-1]) for line in said.err.splitlines() if line.startswith("step ")]
    assert len(losses) == 3
    assert losses[0] > 2.0
    assert max(losses[1:]) < 0.5
    with np.load(trained) as archive:
        assert set(archive.files) == {f"{name}:0" for name in weights}

    testing = ["run", GRAPH, "--feed", trained, *feeds("test"), "--fetch", "accuracy", "--json"]
    assert main(testing) == 0
    accuracy = json.loads(capsys.readouterr().out)["values"]["accuracy:0"]["value"]
    assert accuracy > 0.9

    picture = ["--feed", f"images={DIGITS / 'digit.png'}", "--image-scale", "1/15"]
    assert main(["run", GRAPH, "--feed", trained, *picture, "--fetch", "scores", "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out)["values"]["scores:0"]["value"]
    assert int(np.argmax(scores)) == 9
    np.testing.assert_allclose(sum(scores), 1.0, rtol=1e-5)


def test_the_picture_is_the_digit_that_was_held_out() -> None:
    from PIL import Image

    with Image.open(DIGITS / "digit.png") as picture, np.load(DATA) as archive:
        shown = np.asarray(picture) // 15
        matches = np.flatnonzero((archive["test_images"][..., 0] == shown).all(axis=(1, 2)))
        assert archive["test_labels"][matches].tolist() == [9]
