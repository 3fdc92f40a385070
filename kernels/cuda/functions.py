"""Which function of `sources/elementwise.cuh` computes an elementwise op, for which element types.

An expression is made of the function's name, the C names of types and arguments, and numbers: nothing that a
graph contains gets into it as text. What is not here has no expression, and its node stays by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InternalError, InvalidArgumentError, OpError
from flowengine.ir.graph import Node

#: {element type: its name in C}.
C_TYPES: Final[dict[DType, str]] = {
    dtypes.bool_: "bool",
    dtypes.int8: "signed char",
    dtypes.uint8: "unsigned char",
    dtypes.int16: "short",
    dtypes.uint16: "unsigned short",
    dtypes.int32: "int",
    dtypes.uint32: "u32",
    dtypes.int64: "i64",
    dtypes.uint64: "u64",
    dtypes.float16: "Half",
    dtypes.bfloat16: "BFloat",
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.complex64: "Complex<float>",
    dtypes.complex128: "Complex<double>",
}

#: Codes of refusals whose record has a value in the place of the step.
INDEX_OUTSIDE: Final = 4
LABEL_OUTSIDE: Final = 5
#: What a kernel writes into its error word: {code: the error}.
REFUSALS: Final[dict[int, OpError]] = {
    1: InvalidArgumentError("Integer division by zero"),
    2: InternalError("Integer division by zero"),
    3: InvalidArgumentError("Integers to negative integer powers are not allowed"),
    INDEX_OUTSIDE: InvalidArgumentError("An index is out of range"),
    LABEL_OUTSIDE: InvalidArgumentError("Received a label value which is outside the valid range"),
}


def refusal(record: Sequence[int]) -> OpError | None:
    """The error that an error record (code, step or value, place) tells of; None if nothing was refused."""
    code, value, place = record
    if not code:
        return None
    refusal_error = REFUSALS[code]
    where = f": {value} at place {place}" if code in (INDEX_OUTSIDE, LABEL_OUTSIDE) else f" (place {place})"
    return type(refusal_error)(refusal_error.message + where)


_INTEGERS: Final = {
    "Add": "add",
    "AddV2": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "sign",
    "Square": "square",
    "SquaredDifference": "squared_difference",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "ClipByValue": "clip",
    "Relu": "relu",
    "Relu6": "relu6",
    "ReluGrad": "relu_grad",
    "Relu6Grad": "relu6_grad",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Invert": "invert",
    "LeftShift": "left_shift",
    "RightShift": "right_shift",
    "BiasAdd": "add",
    "BiasAddV1": "add",
}
#: {op: (function, what it refuses)}.
_REFUSING: Final = {
    "Div": ("div", 1),
    "RealDiv": ("div", 1),
    "TruncateDiv": ("div", 2),
    "FloorDiv": ("floor_div", 1),
    "Mod": ("mod", 1),
    "TruncateMod": ("mod", 2),
    "FloorMod": ("floor_mod", 1),
    "Pow": ("pow", 3),
}
#: {op: its function of floats, behind `f_`}.
FLOAT_FUNCTIONS: Final = {
    **{op: op.lower() for op in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos")},
    **{op: op.lower() for op in ("Cosh", "Erf", "Erfc", "Exp", "Expm1", "Floor", "Log", "Log1p", "Neg")},
    **{op: op.lower() for op in ("Reciprocal", "Rint", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt")},
    **{op: op.lower() for op in ("Square", "Tan", "Tanh", "Add", "Sub", "Mul", "Div", "Mod", "Pow")},
    **{op: op.lower() for op in ("Atan2", "Maximum", "Minimum", "Xlogy", "Xlog1py", "Xdivy", "Relu")},
    **{op: op.lower() for op in ("Relu6", "Elu", "Selu", "Softplus", "Softsign")},
    "Inv": "reciprocal",
    "Round": "rint",
    "IsNan": "is_nan",
    "IsFinite": "is_finite",
    "IsInf": "is_inf",
    "AddV2": "add",
    "BiasAdd": "add",
    "BiasAddV1": "add",
    "RealDiv": "div",
    "TruncateDiv": "div",
    "FloorDiv": "floor_div",
    "TruncateMod": "mod",
    "FloorMod": "floor_mod",
    "SquaredDifference": "squared_difference",
    "MulNoNan": "mul_no_nan",
    "DivNoNan": "div_no_nan",
    "ClipByValue": "clip",
    "ApproximateEqual": "approximately",
    "ReluGrad": "relu_grad",
    "Relu6Grad": "relu6_grad",
    "EluGrad": "elu_grad",
    "SeluGrad": "selu_grad",
    "SoftplusGrad": "softplus_grad",
    "SoftsignGrad": "softsign_grad",
    "InvGrad": "reciprocal_grad",
    "ReciprocalGrad": "reciprocal_grad",
    "SqrtGrad": "sqrt_grad",
    "RsqrtGrad": "rsqrt_grad",
    "SigmoidGrad": "sigmoid_grad",
    "TanhGrad": "tanh_grad",
    "LeakyRelu": "leaky_relu",
    "LeakyReluGrad": "leaky_relu_grad",
}
#: No products: NumPy contracts them, where it can, so that their last bits depend on the processor.
_COMPLEX: Final = {
    **{op: op.lower() for op in ("Add", "Sub", "Neg", "Conj", "Real", "Imag", "Equal")},
    "AddV2": "add",
    "BiasAdd": "add",
    "NotEqual": "not_equal",
}
_TRUTH: Final = {"LogicalAnd": "b_and", "LogicalOr": "b_or", "LogicalNot": "b_not"}
_ORDER: Final = {
    "Less": "less",
    "LessEqual": "less_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "Equal": "equal",
    "NotEqual": "not_equal",
}
#: Attributes that are an argument behind the others.
_NUMBERS: Final = {"ApproximateEqual": "tolerance", "LeakyRelu": "alpha", "LeakyReluGrad": "alpha"}
#: Ops whose results differ in the last bits from one library to the next; all others are exact.
INEXACT: Final = frozenset(
    {
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1"),
        *("Log", "Log1p", "Sigmoid", "Sin", "Sinh", "Tan", "Tanh", "Pow", "Atan2", "Xlogy", "Xlog1py"),
        *("Elu", "Selu", "Softplus", "SoftplusGrad"),
    }
)
ELEMENTWISE: Final = frozenset(
    {
        *_INTEGERS,
        *_REFUSING,
        *FLOAT_FUNCTIONS,
        *_COMPLEX,
        *_TRUTH,
        *_ORDER,
        "AddN",
        "Cast",
        "Select",
        "SelectV2",
    }
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A call in C.

    name      of the function, with its type where that cannot be told from the arguments
    numbers   further arguments
    refusal   what it refuses, a code of `REFUSALS`; 0 for nothing
    folds     whether it takes two of many arguments at a time, from the left
    """

    name: str
    numbers: tuple[str, ...] = ()
    refusal: int = 0
    folds: bool = False

    def text(self, arguments: Sequence[str], step: int) -> str:
        """The call with these arguments, as step number `step` of a kernel."""
        if self.folds:
            result = arguments[0]
            for argument in arguments[1:]:
                result = f"{self.name}({result}, {argument})"
            return result
        more = ("error", str(self.refusal), str(step), "place") if self.refusal else ()
        return f"{self.name}({', '.join((*arguments, *self.numbers, *more))})"


