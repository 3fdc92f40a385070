"""Damaged inputs: the same for a seed everywhere, an answer or an error of ours for each, findings kept."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import pytest

from flowengine.graphs.graph import Graph
from flowengine.ir.graphdef import parse_graph_def
from flowengine.ops.concrete import ConcreteInputs
from tests.effort import examples
from tests.testing.fuzz.bases import keep_accepted, write
from tests.testing.fuzz.built import BUILT
from tests.testing.fuzz.built import graphs as graphs_written_down
from tests.tools.fuzz import KINDS, bases, campaign, made
from tests.tools.fuzz.files import pack, unpack
from tests.tools.fuzz.given import GivenBases
from tests.tools.fuzz.graph_changes import light_values
from tests.tools.fuzz.minimise import minimised
from tests.tools.fuzz.playing import play

#: Inputs of each kind: a thousand in the usual run of the tests, five thousand at night.
SEEDS = examples(840, one_in=4)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"frames"}))  # whose inputs are made, not damaged
def test_good_inputs_are_played(kind: str) -> None:
    for data in KINDS[kind].good():
        assert play(kind, data, seconds=60) == "value"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_damaged_input_ends_in_a_value_or_an_error_of_ours(kind: str, tmp_path: Path) -> None:
    tally = campaign.run(kind, 0, SEEDS, tmp_path, hang_seconds=120)
    assert tally.findings == []
    assert "value" in tally.outcomes
    assert len(tally.outcomes) > 1


def _digests() -> dict[str, str]:
    return {
        kind: hashlib.sha256(b"".join(made(kind, seed) for seed in range(12))).hexdigest()
        for kind in sorted(KINDS)
    }


def test_a_seed_makes_the_same_bytes_in_any_process() -> None:
    code = "import json, tests.testing.fuzz.test_fuzz as t; print(json.dumps(t._digests()))"
    for hashing in ("0", "77"):
        command = [sys.executable, "-c", code]
        found = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": hashing},
            check=True,
            cwd=Path(__file__).resolve().parents[3],
        )
        assert json.loads(found.stdout) == _digests()


def test_files_are_packed_and_unpacked() -> None:
    contents = {"m.index": b"\n3\n", "a": b"", "b": bytes(range(256))}
    assert unpack(pack(contents)) == contents


_SAYS = """
import faulthandler, json, os, sys, time
faulthandler.enable()
first, last = map(int, sys.argv[sys.argv.index("--seeds") + 1].split(":"))
for seed in range(first, last):
    print(json.dumps({"begin": seed}), flush=True)
    if seed == 3:
        os._exit(9)
    if seed == 5:
        HANGS
    told = {"outcome": "raised", "finding": "E", "text": "t"} if seed == 6 else {"outcome": "value"}
    print(json.dumps({"seed": seed, **told}), flush=True)
