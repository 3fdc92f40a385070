"""Programs of the library that are made of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InternalError
from flowengine.kernels.onednn.library import Library, address, search
from flowengine.kernels.onednn.objects import Description, attributes, dense
from flowengine.kernels.onednn.programs.program import DST, SRC, SRC_1, PrimitiveProgram, aligned, padded
from tests.kernels.onednn.rig import numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


class _Told:
    """The library, which tells on how many threads what is executed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def alone(self) -> int:
        self.told.append("(")
        return self._library.alone()

    def together(self, threads: int) -> None:
        self.told.append(")")
        self._library.together(threads)

    def execute(self, *arguments: Any) -> Any:
        self.told.append("x")
        return self._library.execute(*arguments)


def _negation(library: Any, alone: bool, size: int = 1000) -> PrimitiveProgram:
    """y = -(x), over scratch memory: (x, -1, y)."""
    program = PrimitiveProgram(library, alone)
    form, number = dense(library, (size,)), dense(library, (1,))
    x, minus_one, y = program.outside(form), program.outside(number), program.outside(form)
    between = program.inside(form)
    attrs = attributes(library)
    multiply = Description(
        *(library, "binary", library.engine, 0x1FFF1),
        *(form.value, number.value, form.value, attrs.value),
    )
    program.step(multiply, {SRC: x, SRC_1: minus_one, DST: between})
    program.step(multiply, {SRC: between, SRC_1: minus_one, DST: between})
    program.step(multiply, {SRC: between, SRC_1: minus_one, DST: y}, alone=True)
    return program


def test_parts_of_what_is_given_move_with_it() -> None:
    library = search().library
    assert library is not None
    form = dense(library, (16,))
    program = PrimitiveProgram(library)
    given, made = program.outside(form), program.outside(form)
    # The second sixteen numbers become the first, then NumPy doubles the last four of them.
    program.reorder(program.within(given, form, 64), made, attributes(library))

    def double(arrays: Any) -> None:
        arrays[0] *= 2

    program.by_numpy(double, [program.within(program.within(made, form, 16), (4,), 32)])
    joined = PrimitiveProgram(library)
    joined.include(program, [~0, 64], 256)
    joined.reorder(
        joined.within(len(joined.memories) - 1, form, -48), joined.outside(form), attributes(library)
    )
    for seed in range(3):
        x, alone, y = numbers(seed, 32), np.empty(16, np.float32), np.empty(16, np.float32)
        program(address(x), address(alone))
        wanted = x[16:].copy()
        wanted[12:] *= 2
        np.testing.assert_array_equal(alone, wanted)
        joined(address(x), address(y))
        np.testing.assert_array_equal(y, wanted)


def test_programs_in_a_row_are_one_and_some_of_it_stays_on_one_thread() -> None:
    found = search().library
    assert found is not None
    told: Any = _Told(found)
    apart, together = _negation(told, True), _negation(told, False)
    joined = PrimitiveProgram(told)
    size = padded(4000)
    # (x, -1, y): the first gives y and a copy in scratch memory, of which the last makes y again.
    joined.include(together, [~0, ~1, 0], 2 * size)
    joined.include(apart, [0, ~1, size], 2 * size)
    joined.include(together, [size, ~1, ~2], 2 * size)
    assert joined.given == 3
    assert joined.scratch_bytes == 2 * size + max(apart.scratch_bytes, together.scratch_bytes)
    x, minus_one, y = numbers(0, 1000), -np.ones(1, np.float32), np.empty(1000, np.float32)
    for _ in range(3):
        told.told.clear()
        joined(*map(address, (x, minus_one, y)))
        np.testing.assert_array_equal(y, -x)
        assert "".join(told.told) == "xx(xxxx)xx(x)"
        x += 1
    told.told.clear()
    apart(*map(address, (x, minus_one, y)))
    assert "".join(told.told) == "(xxx)"


def test_a_program_that_fails_gives_the_threads_back() -> None:
    found = search().library
    assert found is not None
    told: Any = _Told(found)
    joined = PrimitiveProgram(told)
    joined.include(_negation(told, True), [~0, ~1, ~2], 0)
    told.execute = lambda *arguments: 1
    x, minus_one, y = numbers(0, 1000), -np.ones(1, np.float32), np.empty(1000, np.float32)
    with pytest.raises(InternalError, match="status 1"):
        joined(*map(address, (x, minus_one, y)))
    assert told.told == ["(", ")"]


def test_a_program_must_be_given_what_it_is_called_with() -> None:
    found = search().library
    assert found is not None
    with pytest.raises(InternalError, match="takes 3 addresses was given 2"):
        PrimitiveProgram(found).include(_negation(found, False), [~0, ~1], 0)


def test_one_address_may_be_that_of_several() -> None:
    """In place: the memory that is given for x is that of y."""
    found = search().library
    assert found is not None
    joined = PrimitiveProgram(found)
    joined.include(_negation(found, False), [~0, ~1, ~0], 0)
    assert joined.given == 2
    owner, where = aligned(4000)
    x = owner[where - address(owner) :][:4000].view(np.float32)
    for seed in range(3):
        x[:] = numbers(seed, 1000)
        joined(where, address(-np.ones(1, np.float32)))
        np.testing.assert_array_equal(x, -numbers(seed, 1000))
