"""Which tests of kernels a provider has a part in: those that run once more with NumPy alone.

Where oneDNN is there it computes some nodes in NumPy's place, and only tests that meet one of these can end
otherwise without it. They have the mark `provided`, which `make test-numpy` selects: the records of the ops
that providers have kernels of, and what is marked by hand. A test of a kernel that computes with a provider's
and has no mark fails, so that none is left out; one that names its provider itself needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock

import pytest

from flowengine.kernels.index import PROVIDED
from flowengine.kernels.registry import Kernel

#: The ops that a provider has kernels of.
OPS: Final = frozenset(op for ops in PROVIDED.values() for op in ops.split())

#: Where every test with a provider's kernel is marked, but for those of one provider.
_FOLDERS: Final = ("tests/kernels/", "tests/oprecords/")
_OF_ONE: Final = ("tests/kernels/onednn/", "tests/kernels/cuda/")


def marks(op: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a test that computes this op."""
    return (pytest.mark.provided,) if op in OPS else ()


def is_watched(item: pytest.Item) -> bool:
    """Whether a test may not meet a provider's kernel: it has no mark, and says nothing of providers."""
    if not item.nodeid.startswith(_FOLDERS) or item.nodeid.startswith(_OF_ONE):
        return False
    named = isinstance(item, pytest.Function) and "provider" in item.fixturenames
    return not named and item.get_closest_marker("provided") is None


@contextmanager
def watched() -> Iterator[None]:
    """Fail at the end where a node of what ran was given a provider's kernel on the CPU."""
    met: list[str] = []
    plain = Kernel.before

    def before(kernel: Kernel, behind: Kernel) -> Kernel:
        if kernel.device == "CPU":
            met.append(f"{kernel.op} by {kernel.provider}")
        return plain(kernel, behind)

    with mock.patch.object(Kernel, "before", before):
        yield
    if met:
        met = sorted(set(met))
        pytest.fail(f"computes {', '.join(met)}: mark it `provided`, and make test-numpy runs it, too")
