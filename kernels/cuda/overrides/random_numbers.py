"""Random numbers of nodes: `kernels/cuda/random_numbers.py`, by the node's generator, a seed, or a key.

The numbers are those of the CPU's kernels. What a seed or a counter may be is theirs to say, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, int32, int64, uint32, uint64
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.cuda import random_numbers
from flowengine.kernels.cuda.serving import FLOATS, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher
from flowengine.kernels.random import keyed, stateful, stateless
from flowengine.kernels.random.seeds import key_and_counter

#: {op: its distribution}.
_BY_NODE: Final = {
    "RandomUniform": "uniform",
    "RandomStandardNormal": "normal",
    "TruncatedNormal": "truncated_normal",
}
_BY_SEED: Final = {
    "StatelessRandomUniform": "uniform",
    "StatelessRandomNormal": "normal",
    "StatelessTruncatedNormal": "truncated_normal",
}
_BY_KEY: Final = {f"{op}V2": distribution for op, distribution in _BY_SEED.items()}
_OF_FLOATS: Final = {"dtype": FLOATS}
_SIGNED: Final = (int32, int64)
_INTEGERS: Final = (*_SIGNED, uint32, uint64)


def _floats(launcher: SessionLauncher, distribution: str) -> Callable[..., Array]:
    """Return a function to be called as the distribution's function of `philox`."""

    def draw(xp: Any, key: int, start: int, count: int, dtype: DType) -> Array:
        return random_numbers.draw(launcher, distribution, key, start, count, dtype)

    return draw


def _integers(launcher: SessionLauncher) -> Callable[..., Array]:
    """Return a function to be called as `philox.uniform_integers`, and as `philox.full_integers`."""

    def draw(xp: Any, key: int, start: int, count: int, *limits_and_type: Any) -> Array:
        *limits, dtype = limits_and_type
        low, high = limits or (0, 0)
        return random_numbers.draw_integers(launcher, key, start, count, low, high, dtype)

    return draw


@serves(*_BY_NODE, family="random", types=_OF_FLOATS)
def node_floats_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _floats(launcher, _BY_NODE[node.op]), node.attrs["dtype"]

    def compute(shape: Array, *, ctx: KernelContext) -> Any:
        return stateful.drawn_by_node(launcher.xp, draw, shape, node, dtype, ctx)

    return compute


@serves("RandomUniformInt", family="random", types={"Tout": _SIGNED})
def node_integers_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _integers(launcher), node.attrs["Tout"]

    def compute(shape: Array, minval: Any, maxval: Any, *, ctx: KernelContext) -> Any:
        return stateful.integers_by_node(launcher.xp, draw, shape, minval, maxval, dtype, node, ctx)

    return compute


@serves(*_BY_SEED, family="random", types=_OF_FLOATS)
def seed_floats_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _floats(launcher, _BY_SEED[node.op]), node.attrs["dtype"]
    return lambda shape, seed: stateless.drawn_by_seed(launcher.xp, draw, shape, seed, dtype)


@serves("StatelessRandomUniformInt", family="random", types={"dtype": _SIGNED})
def seed_integers_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _integers(launcher), node.attrs["dtype"]

    def compute(shape: Array, seed: Array, minval: Any, maxval: Any) -> Any:
        return stateless.integers_by_seed(launcher.xp, draw, shape, seed, minval, maxval, dtype)

    return compute


@serves("StatelessRandomUniformFullInt", family="random", types={"dtype": _INTEGERS})
def seed_bits_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _integers(launcher), node.attrs["dtype"]
    return lambda shape, seed: keyed.drawn_from(launcher.xp, draw, shape, key_and_counter(seed), dtype)


@serves(*_BY_KEY, family="random", types=_OF_FLOATS)
def key_floats_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _floats(launcher, _BY_KEY[node.op]), node.attrs["dtype"]

    def compute(shape: Array, key: Array, counter: Array, alg: Any) -> Any:
        return keyed.drawn_from(launcher.xp, draw, shape, keyed.start_of(key, counter, alg), dtype)

    return compute


@serves("StatelessRandomUniformFullIntV2", family="random", types={"dtype": _INTEGERS})
def key_bits_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _integers(launcher), node.attrs["dtype"]

    def compute(shape: Array, key: Array, counter: Array, alg: Any) -> Any:
        return keyed.drawn_from(launcher.xp, draw, shape, keyed.start_of(key, counter, alg), dtype)

    return compute


@serves("StatelessRandomUniformIntV2", family="random", types={"dtype": _SIGNED})
def key_integers_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    draw, dtype = _integers(launcher), node.attrs["dtype"]

    def compute(shape: Array, key: Array, counter: Array, alg: Any, minval: Any, maxval: Any) -> Any:
        start = keyed.start_of(key, counter, alg)
        return keyed.integers_between(launcher.xp, shape, start, minval, maxval, dtype, draw)

    return compute


__all__ = [
    "key_bits_kernel",
    "key_floats_kernel",
    "key_integers_kernel",
    "node_floats_kernel",
    "node_integers_kernel",
    "seed_bits_kernel",
    "seed_floats_kernel",
    "seed_integers_kernel",
]
