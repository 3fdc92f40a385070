"""The types that TensorFlow's kernels for the CPU take, beside those that ours take: what is missing here.

    python -m tests.conformance.types_beside_tensorflow --python PYTHON-WITH-TENSORFLOW

`--python` may stand several times. Looked at is what kernels say when they are registered, of every op that
has a kernel here: each combination of the types that one of theirs takes must be taken by one of ours. What a
kernel refuses when it runs is not seen. The exit status is 1 where a combination is missing and `WITHOUT` has
no reason for it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.opdef import OpDef
from flowengine.kernels.registry import Kernel
from flowengine.ops.load import registry
from tests.oprecords.record import kernels

LISTER: Final = Path(__file__).with_name("tensorflow_types.py")

#: Of one kernel: {type attribute: names of the types that it takes}.
Taken: TypeAlias = Mapping[str, Sequence[str]]

_NO_ACCUMULATOR: Final = (
    "qint16 quint16",
    "no accumulator of this type can be made, there or here: every call fails in TensorFlow",
)
#: {op: (types, why no kernel here takes them)}
WITHOUT: Final[Mapping[str, tuple[str, str]]] = {
    "AsString": ("variant", "the text is words for debugging that TensorFlow's C++ objects have"),
    **dict.fromkeys(
        (
            *("AccumulatorApplyGradient", "AccumulatorTakeGradient"),
            *("ResourceAccumulatorApplyGradient", "ResourceAccumulatorTakeGradient"),
            *("SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient"),
        ),
        _NO_ACCUMULATOR,
    ),
}


def of_tensorflow(python: str) -> dict[str, list[Taken]]:
    """Return the types TensorFlow, under a Python, registers for the CPU; SystemExit if it does not start."""
    *settings, program = shlex.split(python)
    done = subprocess.run(
        ["env", *settings, program, str(LISTER)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"TensorFlow does not start:\n{done.stderr[-2000:]}")
    found: dict[str, list[Taken]] = json.loads(done.stdout.splitlines()[-1])
    return found


def combinations(taken: Taken) -> Iterator[dict[str, str]]:
    """Every choice of a type for each attribute."""
    for chosen in itertools.product(*taken.values()):
        yield dict(zip(taken, chosen, strict=True))


def is_taken(definition: OpDef, ours: Sequence[Kernel], types: Mapping[str, str]) -> bool:
    """Whether the op allows these types and one of the kernels takes them."""
    try:
        known = {attr: as_dtype(name) for attr, name in types.items()}
    except InvalidArgumentError:
        return False  # no tensor here is of that type
    for attr in definition.attrs:
        chosen = known.get(attr.name)
        if chosen is not None and attr.allowed is not None and chosen not in attr.allowed:
            return False
    return any(_takes(kernel, known) for kernel in ours)


def _takes(kernel: Kernel, types: Mapping[str, DType]) -> bool:
    if kernel.device not in (None, "CPU"):
        return False
    named = kernel.types or {}
    return all(dtype in named[attr] for attr, dtype in types.items() if attr in named)


def missing(theirs: Mapping[str, Sequence[Taken]]) -> dict[str, list[dict[str, str]]]:
    """{op: the combinations of types that a kernel there takes and none here}, of the ops that are here."""
    found: dict[str, list[dict[str, str]]] = {}
    ours = kernels()
    for op in sorted(theirs.keys() & ours.keys()):
        definition = registry()[op]
        attributes = {attr.name for attr in definition.attrs}
        lacking: list[dict[str, str]] = []
        for taken in theirs[op]:
            known = {attr: names for attr, names in taken.items() if attr in attributes}
            lacking += [c for c in combinations(known) if c and not is_taken(definition, ours[op], c)]
        if lacking:
            found[op] = [dict(each) for each in dict.fromkeys(tuple(c.items()) for c in lacking)]
    return found


def told(lacking: Sequence[Mapping[str, str]]) -> str:
    """Combinations in few words: one attribute's types together where the others are the same."""
    words = {attr: dict.fromkeys(each[attr] for each in lacking) for attr in lacking[0]}
    if len(lacking) == _product(words) or len(words) == 1:
        return "; ".join(f"{attr}: {' '.join(names)}" for attr, names in words.items())
    return ", ".join(" ".join(f"{attr}={name}" for attr, name in each.items()) for each in lacking)


def _product(words: Mapping[str, Mapping[str, None]]) -> int:
    count = 1
    for names in words.values():
        count *= len(names)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", required=True, help="a Python that has TensorFlow")
    given = parser.parse_args(arguments)
    theirs: dict[str, list[Taken]] = {}
    for python in given.python:
        for op, kernels_there in of_tensorflow(python).items():
            theirs.setdefault(op, []).extend(kernels_there)
    wrong = 0
    compared = theirs.keys() & kernels().keys()
    for op, lacking in missing(theirs).items():
        types, why = WITHOUT.get(op, ("", ""))
        open_ones = [each for each in lacking if not set(each.values()) & set(types.split())]
        if open_ones:
            wrong += 1
            print(f"{op}: {told(open_ones)}")
        if len(open_ones) < len(lacking):
            print(f"{op}: not {types}: {why}")
    print(f"{len(compared) - wrong} of {len(compared)} ops take every type that they take there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
