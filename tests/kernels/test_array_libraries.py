"""A kernel for any device names NumPy for dtypes and constants only, and so do the helpers that it calls."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from flowengine.kernels.load import load_all

KERNELS: Final = Path(__file__).resolve().parents[2] / "kernels"
PACKAGE: Final = "flowengine.kernels"
#: Rooms of libraries: what lies there is theirs.
LIBRARIES: Final = ("numpy", "onednn", "cuda")
#: Families of host code by nature, and why.
HOST_FAMILIES: Final = {
    **dict.fromkeys(
        [f"control.{name}" for name in ("control_flow", "functional", "sendrecv")],
        "tokens and transfers, not elements",
    ),
    "data": "variants: values are Python objects",
    "io": "files and messages",
    "queues": "what waits is a Python object",
    **dict.fromkeys(
        ["state.resources", "state.table_files", "state.tables"],
        "resources hold their values in host memory",
    ),
    "state.scatter": "updates of rows in the order of their indices; devices have `device_scatter`",
    "strings": "bytes are Python objects",
    "array.ragged_variants": "variants are Python objects",
    "image.coding": "compressed images",
    "image.cropping": "one part of one image, drawn by chance until it is accepted",
    **dict.fromkeys(
        [f"sparse.{name}" for name in ("arithmetic", "crosses", "sets")],
        "how many entries come out is seen from their indices",
    ),
    "sparse.csr_matrices": "variants are Python objects",
    "sparse.serialized": "bytes, variants and what resources hold are Python objects",
}
#: How much of the numeric kernels' lines may be host code that is not so by nature.
HOST_SHARE_MAX: Final = 0.25
#: What `np` is asked for: dtypes aside, which are recognised.
CONSTANTS: Final = frozenset(
    ["dtype", "iinfo", "finfo", "inf", "nan", "pi", "e", "newaxis", "ndarray", "generic"]
)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _module_paths() -> dict[str, Path]:
    """{name below `kernels`: its file}."""
    return {
        ".".join(path.relative_to(KERNELS).with_suffix("").parts): path
        for path in sorted(KERNELS.glob("*/*.py"))
        if path.name != "__init__.py"
    }


def _is_by_nature(name: str) -> bool:
    return name.split(".")[0] in HOST_FAMILIES or name in HOST_FAMILIES


def _numeric() -> dict[str, Path]:
    return {
        name: path
        for name, path in _module_paths().items()
        if name.split(".")[0] not in LIBRARIES and not _is_by_nature(name)
    }


def _reason(path: Path) -> str | None:
    """The module's `HOST` line."""
    for node in _tree(path).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(t, ast.Name) and t.id == "HOST" for t in targets):
            value = node.value  # type: ignore[attr-defined]
            assert isinstance(value, ast.Constant), path
            return str(value.value)
    return None


class _Definition:
    """A function or class of a kernel module, by its module and name."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module, self.name = module, name
        assert module.__file__ is not None
        self.path = Path(module.__file__).resolve()

    def nodes(self) -> list[ast.stmt]:
        return [
            node
            for node in _tree(self.path).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == self.name
        ]

    def called(self) -> Iterator[tuple[str, str]]:
        """(module, name) of the definitions of kernel modules that it names."""
        for node in self.nodes():
            for part in ast.walk(node):
                value: Any = None
                if isinstance(part, ast.Name):
                    value = getattr(self.module, part.id, None)
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                    owner = getattr(self.module, part.value.id, None)
                    value = getattr(owner, part.attr, None) if inspect.ismodule(owner) else None
                value = inspect.unwrap(value) if callable(value) else None
                home = getattr(value, "__module__", None) or ""
                if home.startswith(PACKAGE) and hasattr(value, "__name__"):
                    yield home, value.__name__


def _any_device() -> set[tuple[str, str]]:
    """(module, name) of every kernel for any device."""
    found = set()
    for kernel in load_all():
        function = inspect.unwrap(kernel.function)
        if kernel.device is None and not isinstance(function, np.ufunc):
            found.add((function.__module__, function.__name__))
    return found


def _reached() -> list[_Definition]:
    """The kernels for any device and the helpers that they call, host code aside."""
    waiting, seen, result = sorted(_any_device()), set(), []
    while waiting:
        home, name = waiting.pop()
        below = home.removeprefix(PACKAGE + ".")
        if (home, name) in seen or "." not in below:
            continue
        seen.add((home, name))
        module = importlib.import_module(home)
        definition = _Definition(module, name)
        if below.split(".")[0] in LIBRARIES or _reason(definition.path) is not None:
            continue
        result.append(definition)
        waiting += definition.called()
    return result


def _annotations(tree: ast.AST) -> set[int]:
    """The nodes that stand in annotations, by identity."""
    found: set[int] = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            part = getattr(node, field, None)
            if part is not None:
                found |= {id(each) for each in ast.walk(part)}
    return found


def _misused(node: ast.AST) -> Iterator[str]:
    """Yield each use of `np` that is neither a dtype nor a constant, with its line."""
    annotations = _annotations(node)
    allowed: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "np":
            value = getattr(np, part.attr, None)
            is_dtype = isinstance(value, type) and issubclass(value, np.generic)
            # `np.generic` is no dtype: it tells scalars of NumPy from what others have.
            is_named = part.attr in CONSTANTS or (is_dtype and part.attr != "generic")
            if id(part) not in annotations and not is_named:
                yield f"np.{part.attr} in line {part.lineno}"
            allowed.add(id(part.value))
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == "np" and id(part) not in allowed | annotations:
            yield f"np itself in line {part.lineno}"


def test_numpy_is_named_for_dtypes_and_constants_only() -> None:
    """`np.errstate` is no exception: kernels run under one that the executor has set for a whole slice."""
    found = [
        f"{definition.path.relative_to(KERNELS)}: {definition.name} uses {what}"
        for definition in _reached()
        for node in definition.nodes()
        for what in _misused(node)
    ]
    assert found == [], "take the array module `xp`, or move it to kernels/numpy"


def test_every_kernel_reached_is_looked_at() -> None:
    names = {definition.name for definition in _reached()}
    assert {"add_rows", "check_indices", "Products", "WindowReductions", "convolve", "blocks"} <= names
    assert len(names) > 400


def test_kernels_of_a_cpu_alone_say_why() -> None:
    """A numeric family's kernel for a CPU is in a module with a HOST line, or names the device itself."""
    unsaid = []
    for name, path in _numeric().items():
        if _reason(path) is not None:
            continue
        unsaid += [f"{name}.{kernel}" for kernel in _for_a_cpu_alone(path)]
    assert unsaid == []


