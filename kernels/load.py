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
    "control.control_flow",
    "numpy.fused",
    "numpy.sequences",
    "training.descents",
    "control.sendrecv",
    "state.variables",
    "state.resource_variables",
    "state.scatter",
    "queues.queues",
    "state.tensor_array",
    "state.stack",
    "state.tables",
    "state.table_files",
    "queues.accumulators",
    "queues.staging",
    "queues.barriers",
    "state.mutexes",
    "state.session_tensors",
    "queues.batching",
    "strings.hashing",
    "strings.formatting",
    "strings.elements",
    "strings.splitting",
    "strings.regex",
    "io.decoding",
    "io.examples",
    "image.coding",
    "array.constants",
    "array.identity",
    "io.printing",
    "array.shapes",
    "array.transpose",
    "array.joining",
    "array.slicing",
    "array.sliced_assign",
    "array.padding",
    "array.gather",
    "array.gather_tree",
    "array.scatter_values",
    "array.one_hot",
    "array.unique",
    "array.where",
    "array.reverse",
    "array.partition",
    "linalg.parts",
    "math.segments",
    "math.sparse_segments",
    "array.inplace",
    "array.search",
    "image.patches",
    "array.space_batch",
    "data.tensor_list",
    "data.tensor_list_joining",
    "math.unary",
    "math.binary",
    "math.division",
    "math.compare",
    "math.gradients",
    "math.special",
    "math.sequences",
    "math.cast",
    "math.reductions",
    "linalg.products",
    "nn.activations",
    "nn.softmax",
    "nn.convolution",
    "nn.pooling",
    "nn.pool_places",
    "nn.normalization",
    "nn.dilation",
    "training.apply",
    "training.gathered_updates",
    "random.stateful",
    "random.stateless",
    "random.gamma",
    "nn.fractional_pooling",
    "nn.recurrent",
    "nn.data_format",
    "nn.candidates",
    "nn.sorting",
    "image.resizing",
    "image.boxes",
    "image.suppression",
    "io.summaries",
    "io.checkpoint",
    "io.checkpoint_v1",
    "io.remapping",
    "signal.audio",
    "data.optional",
    "io.readers",
    "io.record_input",
    "io.files",
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
