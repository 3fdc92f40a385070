"""Arrays as strict as CuPy's, for machines without a GPU: what a kernel for any device is tried on.

    xp = StrictModule()
    x = xp.moved_in(np.arange(6.0))     # into its memory: no read
    y = kernel(xp, x)
    assert not xp.reads                 # nobody looked at a value
    value = xp.moved_out(y)             # out again: no read either

NumPy computes behind them, but nothing is converted without being asked. NumPy's functions refuse them, and
they refuse NumPy's arrays (scalars of NumPy and Python pass, as they do with CuPy). `xp` has the functions
that CuPy has, with the parameters that they take there; `maximum.reduce` and its kin are not implemented.
Looking at a value (`bool`, `int`, `tolist`, a boolean mask that picks elements) would make the host wait for
the device: it works, and is noted in `reads` with the line that did so. An index beyond its axis wraps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from flowengine.kernels.math.special import special_functions
from flowengine.testing import cupy_names, strict_array
from flowengine.testing.strict_array import (
    FROM_HOST,
    READING,
    Operand,
    StrictArray,
    check_array,
    check_call,
    check_dtype,
    plain,
    plain_index,
    plain_operand,
    root_of,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of sequences of arrays.
_OF_SEVERAL: Final = FROM_HOST | _words("""
    broadcast_arrays choose column_stack concat concatenate dstack einsum hstack lexsort meshgrid
    ravel_multi_index row_stack select stack vstack
    """)
#: ufuncs of which CuPy has these methods.
_REDUCING: Final = frozenset(["add", "multiply"])
_AT: Final = _words("add bitwise_and bitwise_or bitwise_xor maximum minimum subtract")
#: Functions that change their first argument.
_WRITING: Final = _words("copyto fill_diagonal place put putmask")
#: What an atomic operation of a device takes.
_ATOMIC: Final = frozenset("idfeFDIQL")
#: Names of NumPy that CuPy hands on as they are.
_BORROWED: Final = cupy_names.DTYPES | _words("""
    bool_ complexfloating dtype e euler_gamma finfo floating generic iinfo inexact inf int_ integer intp nan
    newaxis number pi signedinteger uintp unsignedinteger
""")


class StrictModule:
    """The array module: `xp` of a kernel.

    reads   what looked at a value, each with the line that did
    """

    __name__ = "strict"
    #: The files of the stand-in: who looks at a value is somebody else.
    _own_files: frozenset[str] = frozenset([__file__, strict_array.__file__])

    def __init__(self) -> None:
        self.reads: list[str] = []
        self._found: dict[str, Any] = {}
        #: {id of NumPy's array: the one here that has all of it}
        self._owners: WeakValueDictionary[int, StrictArray] = WeakValueDictionary()
        self.ndarray = StrictArray
        self.linalg = self._namespace(np.linalg, cupy_names.LINALG)
        self.fft = self._namespace(np.fft, cupy_names.FFT)
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self._as_strided))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    @property
    def special(self) -> SimpleNamespace:
        """Special functions, as `cupyx.scipy.special` has them."""
        return self._namespace(special_functions(np), cupy_names.SPECIAL)

    def moved_in(self, value: Any) -> Any:
        """A copy of a value of host memory; what is no array of numbers passes as it is."""
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return StrictArray(np.array(value), self)
        return value

    def moved_out(self, value: Any) -> Any:
        """A copy in host memory, rank 0 as a scalar; not counted."""
        return value._data.copy()[()] if isinstance(value, StrictArray) else value

    def run(
        self, function: Callable[..., Any], *values: Any, writes: tuple[Any, ...] = (), **named: Any
    ) -> Any:
        """Compute something of NumPy's arrays behind those here; it may change those in `writes`."""
        return self.wrapped(function(*values, **named))

    def fetched(self, data: Any) -> Any:
        """The values of NumPy's array behind one here."""
        return data

    def owner(self, array: StrictArray) -> StrictArray | None:
        """The array that a new one is a view of; None for one that has its memory itself."""
        root = root_of(array._data)
        if root is not array._data:
            return self._owners.get(id(root))
        self._owners[id(root)] = array
        return None

    def note_read(self, what: str) -> None:
        """Somebody looks at a value."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in self._own_files:
            frame = frame.f_back
        self.reads.append(f"{what} at {frame.f_code.co_filename}:{frame.f_lineno}")

    def wrapped(self, value: Any) -> Any:
        """Wrap NumPy's result as if it came from here."""
        if isinstance(value, np.ndarray | np.generic):
            known = self._owners.get(id(value))
            return StrictArray(np.asarray(value), self) if known is None else known
        if isinstance(value, tuple | list):
            return (
                type(value)(*map(self.wrapped, value))
                if hasattr(value, "_fields")
                else tuple(map(self.wrapped, value))
            )
        return value

    # -- what the names of the module are -----------------------------------------------------------

    def _find(self, name: str) -> Any:
        if name in _BORROWED:
            return getattr(np, name)
        if name in cupy_names.UFUNCS:
            return StrictUfunc(getattr(np, name), self)
        if name in cupy_names.FUNCTIONS:
            return self._function(name, getattr(np, name), cupy_names.FUNCTIONS[name])
        raise AttributeError(f"CuPy has no {name!r}")

    def _namespace(self, module: Any, names: frozenset[str]) -> SimpleNamespace:
        return SimpleNamespace(
            **{n: self._function(n, getattr(module, n), ()) for n in names if hasattr(module, n)}
        )

    def _function(self, name: str, function: Any, parameters: tuple[str, ...]) -> Callable[..., Any]:
        several = name in _OF_SEVERAL

        def call(*args: Any, **keywords: Any) -> Any:
            if parameters:
                check_call(name, parameters, args, keywords)
            if parameters[:1] == ("a",) and name not in ("copy", "full_like", "shape", "ndim", "size"):
                check_array(name, args, keywords)
            if name in READING or (name == "where" and len(args) == 1):
                self.note_read(name)
            if name == "repeat" and isinstance(args[1], StrictArray):
                raise TypeError("repeats must be numbers of the host")
            from_host = name in FROM_HOST
            values = [plain(a, several or parameters[:1] == ("*",), from_host) for a in args]
            named = {k: plain(v, several, from_host) for k, v in keywords.items()}
            for index, parameter in enumerate(parameters[: len(values)]):
                if parameter == "dtype":
                    check_dtype(values[index])
            check_dtype(named.get("dtype"))
            if name == "take":
                named["mode"] = "wrap"
            given = dict(zip(parameters, values, strict=False)) | named
            written = (values[0] if name in _WRITING else None, given.get("out"))
            return self.run(function, *values, writes=tuple(w for w in written if w is not None), **named)

        call.__name__ = name
        return call

    def _as_strided(self, x: StrictArray, shape: Any = None, strides: Any = None) -> StrictArray:
        result: StrictArray = self.run(np.lib.stride_tricks.as_strided, x._data, shape, strides)
        return result


