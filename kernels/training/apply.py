"""The Apply ops: optimizers on variables, by reference or by resource handle, dense and sparse.

In host memory a dense op walks over large variables in blocks, so that a rule's intermediate values stay in
cache; on a device with memory of its own it is launched whole. A sparse one touches the rows that its indices
name and no others, a repeated row as often as it is named; its indices are in host memory. Half and bfloat16
variables are changed through float32.

The reference forms return the variable, the resource forms nothing. `use_locking` needs nothing here: a
variable is never written by two kernels at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.arrays import in_host_memory, is_numpy, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import REGISTRY, Kernel
from flowengine.kernels.training import optimizers
from flowengine.kernels.training.optimizers import Rule, apply_rule, wide
from flowengine.kernels.training.sparse_rows import HOST_INPUTS, apply_sparse

#: Elements changed at a time: with five arrays of float32 they stay in a core's second cache, and the
#: intermediate ones below the size from which the allocator asks the operating system for each anew.
BLOCK: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class DenseUpdate:
    """An op that changes a variable by a gradient of its shape.

    rule      what changes arrays; each function in it is exact, whatever the size and place of an array
    slots     names of the variable and of what is kept with it
    numbers   names of its other inputs, in order, but the gradient
    gradient  the place of the gradient among them
    attrs     names of the attributes that the rule gets
    """

    rule: Rule
    slots: tuple[str, ...]
    numbers: tuple[str, ...]
    gradient: int
    attrs: tuple[str, ...]

    def inputs(self, numbers: Sequence[Any], gradient: Any) -> list[Any]:
        """The op's inputs behind the variables."""
        values = list(numbers)
        values.insert(self.gradient, gradient)
        return values


def numbers_by_name(names: Sequence[str], values: Sequence[Any], dtype: Any) -> dict[str, Any]:
    """The scalar inputs by name, in the type of the computation; of a device's memory, they stay there."""
    result: dict[str, Any] = {}
    kind = dtype.type
    for name, value in zip(names, values, strict=True):
        if type(value) is kind:
            result[name] = value
            continue
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} is not a scalar: {shape_text(value)}")
        if not in_host_memory(value):
            result[name] = value if value.dtype == dtype or value.dtype.kind in "iu" else value.astype(dtype)
            continue
        scalar = value[()]
        if type(scalar) is kind:
            result[name] = scalar
            continue
        result[name] = scalar if scalar.dtype == dtype or scalar.dtype.kind in "iu" else dtype.type(scalar)
    return result


def _check_strengths(numbers: dict[str, Any]) -> None:
    """InvalidArgumentError for a strength that is none, now or when somebody looks at the checks."""

    def fails(name: str, is_right: Callable[[Any], Any], what: str) -> None:
        number = numbers[name]
        right = is_right(number)
        wrong = not right if in_host_memory(number) else ~right
        refuse(wrong, lambda: InvalidArgumentError(f"{name} {what}: {number}"))

    fails("lr", lambda number: number > 0, "is not a positive scalar")
    for name in ("l1", "l2", "l2_shrinkage"):
        if name in numbers:
            what = "regularization strength is not a non-negative scalar"
            fails(name, lambda number: number >= 0, what)
    if "lr_power" in numbers:
        fails("lr_power", lambda number: number <= 0, "is not a non-positive scalar")


def apply_dense(
    xp: Any, rule: Rule, names: Sequence[str], variables: Sequence[Any], grad: Any, keywords: dict[str, Any]
) -> None:
    """Change variable and slots by a gradient of the same shape; InvalidArgumentError for another."""
    grad = to_array(grad)
    arrays = [v.mutable() for v in variables]
    shape = grad.shape
    for array in arrays:
        if array.shape != shape:
            raise _differing(names, arrays, grad)
    if grad.size <= BLOCK or not is_numpy(xp):
        apply_rule(xp, rule, arrays, grad, keywords)
        return
    flat = [a.reshape(-1) for a in arrays]
    gradient = grad.reshape(-1)
    for start in range(0, gradient.size, BLOCK):
        part = slice(start, start + BLOCK)
        apply_rule(xp, rule, [a[part] for a in flat], gradient[part], keywords)


def _differing(names: Sequence[str], arrays: Sequence[Any], grad: Any) -> InvalidArgumentError:
    """The error that names the first array of another shape than the variable's."""
    named = (*zip(names, arrays, strict=True), ("grad", grad))
    name, array = next(found for found in named if found[1].shape != arrays[0].shape)
    return InvalidArgumentError(
        f"var and {name} do not have the same shape{shape_text(arrays[0])} {shape_text(array)}"
    )


def _register(
    op: str, function: Callable[..., Any], attr_names: tuple[str, ...], host: frozenset[str]
) -> None:
    REGISTRY.register(
        Kernel(
            op=op,
            function=function,
            device=None,
            provider="numpy",
            types=None,
            supports=None,
            host=host,
            fresh=False,
            heavy=None,
            inline=None,
            nowait=None,
            takes_xp=True,
            takes_context=False,
            is_async=False,
            attr_names=attr_names,
        )
    )


def _kernel(
    rule: Rule, slots: tuple[str, ...], inputs: tuple[str, ...], returns_variable: bool
) -> Callable[..., Any]:
    """The kernel of one op: variables first, then `inputs` in the order of its OpDef."""
    count = len(slots)
    numbers = tuple(n for n in inputs if n not in ("grad", "delta", "indices"))
    places = tuple(inputs.index(n) for n in numbers)
    gradient = inputs.index("delta" if "delta" in inputs else "grad")
    rows = inputs.index("indices") if "indices" in inputs else None
    checked = "lr_power" in inputs or rule is optimizers.proximal_adagrad

    def apply(xp: Any, *arguments: Any, **attrs: Any) -> Any:
        variables, values = arguments[:count], arguments[count:]
        dtype = wide(variables[0].dtype.as_numpy_dtype)
        keywords = numbers_by_name(numbers, [values[p] for p in places], dtype)
        if checked:
            _check_strengths(keywords)
        keywords.update(attrs)
        if rows is None:
            apply_dense(xp, rule, slots, variables, values[gradient], keywords)
        else:
            apply_sparse(xp, rule, slots, variables, values[gradient], values[rows], keywords)
        return variables[0] if returns_variable else None

    return apply


