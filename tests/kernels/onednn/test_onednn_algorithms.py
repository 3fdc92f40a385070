"""The table of algorithms: the cheapest that can be built computes a layer."""

from __future__ import annotations

import pytest

from flowengine.kernels.onednn.layers.algorithms import Candidate, ConvolutionCase, cheapest
from flowengine.kernels.onednn.layers.backward import FILTER_CANDIDATES, INPUT_CANDIDATES
from flowengine.kernels.onednn.layers.forward import FORWARD_CANDIDATES
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import LibraryError, search

ONE = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), False)
CASE = ConvolutionCase(ONE, (2, 9, 9, 16), (3, 3, 16, 24))


def candidate(name: str, cost: float | None, made: str | LibraryError | None) -> Candidate[str]:
    def build(case: ConvolutionCase) -> str | None:
        if isinstance(made, LibraryError):
            raise made
        return made

    return Candidate(name, lambda case: cost, build)


def test_the_cheapest_wins_and_of_equal_ones_the_first() -> None:
    table = [candidate("dear", 1.0, "dear"), candidate("a", 0.5, "a"), candidate("b", 0.5, "b")]
    assert cheapest(table, CASE) == "a"


def test_what_cannot_be_built_makes_room_for_the_next() -> None:
    table = [candidate("direct", 1.0, "direct"), candidate("none", 0.1, None), candidate("no", None, "no")]
    assert cheapest(table, CASE) == "direct"


def test_what_is_handed_over_is_no_other_candidates() -> None:
    table = [candidate("direct", 1.0, "direct"), candidate("tiny", 0.1, LibraryError("too small"))]
    with pytest.raises(LibraryError, match="too small"):
        cheapest(table, CASE)


def test_a_cost_that_needs_descriptors_which_cannot_be_made_is_none() -> None:
    def cost(case: ConvolutionCase) -> float:
        raise LibraryError("no descriptors")

    table = [Candidate("odd", cost, lambda case: "odd"), candidate("direct", 1.0, "direct")]
    assert cheapest(table, CASE) == "direct"
    with pytest.raises(LibraryError):
        cheapest(table[:1], CASE)


@pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")
@pytest.mark.parametrize("table", [FORWARD_CANDIDATES, INPUT_CANDIDATES, FILTER_CANDIDATES])
def test_the_librarys_own_algorithm_is_always_there(table: tuple[Candidate[object], ...]) -> None:
    costs = {each.name: each.cost(CASE) for each in table}
    assert costs["direct"] == 1
    assert all(cost is None or cost > 0 for cost in costs.values())
