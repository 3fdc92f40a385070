"""Damaged GraphDefs: each is read or refused, planned or refused, run or refused; never anything else.

The damage is done in another process under a limit on memory, since what must not happen is a crash or an
allocation that some damaged number asks for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import collections, glob, json, random, resource, sys, time, traceback
import numpy as np, trio
import flowengine as fe
from tests.tools.recorded import find_cases, open_case

count, seed, folder, budget = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
cases = [open_case(address) for address in find_cases(folder)]
cases = [case for case in cases if len(case.graph) < 6000]
rng = random.Random(seed)

def damage(data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        kind = rng.randrange(8)
        at = rng.randrange(len(data)) if data else 0
        if not data:
            return b""
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[at : at + rng.choice((1, 2, 8, 100))]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 16))))
        elif kind == 5:
            other = rng.randrange(len(data))
            data[at : at + 20] = data[other : other + 20]
        elif kind == 6:  # a large number where a small one was
            data[at : at + 1] = bytes([0xFF] * rng.choice((3, 8)) + [0x7F])
        else:
            data[at:at] = data[rng.randrange(len(data)) :][:200]
    return bytes(data)

NUMBERS = (0, 1, -1, 2, 7, 10**6, 2**31 - 1, -(2**31), 2**40, 2**62)

def mangle(graph_def):
    nodes = graph_def.node
    node = rng.choice(nodes)
    kind = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, *[8] * 12))
    if kind == 0:
        node.op = rng.choice(nodes).op
    elif kind == 1 and node.attr:
        del node.attr[rng.choice(sorted(node.attr))]
    elif kind == 2 and node.input:
        slot = rng.choice(("", ":0", ":1", ":9"))
        node.input[rng.randrange(len(node.input))] = rng.choice(nodes).name + slot
    elif kind == 3:
        node.input.append(rng.choice(("", "^")) + rng.choice(nodes).name)
    elif kind == 4 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 5:
        del nodes[rng.randrange(len(nodes))]
    elif kind == 6:
        node.name = rng.choice((rng.choice(nodes).name, "", "a b", "x" * 300))
    elif kind == 7 and node.attr:
        other = rng.choice(nodes)
        if other.attr:
            node.attr[rng.choice(sorted(node.attr))].CopyFrom(other.attr[rng.choice(sorted(other.attr))])
    elif node.attr:
        for value in rng.sample([node.attr[name] for name in sorted(node.attr)], 1):
            which = value.WhichOneof("value")
            if which == "i":
                value.i = rng.choice(NUMBERS)
            elif which == "type":
                value.type = rng.choice((0, 1, 3, 7, 9, 10, 19, 20, 99, 101))
            elif which == "tensor":
                if value.tensor.tensor_shape.dim:
                    rng.choice(value.tensor.tensor_shape.dim).size = rng.choice(NUMBERS)
                if value.tensor.tensor_content:
                    content = bytearray(value.tensor.tensor_content)
                    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
                    value.tensor.tensor_content = bytes(content)
                if value.tensor.int_val:
                    value.tensor.int_val[0] = rng.choice([n for n in NUMBERS if abs(n) < 2**31])
            elif which == "s":
                value.s = rng.choice((b"", b"VALID", b"NCHW", b"x", b"\\xff"))
            elif which == "shape" and value.shape.dim:
                rng.choice(value.shape.dim).size = rng.choice(NUMBERS)

def damage_parts(case):
    graph_def = fe.Graph.from_graph_def(case.graph).to_graph_def()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if graph_def.node:
            mangle(graph_def)
    return graph_def.SerializeToString()

# What the interpreter, NumPy and the graphs take, and little more.
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))

outcomes = collections.Counter()
wrong = []

async def run(graph, recorded):
    async with fe.Session(graph) as session:
        await session.run(
            list(recorded.fetches), recorded.feeds, targets=list(recorded.targets),
            options=fe.RunOptions(timeout_seconds=0.3),
        )

def try_one(number):
    case = rng.choice(cases)
    data = damage(case.graph) if rng.random() < 0.3 else damage_parts(case)
    stage = "read"
    try:
        graph = fe.Graph.from_graph_def(data)
        stage = "written"
        graph.to_graph_def()
        stage = "run"
        trio.run(run, graph, rng.choice(case.runs))
        outcomes["ran"] += 1
    except fe.errors.InternalError:
        raise
    except fe.errors.OpError:
        outcomes["refused when " + stage] += 1

started = time.monotonic()
for number in range(count):
    if time.monotonic() - started > budget:
        break
    try:
        try_one(number)
        outcomes["tried"] += 1
    except BaseException as error:
        wrong.append((number, "".join(traceback.format_exception(error))[-2500:]))
        if len(wrong) > 4:
            break
print(json.dumps({"outcomes": outcomes, "wrong": wrong}))
"""


def _damage(root: Path, count: int, seed: int, seconds: float) -> dict[str, int]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            str(count),
            str(seed),
            str(root / "tests/conformance/recorded"),
            str(seconds),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=2 * seconds + 60,
        check=False,
    )
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-3000:]}"
    seen = json.loads(done.stdout)
    assert not seen["wrong"], "\n\n".join(f"graph {n}: {trace}" for n, trace in seen["wrong"])
    outcomes: dict[str, int] = seen["outcomes"]
    return outcomes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of the process")
@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_damaged_graphs_are_read_or_refused(root: Path, count: int) -> None:
    outcomes = _damage(root, count, seed=0, seconds=400)
    assert outcomes["tried"] == count
    for outcome in ("ran", "refused when read", "refused when run"):
        assert outcomes[outcome] > count // 30, outcomes
