"""Stack: what a loop's forward pass keeps for its backward pass, alive for one step."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError


class Stack:
    """Values, last in first out; kept as they come, since within a step nobody writes into them.

    limit   most values held; negative: no bound
    """

    __slots__ = ("__weakref__", "_closed", "_values", "dtype", "limit", "name")

    def __init__(self, dtype: DType, *, limit: int = -1, name: str = "") -> None:
        self.name = name
        self.dtype = dtype.base
        self.limit = limit
        self._values: list[Value] = []
        self._closed = False

    def push(self, value: Value) -> Value:
        """Put a value on top and return it; InvalidArgumentError where the stack is full or closed."""
        if self._closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed.")
        if 0 <= self.limit <= len(self._values):
            raise InvalidArgumentError(f"Stack[{self.name}] overflowed its max_size ({self.limit})")
        self._values.append(value)
        return value

    def pop(self) -> Value:
        """Take the value on top; InvalidArgumentError where there is none."""
        if self._closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed.")
        if not self._values:
            raise InvalidArgumentError(f"Stack[{self.name}] is empty when calling Pop().")
        return self._values.pop()

    def close(self) -> None:
        """Drop the values; what comes after fails."""
        self._closed = True
        self._values = []

    def destroy(self) -> None:
        """`close`, when the step ends."""
        self.close()

    def read(self) -> Value:
        """Return the value of a reference handle to a stack: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [b"_stacks", self.name.encode()]
        return handle

    def __len__(self) -> int:
        return len(self._values)