def _for_a_cpu_alone(path: Path) -> list[str]:
    """Return the kernels of a module that take no array module and name no device."""
    return [
        node.name
        for node in _tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not (node.args.args and node.args.args[0].arg == "xp")
        for decorator in node.decorator_list
        if ast.unparse(decorator).startswith(("kernel(", "float_kernel("))
        and "device=" not in ast.unparse(decorator)
    ]


#: {module with kernels for any device: the kernels for a CPU alone that its reason excuses}
EXCUSED_BESIDE: Final = {
    "array.ragged": "ragged_tensor_to_tensor",
    "control.control_flow": "switch merge forward control_trigger ref_select",
    "image.boxes": "draw_bounding_boxes draw_bounding_boxes_v2",
    "image.suppression": """
        non_max_suppression_v5 non_max_suppression_with_overlaps combined_non_max_suppression
    """,
    "nn.ctc": "",  # its decoders name the device themselves
    "nn.sorting": "isotonic_regression",
    "random.stateless": "",  # SobolSample names the device itself
    "sparse.products": """
        sparse_matrix_mat_mul sparse_matrix_mul sparse_matrix_add sparse_matrix_sparse_mat_mul
        sparse_matrix_ordering_amd sparse_matrix_sparse_cholesky
    """,
    "sparse.sets": """
        set_size dense_to_dense_set_operation dense_to_sparse_set_operation sparse_to_sparse_set_operation
        edit_distance
    """,
    "state.resources": """
        mutex_v2 mutex_lock consume_mutex_lock mutex_acquire mutex_release
        get_session_handle get_session_handle_v2 get_session_tensor delete_session_tensor
    """,
}


def test_a_reason_excuses_no_more_kernels_than_it_was_given_for() -> None:
    """A new kernel for a CPU alone must not hide behind the reason of a module of any-device kernels."""
    paths = _module_paths()
    modules = {home.removeprefix(PACKAGE + ".") for home, _ in _any_device()}
    mixed = {
        name: _for_a_cpu_alone(paths[name])
        for name in modules
        if name in paths
        and name.split(".")[0] not in LIBRARIES
        and (_reason(paths[name]) is not None or _is_by_nature(name))
    }
    assert mixed == {name: kernels.split() for name, kernels in EXCUSED_BESIDE.items()}


def test_families_of_host_code_are_there() -> None:
    assert [name for name in HOST_FAMILIES if "." in name and name not in _module_paths()] == []


def test_host_code_is_a_quarter_of_the_numeric_kernels_at_most() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in _numeric().items()}
    reasons = {name: _reason(path) for name, path in _numeric().items()}
    assert all(reason.strip() for reason in reasons.values() if reason is not None)
    host = sum(lines[name] for name, reason in reasons.items() if reason is not None)
    assert host <= HOST_SHARE_MAX * sum(lines.values()), f"{host} of {sum(lines.values())} lines"
