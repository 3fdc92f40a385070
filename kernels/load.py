"""Finds the kernels: all modules explicitly, or only those that the ops of a graph need.

Importing every module takes 0.15 s, a third of what `flowengine run` takes on a small graph. `registry()`
imports the modules of an op when the op is first asked for; `index.py` says which those are, and a test
says when it must be written again (`python -m flowengine.kernels.load`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Final

from flowengine.kernels import providers
from flowengine.kernels.index import OPS
from flowengine.kernels.registry import REGISTRY, Kernel, KernelRegistry

#: One line a module, in the order in which they register.
MODULES: Final = (
    "control_flow",
    "fused",
    "sequences",
    "descents",
    "sendrecv",
    "state",
    "resource_variables",
    "scatter",
    "queues",
    "tensor_array",
    "stack",
    "tables",
    "table_files",
    "accumulators",
    "staging",
    "barriers",
    "mutexes",
    "session_tensors",
    "batching",
    "string_hash",
    "string_format",
    "strings",
    "string_splitting",
    "regex",
    "decoding",
    "examples",
    "image_coding",
    "constants",
    "identity",
    "printing",
    "array_shapes",
    "transpose",
    "joining",
    "slicing",
    "sliced_assign",
    "padding",
    "gather",
    "gather_tree",
    "scatter_values",
    "one_hot",
    "unique",
    "where",
    "reverse",
    "partition",
    "matrix_parts",
    "segments",
    "sparse_segments",
    "inplace",
    "search",
    "patches",
    "space_batch",
    "tensor_list",
    "tensor_list_joining",
    "math_unary",
    "math_binary",
    "math_division",
    "math_compare",
    "math_gradients",
    "math_special",
    "math_sequences",
    "cast",
    "reductions",
    "matrix",
    "nn_activations",
    "nn_softmax",
    "nn_conv",
    "nn_pool",
    "pool_places",
    "nn_norm",
    "nn_dilation",
    "training",
    "gathered_updates",
    "random",
    "random_stateless",
    "random_gamma",
    "nn_fractional_pool",
    "nn_rnn",
    "data_format",
    "candidates",
    "sorting",
    "image",
    "image_boxes",
    "suppression",
    "summaries",
    "checkpoint",
    "checkpoint_v1",
    "remapping",
    "audio",
    "optional",
    "readers",
    "record_input",
    "files",
)

_loaded: Final[set[str]] = set()


def load(names: Sequence[str]) -> None:
    """Import these kernel modules, those that are not yet."""
    for name in names:
        if name not in _loaded:
            _loaded.add(name)
            importlib.import_module(f"flowengine.kernels.{name}")


def load_all() -> KernelRegistry:
    """The registry with every kernel of this package in it; imports on the first call only."""
    load(MODULES)
    return REGISTRY


class _KernelsOnDemand(KernelRegistry):
    """`REGISTRY`, whose modules are imported as their ops are asked for, behind a provider's kernels."""

    def __init__(self, provided: bool) -> None:
        super().__init__(parent=REGISTRY)
        self._provided = provided
        self._modules: dict[str, list[str]] = {}
        for module, ops in OPS.items():
            for op in ops.split():
                self._modules.setdefault(op, []).append(module)
        self._ready: set[str] = set()

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        if op not in self._ready:
            modules = self._modules.get(op)
            load(MODULES if modules is None else modules)
            self._ready.add(op)
        kernels = REGISTRY.candidates(op, device)
        return [*providers.candidates(op, device), *kernels] if self._provided else kernels

    def __iter__(self) -> Iterator[Kernel]:
        if self._provided:
            yield from providers.kernels()
        yield from load_all()


_on_demand: Final = _KernelsOnDemand(True)
_of_numpy: Final = _KernelsOnDemand(False)


def registry(provider: str = providers.AUTO) -> KernelRegistry:
    """The kernels of this package, imported as they are asked for.

    provider   one of `core.config.KERNEL_PROVIDERS`: NumPy alone, or faster libraries before it
    Raises FailedPreconditionError where the provider asked for by name is not there.
    """
    providers.check(provider)
    return _of_numpy if provider == providers.NUMPY else _on_demand


def index() -> dict[str, str]:
    """{module: the ops that it registers kernels for}, in a process that has imported none yet."""
    found: dict[str, str] = {}
    before: set[int] = set()
    for name in MODULES:
        load([name])
        kernels = {id(kernel): kernel.op for kernel in REGISTRY}
        ops = sorted({op for key, op in kernels.items() if key not in before})
        before = set(kernels)
        if ops:
            found[name] = " ".join(ops)
    return found


def index_source() -> str:
    """The text of `index.py`."""
    lines = [
        '"""Which kernel module serves which ops. Written by `python -m flowengine.kernels.load`."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "#: {module: names of its ops}",
        "OPS: Final[dict[str, str]] = {",
    ]
    for module, ops in index().items():
        lines.append(f'    "{module}": """')
        line = "       "
        for op in ops.split():
            if len(line) + len(op) + 1 > 108:
                lines.append(line)
                line = "       "
            line += " " + op
        lines += [line, '    """,']
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    from pathlib import Path

    from flowengine.kernels import load as this

    Path(__file__).with_name("index.py").write_text(this.index_source())
