"""Notes beside each checkpoint: a run's step, positions of random nodes, and Python state.

The file is JSON under the checkpoint's prefix, `PREFIX.run`, and complete before the checkpoint counts.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from flowengine.checkpoint.files import FileLayer, replace_file, run_path
from flowengine.core.errors import DataLossError, InvalidArgumentError

#: The key of an array in JSON: {_ARRAY: [type, shape, bytes in hexadecimal digits]}.
_ARRAY: Final = "__array__"


@dataclass(frozen=True, slots=True)
class RecoveryNotes:
    """The notes of one checkpoint.

    step     the number of steps made before
    random   the result of `Session.random_places`
    state    {name: the state of that object}
    """

    step: int
    random: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)

    def write(self, prefix: str, *, sync: bool, files: FileLayer) -> None:
        """Write the file; InvalidArgumentError for state that JSON and arrays cannot express."""
        table = {
            "step": self.step,
            "random": dict(self.random),
            "state": {name: to_plain(value, name) for name, value in self.state.items()},
        }
        replace_file(run_path(prefix), json.dumps(table).encode(), sync=sync, files=files)

    @classmethod
    def read(cls, prefix: str) -> RecoveryNotes | None:
        """The notes of a checkpoint, None if it has none; DataLossError for a damaged file."""
        path = run_path(prefix)
        try:
            with open(path, "rb") as file:
                table = json.loads(file.read())
            return cls(int(table["step"]), dict(table["random"]), from_plain(table["state"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DataLossError(f"{os.fspath(path)} cannot be read: {error}") from None


def state_of(thing: Any, name: str) -> Any:
    """Return an object's state: of a NumPy generator, or of one with `state_dict` and `load_state_dict`.

    Raises InvalidArgumentError for anything else.
    """
    if isinstance(thing, np.random.Generator):
        return thing.bit_generator.state
    if callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None)):
        return thing.state_dict()
    raise InvalidArgumentError(
        f"the state '{name}' is a {type(thing).__name__}: it must be a numpy.random.Generator, or have the "
        "methods state_dict() and load_state_dict(state)"
    )


def set_state(thing: Any, state: Any) -> None:
    """Put an object back to what it said of itself."""
    if isinstance(thing, np.random.Generator):
        thing.bit_generator.state = state
    else:
        thing.load_state_dict(state)


def to_plain(value: Any, name: str) -> Any:
    """Convert a value to what JSON can carry; arrays and NumPy's numbers come back as they were."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return {_ARRAY: [_written(array.dtype, name), list(array.shape), array.tobytes().hex()]}
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return [to_plain(each, name) for each in value]
    if isinstance(value, Mapping) and value.keys() == {_ARRAY}:
        raise InvalidArgumentError(
            f"the state '{name}' holds a dict of '{_ARRAY}' alone: that means an array"
        )
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_plain(each, name) for key, each in value.items()}
    raise InvalidArgumentError(
        f"the state '{name}' holds a {type(value).__name__}: it may hold numbers, text, truth values, None, "
        "arrays, lists, and dicts with text for keys"
    )


def _written(dtype: np.dtype[Any], name: str) -> str:
    """Return the text for an array's type; InvalidArgumentError for a type that it cannot restore."""
    # The first has the order of bytes; of added types, such as bfloat16, it has nothing but the size.
    for text in (dtype.str, dtype.name):
        with contextlib.suppress(TypeError):
            if not dtype.hasobject and np.dtype(text) == dtype:
                return text
    raise InvalidArgumentError(f"the state '{name}' holds an array of {dtype}: it cannot be saved")


def from_plain(value: Any) -> Any:
    """The value that `to_plain` wrote; tuples come back as lists."""
    if isinstance(value, list):
        return [from_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ARRAY}:
        kind, shape, digits = value[_ARRAY]
        array = np.frombuffer(bytes.fromhex(digits), np.dtype(kind)).reshape(shape).copy()
        return array if shape else array[()]
    return {key: from_plain(each) for key, each in value.items()}


__all__ = ["RecoveryNotes", "from_plain", "set_state", "state_of", "to_plain"]