def expression(node: Node) -> Expression | None:
    """Return the expression of an elementwise node; None if it has to be computed by itself."""
    op = node.op
    types = node.input_types()
    if op not in ELEMENTWISE or not all(t.base in C_TYPES for t in (*types, *node.output_types)):
        return None
    if op == "Cast":
        return _cast(types[0].base, node.output_types[0].base, bool(node.attrs.get("Truncate", False)))
    if op in ("Select", "SelectV2"):
        return Expression("select")
    if op in _TRUTH:
        return Expression(_TRUTH[op])
    kind = types[0].base
    if op in _ORDER and not kind.is_complex:
        return Expression(_ORDER[op])
    if op == "AddN":
        start = "i" if kind.is_integer else "f" if kind.is_floating else "c" if kind.is_complex else None
        return None if start is None else Expression(f"{start}_add", folds=True)
    if op in ("BiasAdd", "BiasAddV1") and node.attrs.get("data_format", b"NHWC") != b"NHWC":
        return None
    return _function(node, kind)


def _function(node: Node, kind: DType) -> Expression | None:
    op = node.op
    if kind.is_integer:
        if op in _REFUSING:
            name, refusal = _REFUSING[op]
            return Expression(f"i_{name}", refusal=refusal)
        return Expression(f"i_{_INTEGERS[op]}") if op in _INTEGERS else None
    if kind.is_complex:
        return Expression(f"c_{_COMPLEX[op]}") if op in _COMPLEX else None
    if not kind.is_floating or op not in FLOAT_FUNCTIONS:
        return None
    numbers = (_number(float(node.attrs[_NUMBERS[op]]), kind),) if op in _NUMBERS else ()
    return Expression(f"f_{FLOAT_FUNCTIONS[op]}", numbers)


def _number(value: float, kind: DType) -> str:
    """A float of the type that a function computes in, by its bits."""
    if kind is dtypes.float64:
        return f"float64_of(0x{int(np.float64(value).view(np.uint64)):016x}ull)"
    return f"float32_of(0x{int(np.float32(value).view(np.uint32)):08x}u)"


def _cast(source: DType, target: DType, truncate: bool) -> Expression | None:
    if source.is_complex or target.is_complex or (truncate and target.is_floating and target.size == 2):
        return None
    start = "float" if source.is_floating else "integer"
    end = "float" if target.is_floating else "integer"
    if target.is_bool:
        name = "truth_of"
    elif target.is_floating and target.size == 2:
        name = f"narrow_of_{start}"
    else:
        name = f"{end}_of_{start}"
    return Expression(f"{name}<{C_TYPES[target]}>")


__all__ = [
    "C_TYPES",
    "ELEMENTWISE",
    "FLOAT_FUNCTIONS",
    "INDEX_OUTSIDE",
    "INEXACT",
    "LABEL_OUTSIDE",
    "REFUSALS",
    "Expression",
    "expression",
    "refusal",
]
