"""Reads graphs with damaged bytes; run by `test_mutations` in a process of its own.

    python mutate.py COUNT SEED MEMORY_BYTES GRAPH...

Each mutant is read, all its constants are decoded and it is written again. Ends with status 0 and one
line of JSON if nothing but an InvalidArgumentError (or, for a constant that is large but legal,
ResourceExhaustedError) came of it.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.graphs.graph import Graph
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.proto import GraphDef
from flowengine.ops.load import registry

#: Numbers that have hurt others: signs, limits of widths, a length that no file has.
NASTY = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def flip(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    for _ in range(rng.choice((1, 1, 2, 5))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data))
    data[at : at + rng.choice((1, 2, 4))] = rng.randbytes(rng.choice((1, 2, 4)))


def put_number(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data))
    data[at : at + rng.choice((0, 1, 2))] = varint(rng.choice(NASTY))


def cut(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    del data[rng.randrange(len(data)) :]


def remove(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 40)]


def repeat(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.randrange(1, 200)] * rng.choice((1, 2, 20))


def splice(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    other = rng.choice(others)
    at = rng.randrange(len(other))
    data[rng.randrange(len(data)) :] = other[at:]


def rewire(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    """Well-formed bytes that say other things: parts of nodes exchanged, doubled, dropped."""
    try:
        graph, other = (GraphDef.FromString(bytes(b)) for b in (data, rng.choice(others)))
    except DecodeError:
        return
    if not graph.node or not other.node:
        return
    node, donor = rng.choice(graph.node), rng.choice(other.node)
    change = rng.randrange(9)
    if change == 0:
        node.op = donor.op
    elif change == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(
            (*donor.input, f"{donor.name}:1", "^" + donor.name)
        )
    elif change == 2:
        node.input.append(rng.choice((rng.choice(graph.node).name, "^" + rng.choice(graph.node).name)))
    elif change == 3 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif change == 4 and node.attr and donor.attr:
        node.attr[rng.choice(sorted(node.attr))].CopyFrom(donor.attr[rng.choice(sorted(donor.attr))])
    elif change == 5 and node.attr:
        del node.attr[rng.choice(sorted(node.attr))]
    elif change == 6:
        graph.node.add().CopyFrom(donor)
    elif change == 7:
        numbers = [a for a in node.attr.values() if a.WhichOneof("value") in ("i", "tensor", "shape", "list")]
        for value in numbers:
            value.i = rng.choice((-1, 0, 2, 2**31, 2**62))
    else:
        for value in node.attr.values():
            shape = value.tensor.tensor_shape if value.HasField("tensor") else value.shape
            shape.dim.add(size=rng.choice((-2, 0, 1, 3, 2**20, 2**40, 2**62)))
            break
    data[:] = graph.SerializeToString()


MUTATIONS: tuple[Callable[[random.Random, bytearray, list[bytes]], None], ...] = (
    flip,
    flip,
    flip,
    overwrite,
    put_number,
    put_number,
    cut,
    remove,
    repeat,
    splice,
    *[rewire] * 10,
)


def constants(values: Iterable[AttrValue]) -> Iterable[TensorAttr]:
    for value in values:
        if isinstance(value, TensorAttr):
            yield value
        elif isinstance(value, tuple):
            yield from constants(value)


def read(data: bytes) -> str:
    try:
        graph = Graph.from_graph_def(data)
    except InvalidArgumentError:
        return "refused"
    for node in graph:
        for constant in constants(node.attrs.values()):
            try:
                constant.value()
            except (InvalidArgumentError, ResourceExhaustedError):
                return "constant refused"
    again = Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    assert list(again.nodes) == list(graph.nodes)
    return "read"


def main(count: int, seed: int, memory_bytes: int, paths: list[str]) -> None:
    registry()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    graphs = [Path(path).read_bytes() for path in paths]
    outcomes: dict[str, int] = {}
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")
        data = bytearray(rng.choice(graphs))
        for _ in range(rng.choice((1, 1, 1, 3))):
            if data:
                rng.choice(MUTATIONS)(rng, data, graphs)
        try:
            outcome = read(bytes(data))
        except BaseException:
            print(f"mutant {number} of seed {seed}: {bytes(data).hex()}", file=sys.stderr)
            raise
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
