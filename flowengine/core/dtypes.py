"""The table of element types: GraphDef number, TensorFlow name, NumPy dtype.

A `DType` is a value, one object per type, compared by identity. Every type has a *reference* twin
(`float32_ref`, number + 100) for the outputs of variables.

    >>> as_dtype("float32").as_numpy_dtype
    dtype('float32')
    >>> float32.ref.name, float32.ref.base is float32
    ('float32_ref', True)

Inside the engine quantised types are held as the plain integers of their width and strings as object
arrays of `bytes`; what crosses the session's door is converted there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module

_REF_OFFSET: Final = 100


class DType:
    """An element type of tensors, such as `fe.dtypes.float32`. Programs use these and make none.

    name, number   its name, and the number of its DataType in a GraphDef
    numpy_dtype    the NumPy type of its arrays, as `as_numpy_dtype`; object for strings, handles and variants
    kind           NumPy's letter for it: f, i, u, c, b or O; q for a quantized type
    ref            whether it is a reference to a variable of the type

    `min` and `max` raise InvalidArgumentError for a type that has no limits, such as a string.

    >>> fe.dtypes.float32.size, fe.dtypes.float32.is_floating, fe.dtypes.as_dtype("int64") is fe.dtypes.int64
    (4, True, True)
    """

    __slots__ = (
        "_counterpart",
        "as_numpy_dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_quantized",
        "is_ref",
        "name",
        "number",
    )

    def __init__(self, name: str, number: int, numpy_dtype: np.dtype[Any], kind: str, ref: bool) -> None:
        self.name = name
        self.number = number
        self.as_numpy_dtype: np.dtype[Any] = numpy_dtype
        self.is_ref = ref
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"
        self.is_quantized = kind == "q"
        self._counterpart: DType | None = None

    @property
    def base(self) -> DType:
        """The type without reference."""
        return self if not self.is_ref else self._other()

    @property
    def ref(self) -> DType:
        """The reference to this type."""
        return self if self.is_ref else self._other()

    def _other(self) -> DType:
        assert self._counterpart is not None
        return self._counterpart

    @property
    def size(self) -> int:
        """Bytes an element; 0 for strings, handles and variants, which have no fixed width."""
        return 0 if self.as_numpy_dtype.hasobject else self.as_numpy_dtype.itemsize

    @property
    def min(self) -> Any:
        """The smallest finite value, of this type."""
        return self._limits().min

    @property
    def max(self) -> Any:
        """The largest finite value, of this type."""
        return self._limits().max

    def _limits(self) -> Any:
        if self.is_floating or self.is_complex:
            finfo: Any = ml_dtypes.finfo
            return finfo(self.as_numpy_dtype)
        if self.is_integer or self.is_quantized:
            iinfo: Any = ml_dtypes.iinfo
            return iinfo(self.as_numpy_dtype)
        raise InvalidArgumentError(f"{self.name} has no smallest or largest value")

    def __repr__(self) -> str:
        return f"flowengine.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_by_name: dict[str, DType] = {}
_by_number: dict[int, DType] = {}


def _define(name: str, number: int, numpy_dtype: Any, kind: str) -> DType:
    dtype = np.dtype(numpy_dtype)
    base = DType(name, number, dtype, kind, ref=False)
    ref = DType(name + "_ref", number + _REF_OFFSET, dtype, kind, ref=True)
    base._counterpart, ref._counterpart = ref, base
    for each in (base, ref):
        _by_name[each.name] = each
        _by_number[each.number] = each
    return base


float32 = _define("float32", 1, np.float32, "f")
float64 = _define("float64", 2, np.float64, "f")
int32 = _define("int32", 3, np.int32, "i")
uint8 = _define("uint8", 4, np.uint8, "u")
int16 = _define("int16", 5, np.int16, "i")
int8 = _define("int8", 6, np.int8, "i")
string = _define("string", 7, object, "O")
complex64 = _define("complex64", 8, np.complex64, "c")
int64 = _define("int64", 9, np.int64, "i")
bool_ = _define("bool", 10, np.bool_, "b")
qint8 = _define("qint8", 11, np.int8, "q")
quint8 = _define("quint8", 12, np.uint8, "q")
qint32 = _define("qint32", 13, np.int32, "q")
bfloat16 = _define("bfloat16", 14, ml_dtypes.bfloat16, "f")
qint16 = _define("qint16", 15, np.int16, "q")
quint16 = _define("quint16", 16, np.uint16, "q")
uint16 = _define("uint16", 17, np.uint16, "u")
complex128 = _define("complex128", 18, np.complex128, "c")
float16 = _define("float16", 19, np.float16, "f")
resource = _define("resource", 20, object, "O")
variant = _define("variant", 21, object, "O")
uint32 = _define("uint32", 22, np.uint32, "u")
uint64 = _define("uint64", 23, np.uint64, "u")
float8_e5m2 = _define("float8_e5m2", 24, ml_dtypes.float8_e5m2, "f")
float8_e4m3fn = _define("float8_e4m3fn", 25, ml_dtypes.float8_e4m3fn, "f")
float8_e4m3fnuz = _define("float8_e4m3fnuz", 26, ml_dtypes.float8_e4m3fnuz, "f")
float8_e4m3b11fnuz = _define("float8_e4m3b11fnuz", 27, ml_dtypes.float8_e4m3b11fnuz, "f")
float8_e5m2fnuz = _define("float8_e5m2fnuz", 28, ml_dtypes.float8_e5m2fnuz, "f")
int4 = _define("int4", 29, ml_dtypes.int4, "i")
uint4 = _define("uint4", 30, ml_dtypes.uint4, "u")
int2 = _define("int2", 31, ml_dtypes.int2, "i")
uint2 = _define("uint2", 32, ml_dtypes.uint2, "u")
float4_e2m1fn = _define("float4_e2m1fn", 33, ml_dtypes.float4_e2m1fn, "f")

half = float16
double = float64

#: The names that op definitions and the text format use beside TensorFlow's Python names.
_ALIASES: Final = {"half": "float16", "float": "float32", "double": "float64", "bool_": "bool"}
for _alias, _name in _ALIASES.items():
    _by_name[_alias] = _by_name[_name]

#: By NumPy dtype; quantised types share a width with plain ones and are never guessed.
_by_numpy: Final[dict[Any, DType]] = {
    each.as_numpy_dtype: each
    for each in _by_number.values()
    if not each.is_ref and not each.is_quantized and not each.as_numpy_dtype.hasobject
}

#: Every base type, by GraphDef number.
ALL: Final = tuple(d for d in _by_number.values() if not d.is_ref)

#: Types of at most eight bits that tensors are kept and moved in, and cast from and to: nothing computes in
#: them. An element takes a byte, also of four and two bits.
STORAGE: Final = frozenset(
    {float8_e5m2, float8_e4m3fn, float8_e4m3fnuz, float8_e4m3b11fnuz, float8_e5m2fnuz}
    | {int4, uint4, int2, uint2, float4_e2m1fn}
)
#: The others.
COMPUTED: Final = tuple(d for d in ALL if d not in STORAGE)


def from_number(number: int) -> DType:
    """Return the type with this DataType number; InvalidArgumentError if there is none.

    >>> fe.dtypes.from_number(1)
    flowengine.float32
    """
    try:
        return _by_number[number]
    except KeyError:
        raise InvalidArgumentError(f"{number} is not the number of a data type") from None


def as_dtype(value: Any) -> DType:
    """Return the DType of a DType, a TensorFlow or NumPy name, a DataType number or a NumPy dtype.

    Raises InvalidArgumentError for anything that no tensor can hold.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        known = _by_name.get(value) or _by_name.get(value.removeprefix("DT_").lower())
        if known is not None:
            return known
    elif isinstance(value, int) and not isinstance(value, bool):
        return from_number(value)
    try:
        # NumPy takes None for float64.
        numpy_dtype = np.dtype(value) if value is not None else None
    except TypeError:
        numpy_dtype = None
    if numpy_dtype is None:
        raise InvalidArgumentError(f"{value!r} is not a data type: write a name such as 'float32'")
    known = _by_numpy.get(numpy_dtype)
    if known is not None:
        return known
    if numpy_dtype.kind in "OSU":
        return string
    if numpy_dtype.names and len(numpy_dtype.names) == 1 and numpy_dtype.names[0] in _by_name:
        return _by_name[numpy_dtype.names[0]]
    raise InvalidArgumentError(f"no tensor holds elements of NumPy dtype {numpy_dtype}")


#: The types themselves by name, and what makes one of a name, a number or a type of NumPy's.
__all__ = [
    "DType",
    "as_dtype",
    "from_number",
    *sorted(name for name, value in list(globals().items()) if isinstance(value, DType)),
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