"""


@pytest.mark.parametrize("hangs", ["time.sleep(60)", "while True: pass"])
def test_a_campaign_goes_on_after_crash_and_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    script = tmp_path / "child.py"
    script.write_text(_SAYS.replace("HANGS", hangs))
    started: list[list[str]] = []
    real = subprocess.Popen

    def begin(command: list[str], **options: Any) -> Any:
        started.append(command)
        return real([sys.executable, str(script), *command[3:]], **options)

    monkeypatch.setattr("tests.tools.fuzz.campaign.subprocess.Popen", begin)
    folder = tmp_path / "found"
    tally = campaign.run("records", 0, 8, folder, hang_seconds=1)
    assert tally.at == 8
    assert dict(tally.outcomes) == {"value": 5, "crash with status 9": 1, "hang": 1, "raised": 1}
    found = [(each["seed"], each["finding"]) for each in tally.findings]
    assert found == [(3, "crash with status 9"), (5, "hang"), (6, "E")]
    assert (folder / "records-5.bin").read_bytes() == made("records", 5)
    assert "most recent call first" in json.loads((folder / "records-5.json").read_text())["text"]
    assert json.loads((folder / "records-6.json").read_text())["text"] == "t"
    assert len(started) == 3
    # What was played is not played again.
    assert campaign.run("records", 0, 8, folder).findings == tally.findings
    assert len(started) == 3


class _Stalled(SimpleQueue[str | None]):
    """As after a machine that stood still: what was waited for is overdue at once, and comes afterwards."""

    stalls = 0

    def get(self, block: bool = True, timeout: float | None = None) -> str | None:
        type(self).stalls += 1
        if type(self).stalls == 2:
            raise Empty
        return super().get(block, timeout)


def test_a_machine_that_stood_still_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SimpleQueue", _Stalled)
    tally = campaign.run("records", 0, 3, tmp_path, hang_seconds=600)
    assert (tally.at, tally.findings) == (3, [])
    assert _Stalled.stalls > 3


def test_given_groups_take_turns_and_are_counted(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    graph = bases.graphs()[0]
    for name in ("Add-0", "Add-1", "Batch_v2-0"):
        (good / f"{name}.pb").write_bytes(graph)
    given = GivenBases(good)
    assert [given.of(seed)[0] for seed in range(4)] == ["Add", "Batch_v2"] * 2
    tally = campaign.run("calls", 0, 6, tmp_path / "found", bases=good)
    assert {name: row[0] for name, row in tally.groups.items()} == {"Add": 3, "Batch_v2": 3}
    accepted = sum(count for name, count in tally.outcomes.items() if name == "value")
    assert sum(row[1] for row in tally.groups.values()) >= accepted
    assert campaign.run("calls", 0, 6, tmp_path / "found", bases=good).groups == tally.groups
    assert tally.is_full is False
    assert [each.split()[0] for each in tally.seldom()] in (["Add", "Batch_v2"], ["Batch_v2", "Add"])
    full = campaign.CampaignTally(0, groups={"Add": [20, 10], "Sub": [20, 9], "Mul": [60, 3]})
    assert full.is_full
    assert full.seldom() == ["Mul 60/3", "Sub 20/9"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no good input"):
        GivenBases(tmp_path / "empty")


@pytest.mark.parametrize("op", sorted(BUILT))
def test_graphs_that_are_written_down_are_accepted(op: str) -> None:
    (graph,) = graphs_written_down(op)
    assert op in {node.op for node in parse_graph_def(graph).node}
    # A summary writer is never opened, and files may not be read.
    assert play("calls", graph, seconds=60) in ("value", "NotFoundError", "PermissionDeniedError")


@pytest.mark.slow
@pytest.mark.nightly
def test_each_op_with_a_kernel_has_a_graph_that_is_accepted(tmp_path: Path) -> None:
    write(tmp_path, Path(os.environ.get("FLOWENGINE_SHARED", "../shared")))
    refused, found = keep_accepted(tmp_path)
    assert refused == []
    assert found == []


def test_each_third_turn_is_light(tmp_path: Path) -> None:
    for name in ("Add-0", "Add-1", "Add-2", "Sub-0"):
        (tmp_path / f"{name}.pb").write_bytes(name.encode())
    given = GivenBases(tmp_path)
    assert [given.is_light(seed) for seed in range(12)] == [True, True, *([False] * 4)] * 2
    light = {given.of(seed)[1] for seed in range(0, 18, 2) if given.is_light(seed)}
    assert light == {b"Add-0", b"Add-1", b"Add-2"}


def test_light_changes_leave_types_and_shapes() -> None:
    for data in bases.graphs():
        before = parse_graph_def(data)
        for seed in range(10):
            changed = light_values(data, random.Random(seed))
            assert play("calls", changed, seconds=60) == "value"
            after = parse_graph_def(changed)
            assert len(after.node) - len(before.node) in (0, 1)
            for one, other in zip(before.node, after.node, strict=False):
                assert (one.op, one.name, one.input) == (other.op, other.name, other.input)
                ours, theirs = (each.attr["value"].tensor for each in (one, other))
                assert (ours.dtype, ours.tensor_shape) == (theirs.dtype, theirs.tensor_shape)
    floats = {light_values(bases.graphs()[0], random.Random(seed)) for seed in range(10)}
    assert len(floats) > 3
    assert made("calls", 5, bases.graphs(), lightly=True) != made("calls", 5, bases.graphs())


def test_constants_without_elements_are_answered() -> None:
    """Beside a zero stand sizes that no memory holds: a list of that many rows took all of it."""
    graph = Graph()
    sizes = graph.constant(np.zeros((1,), np.int32), name="sizes")
    graph.ops.Fill(sizes, np.float32(1), name="y")
    definition = parse_graph_def(bytes(graph.to_graph_def().SerializeToString()))
    tensor = next(node for node in definition.node if node.name == "sizes").attr["value"].tensor
    del tensor.tensor_shape.dim[:]
    tensor.ClearField("tensor_content")
    tensor.ClearField("int_val")
    for size in (2**40, 0):
        tensor.tensor_shape.dim.add().size = size
    assert play("graphs", definition.SerializeToString()) in (
        "ConstructionValueError",
        "InvalidArgumentError",
    )
    concrete = ConcreteInputs(
        next(n for n in graph if n.name == "y"), [np.empty((2**40, 0), np.int32), np.float32(1)], 0
    )
    for wrong in (0, 1):
        with pytest.raises(ValueError, match="a vector of at most 254"):
            concrete.input_as_shape(wrong)


def test_a_finding_is_made_smaller() -> None:
    data = bases.graphs()[0]

    def both(candidate: bytes) -> bool:
        ops = {node.op for node in parse_graph_def(candidate).node}
        return {"MatMul", "Softmax"} <= ops

    small = parse_graph_def(minimised("graphs", data, both))
    assert sorted(node.op for node in small.node) == ["MatMul", "Softmax"]
    found = minimised("records", b"abcdefgh" * 20, lambda each: b"d" in each and b"g" in each)
    assert found in (b"dg", b"gd")
