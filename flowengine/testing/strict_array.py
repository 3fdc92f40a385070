"""One array as strict as CuPy's, and what may be mixed with it; see `strict_arrays`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.testing import cupy_names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: An array here or a number: what kernels compute with.
Operand: TypeAlias = Any

#: The only arrays that CuPy reads out of host memory: those that it is asked to.
FROM_HOST: Final = frozenset(["array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"])
#: Functions whose result has a size that depends on values, or that look at values for their checks.
READING: Final = _words("""
    argwhere array_equiv average bincount compress delete ediff1d extract flatnonzero histogram histogram2d
    histogramdd intersect1d nanmax nanmin nonzero place putmask quantile percentile ravel_multi_index
    setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values
    unravel_index
    """)
#: Methods that change the array.
_WRITING: Final = _words("fill partition put sort")


def root_of(array: Array) -> Array:
    """The array that owns the memory which an array looks into."""
    while True:
        base: Any = array.base
        if not isinstance(base, np.ndarray):
            # `as_strided` puts an object between an array and what it looks into.
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            return array
        array = base


def check_call(name: str, parameters: tuple[str, ...], args: tuple[Any, ...], keywords: Any) -> None:
    """TypeError for what CuPy's function of this name does not take."""
    if not any(p.startswith("*") for p in parameters) and len(args) > len(parameters):
        raise TypeError(f"{name}() of CuPy takes {', '.join(parameters)}, not {len(args)} arguments")
    if not any(p.startswith("**") for p in parameters):
        unknown = keywords.keys() - set(parameters)
        if unknown:
            raise TypeError(f"{name}() of CuPy takes no {', '.join(sorted(unknown))}")


def check_array(name: str, args: tuple[Any, ...], keywords: Any) -> None:
    first = args[0] if args else keywords.get("a")
    if name not in FROM_HOST and not isinstance(first, StrictArray):
        raise TypeError(f"{name}() takes an array of the device, not {type(first).__name__}")


def check_dtype(dtype: Any) -> None:
    """TypeError for an element type that CuPy's arrays do not have."""
    if dtype is not None and np.dtype(dtype).name not in cupy_names.DTYPES:
        raise TypeError(f"arrays of {np.dtype(dtype)} are not supported on a device")


def plain(value: Any, several: bool = False, from_host: bool = False) -> Any:
    """An argument for NumPy behind a call; TypeError for what CuPy does not take."""
    if isinstance(value, StrictArray):
        return value._data
    if isinstance(value, np.ndarray):
        if not from_host:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>: an array of host memory")
        return value.copy()
    if isinstance(value, list | tuple):
        held = [isinstance(v, StrictArray) for v in value]
        if any(held) and not several:
            raise TypeError(f"Unsupported type {type(value)} of arrays")
        return type(value)(plain(v, several, from_host) for v in value)
    return value


def plain_operand(value: Any) -> Any:
    if isinstance(value, StrictArray):
        return value._data
    if isinstance(value, bool | int | float | complex | np.generic):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _axes_of(part: Any) -> int:
    """How many axes a part of an index takes."""
    if part is None:
        return 0
    return part.ndim if isinstance(part, StrictArray) and part.dtype.kind == "b" else 1


def plain_index(array: StrictArray, index: Any, *, writing: bool = False) -> Any:
    """An index for NumPy behind an array: whole numbers of arrays wrapped into their axes, as on a device."""
    parts = index if isinstance(index, tuple) else (index,)
    axis = 0
    result: list[Any] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>: an index in host memory")
        if part is Ellipsis:
            axis = array.ndim - sum(_axes_of(p) for p in parts[len(result) + 1 :])
            result.append(part)
            continue
        if isinstance(part, list) and any(isinstance(p, StrictArray) for p in part):
            raise TypeError("an index is an array or numbers, not a list of arrays")
        if isinstance(part, StrictArray):
            if part.dtype.kind not in "iub":
                raise IndexError(f"arrays of {part.dtype} are no index")
            if part.dtype.kind == "b" and not writing:
                array._module.note_read("a boolean mask that picks elements")
            size = array.shape[axis] if axis < array.ndim else 0
            wraps = part.dtype.kind != "b" and size
            result.append(part._data.astype(np.int64) % size if wraps else part._data)
        else:
            result.append(part)
        axis += _axes_of(part)
    return tuple(result) if isinstance(index, tuple) else result[0]


