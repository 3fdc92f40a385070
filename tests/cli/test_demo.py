"""The steps of `make demo`, in short: train by the graph's own op, keep the weights, use them elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main
from flowengine.cluster.cluster_files import found_cluster
from flowengine.cluster.local import free_ports, target_of
from flowengine.cluster.spec import ClusterSpec

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


SCRIPT = DIGITS / "demo_cluster.sh"


async def test_what_the_demo_of_a_cluster_places_can_be_placed(tmp_path: Path) -> None:
    """As its script says, without its processes: a step of training at one worker, one of testing."""
    ps, *workers = (f"127.0.0.1:{port}" for port in free_ports(3))
    spec = ClusterSpec.from_toml(found_cluster(tmp_path / "c", {"ps": [ps], "worker": workers}))
    asked = [re.findall(r"--place '?([^' ]+)=([^' ]+)", line) for line in SCRIPT.read_text().splitlines()]
    training, testing = [dict(each) for each in asked if each]
    async with AsyncExitStack() as stack:
        for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
            await stack.enter_async_context(fe.Server(spec, job, task))
        target = target_of(spec, "/job:worker/task:1")
        graph = fe.Graph.load(GRAPH)
        with np.load(DATA) as archive:
            images = {"images:0": archive["test_images"][:50], "labels:0": archive["test_labels"][:50]}
        async with fe.Session(graph, target=target, config=fe.Config(place=training)) as session:
            await session.run([], targets=["init"])
            await session.run([], images, targets=["train"])
        async with fe.Session(graph, target=target, config=fe.Config(place=testing)) as session:
            assert 0 <= await session.run("accuracy:0", images) <= 1


@pytest.mark.slow
def test_the_demo_of_a_cluster_under_tls() -> None:
    pytest.importorskip("cryptography")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: text for name, text in os.environ.items() if not name.startswith("FLOWENGINE_")}
    done = subprocess.run(
        ["bash", str(SCRIPT), "--tls"],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("serves at tls://") == 3


@pytest.mark.parametrize(("encoding", "full"), [("utf-8", "█"), ("ascii", "#")])
def test_a_digit_is_drawn_in_the_terminal_s_encoding(encoding: str, full: str, tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"values": {"scores:0": {"value": [[0.1] * 10]}}}))
    shown = subprocess.run(
        [sys.executable, str(DIGITS / "show.py"), str(DIGITS / "digit.png"), str(scores)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    assert f"9   10.0%  {full * 3}" in shown.stdout.decode(encoding)