#: (optimizer, rule, variable and slots, inputs of the dense op, of the sparse op, attributes).
#: An empty list of inputs means that there is no such op.
_OPTIMIZERS: Final = (
    ("GradientDescent", optimizers.gradient_descent, "var", "alpha delta", "", ""),
    (
        "ProximalGradientDescent",
        optimizers.proximal_gradient_descent,
        "var",
        "alpha l1 l2 delta",
        "alpha l1 l2 grad indices",
        "",
    ),
    (
        "Momentum",
        optimizers.momentum,
        "var accum",
        "lr grad momentum",
        "lr grad indices momentum",
        "use_nesterov",
    ),
    (
        "KerasMomentum",
        optimizers.keras_momentum,
        "var accum",
        "lr grad momentum",
        "lr grad indices momentum",
        "use_nesterov",
    ),
    ("Adagrad", optimizers.adagrad, "var accum", "lr grad", "lr grad indices", "update_slots"),
    (
        "AdagradV2",
        optimizers.adagrad_v2,
        "var accum",
        "lr epsilon grad",
        "lr epsilon grad indices",
        "update_slots",
    ),
    (
        "ProximalAdagrad",
        optimizers.proximal_adagrad,
        "var accum",
        "lr l1 l2 grad",
        "lr l1 l2 grad indices",
        "",
    ),
    (
        "AdagradDA",
        optimizers.adagrad_da,
        "var gradient_accumulator gradient_squared_accumulator",
        "grad lr l1 l2 global_step",
        "grad indices lr l1 l2 global_step",
        "",
    ),
    (
        "Adadelta",
        optimizers.adadelta,
        "var accum accum_update",
        "lr rho epsilon grad",
        "lr rho epsilon grad indices",
        "",
    ),
    (
        "Adam",
        optimizers.adam,
        "var m v",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        "",
        "use_nesterov",
    ),
    (
        "AdamWithAmsgrad",
        optimizers.adam_with_amsgrad,
        "var m v vhat",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        "",
        "",
    ),
    ("AdaMax", optimizers.ada_max, "var m v", "beta1_power lr beta1 beta2 epsilon grad", "", ""),
    (
        "RMSProp",
        optimizers.rms_prop,
        "var ms mom",
        "lr rho momentum epsilon grad",
        "lr rho momentum epsilon grad indices",
        "",
    ),
    (
        "CenteredRMSProp",
        optimizers.centered_rms_prop,
        "var mg ms mom",
        "lr rho momentum epsilon grad",
        "lr rho momentum epsilon grad indices",
        "",
    ),
    (
        "Ftrl",
        optimizers.ftrl,
        "var accum linear",
        "grad lr l1 l2 lr_power",
        "grad indices lr l1 l2 lr_power",
        "multiply_linear_by_lr",
    ),
    (
        "FtrlV2",
        optimizers.ftrl,
        "var accum linear",
        "grad lr l1 l2 l2_shrinkage lr_power",
        "grad indices lr l1 l2 l2_shrinkage lr_power",
        "multiply_linear_by_lr",
    ),
    ("AddSign", optimizers.add_sign, "var m", "lr alpha sign_decay beta grad", "", ""),
    ("PowerSign", optimizers.power_sign, "var m", "lr logbase sign_decay beta grad", "", ""),
)

#: Those whose functions are all exact: no power, exponential or logarithm.
_EXACT: Final = frozenset(
    {
        *("GradientDescent", "Momentum", "Adagrad", "AdagradV2", "Adadelta", "Adam", "AdaMax"),
        *("RMSProp", "CenteredRMSProp", "KerasMomentum", "AdamWithAmsgrad"),
    }
)

#: Optimizers that have no form by reference.
_RESOURCE_ONLY: Final = frozenset({"KerasMomentum", "AdamWithAmsgrad"})


def _prefixes(name: str) -> tuple[str, ...]:
    """The forms of an optimizer's ops: by resource handle, and by reference where there is one."""
    return ("Resource",) if name in _RESOURCE_ONLY else ("Resource", "")


@functools.cache
def dense_updates() -> dict[str, DenseUpdate]:
    """{op: what it does}, of the dense ops whose rules are exact."""
    found: dict[str, DenseUpdate] = {}
    for name, rule, slots, dense, _, attrs in _OPTIMIZERS:
        if name in _EXACT:
            inputs = dense.split()
            gradient = inputs.index("delta" if "delta" in inputs else "grad")
            del inputs[gradient]
            update = DenseUpdate(rule, tuple(slots.split()), tuple(inputs), gradient, tuple(attrs.split()))
            found |= {f"{prefix}Apply{name}": update for prefix in _prefixes(name)}
    return found


for _name, _rule, _slots, _dense, _sparse, _attrs in _OPTIMIZERS:
    for _form, _inputs in (("Apply", _dense), ("SparseApply", _sparse)):
        for _prefix in _prefixes(_name) if _inputs else ():
            _register(
                f"{_prefix}{_form}{_name}",
                _kernel(_rule, tuple(_slots.split()), tuple(_inputs.split()), not _prefix),
                tuple(_attrs.split()),
                HOST_INPUTS if "indices" in _inputs.split() else frozenset(),
            )
