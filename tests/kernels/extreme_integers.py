"""Each integer that an op takes, as an attribute or as a tensor that steers, once as 2^31 and once as 2^40.

    python -m tests.kernels.extreme_integers FIRST LOG ONE_IN

Runs one in ONE_IN cases of each op, from number FIRST on, each within bounds on memory and on this process's
own time, which ends with SIGPROF where a case passes it. LOG gets the number of each case before it begins,
and each outcome that is no error of ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Final, TextIO

import numpy as np
import trio

import flowengine as fe
from flowengine.core.arrays import Array
from tests.oprecords.found import RECORDS
from tests.oprecords.record import Built, OpRecord, Sample

ABSURD: Final = (2**31, 2**40)
#: Bytes that a case may take beyond what the process has, and seconds of the process's own time.
MEMORY_BYTES: Final = 2**30
SECONDS: Final = 2.0
#: A tensor with more elements is data and does not steer.
_STEERING: Final = 8


@dataclasses.dataclass(frozen=True)
class Case:
    """A sample of a record in which one integer is absurd."""

    record: OpRecord
    sample: Sample
    types: dict[str, str]
    what: str
    is_input: bool

    def __str__(self) -> str:
        return f"{self.record.op}: {self.what}"


def cases(one_in: int = 1) -> Iterator[Case]:
    """Return one in `one_in` of each op's cases, always in the same order."""
    for record in RECORDS:
        yield from itertools.islice(_of_op(record), 0, None, one_in)


def _of_op(record: OpRecord) -> Iterator[Case]:
    types = next(record.combinations())
    for sample in record.samples[:2]:
        for name, attrs in _absurd_attributes(record, sample):
            yield Case(record, dataclasses.replace(sample, attrs=attrs), types, name, False)
        for name, inputs in _absurd_inputs(record, sample):
            yield Case(record, dataclasses.replace(sample, inputs=inputs), types, name, True)


def _absurd_attributes(record: OpRecord, sample: Sample) -> Iterator[tuple[str, dict[str, Any]]]:
    definition = record.definition
    counts = {arg.number_attr for arg in (*definition.inputs, *definition.outputs)}
    given = definition.with_defaults(dict(sample.attrs))
    for attr in definition.attrs:
        if attr.name in counts or attr.name not in given:
            continue
        for value in ABSURD:
            if attr.type == "int":
                yield f"{attr.name}={value}", {**sample.attrs, attr.name: value}
            elif attr.type == "list(int)":
                for index in range(len(given[attr.name])):
                    changed = [*given[attr.name]]
                    changed[index] = value
                    yield f"{attr.name}={changed}", {**sample.attrs, attr.name: changed}


def _absurd_inputs(record: OpRecord, sample: Sample) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Inputs that are always integers."""
    for index, arg in enumerate(record.definition.inputs):
        types = {arg.type.name} if arg.type is not None else _choices(record, arg.type_attr)
        value = sample.inputs[index]
        if not types <= {"int32", "int64"} or arg.is_list or np.size(value) > _STEERING:
            continue
        for absurd in ABSURD:
            for place in range(np.size(value)):
                if absurd >= 2**32 and types == {"int32"}:
                    continue
                changed: Array = np.array(value, np.int64)
                changed.reshape(-1)[place] = absurd if types == {"int64"} else min(absurd, 2**31 - 1)
                inputs = (*sample.inputs[:index], changed, *sample.inputs[index + 1 :])
                yield f"{arg.name}={changed.tolist()}", inputs


def _choices(record: OpRecord, name: str | None) -> set[str]:
    attr = None if name is None else record.definition.attr(name)
    return set() if attr is None else {dtype.name for dtype in attr.allowed or ()} or {"any"}


async def _run(case: Case, form: str) -> None:
    graph = fe.Graph()
    built = Built(graph, case.record, case.sample, case.types, form, "node")
    async with fe.Session(graph, config=fe.Config(worker_threads=False)) as session:
        await session.run([], targets=built.setup)
        await session.run(built.fetches, built.feeds)


def _try(case: Case, log: TextIO) -> None:
    # Constants are seen by shape functions and computed while planning; attributes are the same either way.
    for form in ("unknown", "constant") if case.is_input else ("unknown",):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            trio.run(_run, case, form)
        except Exception as error:
            # An InternalError is TensorFlow's answer to some values; ours has the fault behind it.
            cause = error.__cause__ if isinstance(error, fe.errors.InternalError) else None
            if not isinstance(error, fe.errors.OpError) or not isinstance(cause or error, fe.errors.OpError):
                text = "; ".join(traceback.format_exc(limit=-3).splitlines())
                log.write(f"! {case} ({form}): {text}\n")


def main() -> None:
    first, path, one_in = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # The signal ends the process, also in the middle of a library's loop.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    with open(path, "a", buffering=1) as log, contextlib.suppress(BrokenPipeError):
        for number, case in enumerate(cases(one_in)):
            if number >= first:
                log.write(f"{number} {case}\n")
                _try(case, log)
        log.write("end\n")
    os._exit(0)


if __name__ == "__main__":
    main()