class StrictArray:
    """An array of a device: see the module. Its methods are those of `cupy.ndarray`."""

    __slots__ = ("__weakref__", "_data", "_module", "_owner")
    #: NumPy's functions refuse these arrays, its scalars leave the operators to them.
    __array_ufunc__ = None

    def __init__(self, data: Array, module: Any) -> None:
        check_dtype(data.dtype)
        self._data = data
        self._module = module
        #: The array that a view looks into lives as long, and its references tell that somebody looks.
        self._owner: StrictArray | None = module.owner(self)

    # -- what is known without a look at values -----------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def itemsize(self) -> int:
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        return self._data.strides

    @property
    def flags(self) -> Any:
        return self._data.flags

    @property
    def base(self) -> StrictArray | None:
        if self._owner is not None:
            return self._owner
        base = self._data.base
        return StrictArray(base, self._module) if isinstance(base, np.ndarray) else None

    def __len__(self) -> int:
        return len(self._data)

    # -- looks at values ----------------------------------------------------------------------------

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
            "array explicitly."
        )

    def get(self) -> Array:
        return self._seen("get").copy()

    def _seen(self, what: str) -> Array:
        """The values, for somebody of the host who looks at them."""
        self._module.note_read(what)
        values: Array = self._module.fetched(self._data)
        return values

    def __bool__(self) -> bool:
        return bool(self._seen("bool"))

    def __int__(self) -> int:
        return int(self._seen("int"))

    def __float__(self) -> float:
        return float(self._seen("float"))

    def __complex__(self) -> complex:
        return complex(self._seen("complex"))

    def item(self) -> Any:
        return self._seen("item").item()

    def tolist(self) -> Any:
        return self._seen("tolist").tolist()

    def tobytes(self) -> bytes:
        return self._seen("tobytes").tobytes()

    def __repr__(self) -> str:
        return f"StrictArray({self._seen('repr')!r})"

    def __str__(self) -> str:
        return str(self._seen("str"))

    def __format__(self, spec: str) -> str:
        return format(self._seen("format")[() if self.ndim == 0 else ...], spec)

    def __iter__(self) -> Iterator[StrictArray]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # -- elements -----------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> StrictArray:
        found: StrictArray = self._module.run(operator.getitem, self._data, plain_index(self, index))
        return found

    def __setitem__(self, index: Any, value: Operand) -> None:
        several = isinstance(value, StrictArray) and value.ndim > 0
        where = plain_index(self, index, writing=not several)
        self._module.run(operator.setitem, self._data, where, plain_operand(value), writes=(self._data,))

    @property
    def T(self) -> StrictArray:
        return self._run(np.ndarray.transpose)

    @property
    def real(self) -> StrictArray:
        return self._run(np.real)

    @real.setter
    def real(self, value: Operand) -> None:
        operand = plain_operand(value)
        self._module.run(setattr, self._data, "real", operand, writes=(self._data,))

    @property
    def imag(self) -> StrictArray:
        return self._run(np.imag)

    @imag.setter
    def imag(self, value: Operand) -> None:
        operand = plain_operand(value)
        self._module.run(setattr, self._data, "imag", operand, writes=(self._data,))

    def view(self, dtype: Any = None) -> StrictArray:
        check_dtype(dtype)
        return self._run(np.ndarray.view, dtype)

    def transpose(self, *axes: Any) -> StrictArray:
        return self._run(np.ndarray.transpose, *axes)

    def reshape(self, *shape: Any, order: Any = "C") -> StrictArray:
        return self._run(np.ndarray.reshape, *shape, order=order)

    def _run(self, function: Callable[..., Any], *values: Any, **named: Any) -> StrictArray:
        result: StrictArray = self._module.run(function, self._data, *values, **named)
        return result

    def __getattr__(self, name: str) -> Any:
        parameters = cupy_names.METHODS.get(name)
        if parameters is None:
            raise AttributeError(f"arrays of CuPy have no {name!r}")
        function: Any = getattr(np.ndarray, name)
        data, module = self._data, self._module

        def call(*args: Any, **keywords: Any) -> Any:
            check_call(name, parameters, args, keywords)
            if name in READING:
                module.note_read(name)
            given = dict(zip(parameters, args, strict=False)) | keywords
            check_dtype(given.get("dtype"))
            taken = {k: plain(v) for k, v in given.items() if v is not None}
            if name == "take":
                taken["mode"] = "wrap"
            if name == "sort":
                taken["kind"] = "stable"
            written = (data if name in _WRITING else None, taken.get("out"))
            writes = tuple(w for w in written if w is not None)
            if name in ("swapaxes", "fill", "dot"):
                return module.run(function, data, *taken.values(), writes=writes)
            return module.run(function, data, writes=writes, **taken)

        return call


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)
    is_inplace = name.startswith("__i") and name != "__invert__"

    def apply(self: StrictArray, *others: Operand) -> Any:
        try:
            operands = [plain_operand(other) for other in others]
        except TypeError:
            if is_inplace or any(isinstance(other, np.ndarray) for other in others):
                raise
            return NotImplemented
        if is_inplace:
            self._module.run(method, self._data, *operands, writes=(self._data,))
            return self
        return self._module.run(method, self._data, *operands)

    apply.__name__ = name
    return apply


for _name in _words("add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"):
    for _prefix in ("", "r", "i"):
        if (_prefix, _name) != ("i", "matmul"):
            setattr(StrictArray, f"__{_prefix}{_name}__", _operator(f"__{_prefix}{_name}__"))
for _name in _words("lt le gt ge eq ne neg pos abs invert divmod"):
    setattr(StrictArray, f"__{_name}__", _operator(f"__{_name}__"))

__all__ = [
    "FROM_HOST",
    "READING",
    "Operand",
    "StrictArray",
    "check_array",
    "check_call",
    "check_dtype",
    "plain",
    "plain_index",
    "plain_operand",
    "root_of",
]