class StrictUfunc:
    """An elementwise function, with those methods that CuPy has."""

    def __init__(self, ufunc: Any, module: StrictModule) -> None:
        self._ufunc = ufunc
        self._module = module
        self.__name__ = getattr(ufunc, "__name__", "")

    def __call__(self, *args: Operand, out: Any = None, **keywords: Any) -> Any:
        if keywords.keys() - {"dtype", "casting", "where", "order"}:
            raise TypeError(f"{self.__name__}() of CuPy takes no {', '.join(keywords)}")
        if "where" in keywords:
            keywords["where"] = plain_operand(keywords["where"])
        if isinstance(self._ufunc, np.ufunc):
            args, results = args[: self._ufunc.nin], args[self._ufunc.nin :]
        else:
            results = ()
        if out is not None:
            results = out if isinstance(out, tuple) else (out,)
        if results:
            if not all(isinstance(r, StrictArray) for r in results):
                raise TypeError("return arrays must be of the device")
            keywords["out"] = tuple(r._data for r in results)
        operands = list(map(plain_operand, args))
        if self.__name__ in ("power", "pow") and np.result_type(*operands).kind in "iu":
            # A device looks at no exponent, so it cannot refuse a negative one.
            operands[1] = np.maximum(operands[1], 0)
        value = self._module.run(self._ufunc, *operands, writes=keywords.get("out", ()), **keywords)
        return results[0] if len(results) == 1 else value

    def _method(self, method: str, allowed: frozenset[str]) -> Any:
        if self.__name__ not in allowed:
            raise NotImplementedError(f"{method}() of cupy_{self.__name__} is not implemented yet")
        return getattr(self._ufunc, method)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        method = self._method("reduce", _REDUCING)
        check_array("reduce", (array,), {})
        return self._to(out, method, array._data, axis, dtype, None if out is None else out._data, keepdims)

    def _to(self, out: Any, method: Any, *values: Any) -> Any:
        """Run a method and return its result, stored into an array if one is given."""
        return self._module.run(method, *values, writes=() if out is None else (out._data,))

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        method = self._method("accumulate", _REDUCING)
        check_array("accumulate", (array,), {})
        return self._to(out, method, array._data, axis, dtype, None if out is None else out._data)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        method = self._method("reduceat", _REDUCING)
        check_array("reduceat", (array,), {})
        return self._module.run(method, array._data, plain(indices), axis, dtype)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        method = self._method("at", _AT)
        check_array("at", (a,), {})
        index = plain_index(a, indices)
        if a.dtype.char not in _ATOMIC or (self.__name__ != "add" and a.dtype.kind == "c"):
            raise TypeError(f"at() of cupy_{self.__name__} does not support {a.dtype}")
        self._module.run(method, a._data, index, plain_operand(b), writes=(a._data,))

    def outer(self, a: Any, b: Any, **keywords: Any) -> Any:
        return self._module.run(self._ufunc.outer, plain_operand(a), plain_operand(b), **keywords)


__all__ = ["StrictArray", "StrictModule", "StrictUfunc"]
