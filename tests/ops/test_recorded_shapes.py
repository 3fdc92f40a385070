"""Over recorded graphs: what is inferred agrees with every value that was fetched, and contradicts none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import parse_tensor_name
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import OutputPort
from flowengine.ops.shape_inference import infer_shapes
from tests.effort import share
from tests.tools.recorded import RecordedCase, find_cases, open_case

#: Of the tensors fetched in the shared cases, the part whose shape is known in full without running.
LEAST_KNOWN = 0.7


def disagreements(case: RecordedCase) -> Iterator[tuple[bool, str]]:
    """(whether the shape was known in full, what is wrong or nothing) of every tensor fetched."""
    try:
        graph = Graph.from_graph_def(case.graph)
    except InvalidArgumentError:
        # Graphs that are recorded because they cannot be loaded.
        return
    inferred = infer_shapes(graph)
    runs = [run for run in case.runs if run.error_class is None]
    if len(runs) == len(case.runs):
        for name, why in inferred.faults.items():
            yield False, f"{case.id}: {graph[name].op} '{name}' ran, but: {why}"
    for run in runs:
        for fetch, expected in zip(run.fetches, run.expect, strict=True):
            if fetch in run.feeds or ":" not in fetch:
                continue
            shape = inferred.shape(OutputPort(*parse_tensor_name(fetch)))
            actual = TensorShape(expected.value.shape)
            fits = shape.is_compatible_with(actual)
            yield shape.is_fully_defined, "" if fits else f"{case.id}: {fetch} is {actual}, inferred {shape}"


@pytest.mark.conformance
def test_our_own_recorded_graphs(root: Path) -> None:
    cases = [open_case(address) for address in find_cases(root / "tests" / "conformance" / "recorded")]
    found = [each for case in cases for each in disagreements(case)]
    assert found
    assert [why for _, why in found if why] == []


@pytest.mark.conformance
@pytest.mark.slow
def test_shared_recorded_graphs(shared: Path, record_property: Callable[[str, object], None]) -> None:
    addresses = share(find_cases(shared / "conformance" / "open", shared / "zoo" / "open"), one_in=5)
    assert addresses
    found = [each for address in addresses for each in disagreements(open_case(address))]
    assert [why for _, why in found if why] == []
    known = sum(full for full, _ in found) / len(found)
    record_property("shapes_known", f"{known:.3f}")
    assert known >= LEAST_KNOWN
