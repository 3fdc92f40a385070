"""Measurements of launches, copies and products on the card."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.errors import FailedPreconditionError
from flowengine.kernels.cuda.cublas import WORKSPACE_BYTES, Cublas, CublasHandle, MatrixOperand, cublas
from flowengine.kernels.cuda.launching import each
from tests.gpu.tables import ResultTable, seconds

#: What is asked of the host for a kernel, in microseconds.
_LAUNCH_LIMIT = 3.0


def launches(launcher: Any, count: int) -> ResultTable:
    """Host time of a launch, small kernels in a row on one stream."""
    table = ResultTable("Launches", ("what", "us each", "asked"))
    x = launcher.moved_in(np.ones(32, np.float32))
    y = launcher.empty((32,), np.float32)
    launch = each("bias_plain_float32", 32, 32, 1)

    def enqueue() -> None:
        for _ in range(count):
            launcher.launch(launch, [x, x, y])

    host = seconds(enqueue, 5) / count * 1e6

    def whole() -> None:
        enqueue()
        launcher.context.synchronize(launcher.stream)

    both = seconds(whole, 5) / count * 1e6
    table.rows.append((f"enqueued by the host, {count} in a row", f"{host:.2f}", f"{_LAUNCH_LIMIT}"))
    table.rows.append(("until the card has done them", f"{both:.2f}", ""))
    if host > _LAUNCH_LIMIT:
        table.failures.append(f"a launch takes the host {host:.2f} us")
    return table


def transfers(launcher: Any, largest: int) -> ResultTable:
    """Copies between pinned memory and the card's, and from arrays through the ring."""
    table = ResultTable(
        "Copies", ("bytes", "pinned to card, GB/s", "card to pinned, GB/s", "array to card, GB/s")
    )
    context, stream = launcher.context, launcher.stream
    pinned = context.allocate_pinned(largest)
    size = min(1 << 20, largest)
    try:
        while size <= largest:
            target = launcher.empty((size,), np.uint8)
            array = np.zeros(size, np.uint8)

            def copied_in(target: Any = target, size: int = size) -> None:
                context.copy_in(stream, target.address, pinned, size)
                context.synchronize(stream)

            def copied_out(target: Any = target, size: int = size) -> None:
                context.copy_out(stream, pinned, target.address, size)
                context.synchronize(stream)

            def moved_in(array: Any = array) -> None:
                launcher.moved_in(array)
                context.synchronize(stream)

            rates = [size / seconds(work, 7) / 1e9 for work in (copied_in, copied_out, moved_in)]
            table.rows.append((f"{size:,}", *(f"{rate:.1f}" for rate in rates)))
            size *= 8
    finally:
        context.synchronize(stream)
        context.free_pinned(pinned)
    return table


def products(launcher: Any, size: int, library: Cublas | None = None) -> ResultTable:
    """cuBLAS through our binding: beside NumPy, and how fast."""
    table = ResultTable("Products of matrices", ("what", "TFLOP/s", "largest relative difference"))
    workspace = launcher.empty((WORKSPACE_BYTES,), np.uint8)
    source = np.random.default_rng(0)
    a, b = (source.normal(size=(size, size)).astype(np.float32) for _ in range(2))
    wanted = a.T.astype(np.float64) @ b.astype(np.float64)
    out = launcher.empty((size, size), np.float32)
    left = MatrixOperand(launcher.address(given := launcher.moved_in(a)), a.shape, is_transposed=True)
    right = MatrixOperand(launcher.address(other := launcher.moved_in(b)), b.shape)
    for name, tensor_float_32, tolerance in (("float32", False, 1e-5), ("TensorFloat-32", True, 1e-2)):
        handle = CublasHandle(
            library or cublas(),
            launcher.stream.handle,
            workspace.address,
            WORKSPACE_BYTES,
            tensor_float_32=tensor_float_32,
        )

        def work(handle: CublasHandle = handle) -> None:
            handle.multiply(left, right, out.address, "float32")
            launcher.context.synchronize(launcher.stream)

        taken = seconds(work, 7)
        off = float(np.abs(launcher.moved_out(out) - wanted).max() / np.abs(wanted).max())
        handle.close()
        table.rows.append((f"{size}^3, {name}", f"{2 * size**3 / taken / 1e12:.1f}", f"{off:.2g}"))
        if off > tolerance:
            table.failures.append(f"products in {name} are off by {off:.2g} of the largest")
    del given, other
    return table


def are_products_there() -> str:
    """Why products cannot be tried; empty if they can."""
    try:
        cublas()
    except FailedPreconditionError as error:
        return error.message
    return ""


__all__ = ["are_products_there", "launches", "products", "transfers"]
