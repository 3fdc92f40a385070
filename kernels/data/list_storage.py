"""The storage of TensorLists: many lists share one, which the newest of them changes in place.

A list is a value, and most are used once: when a new list is made of one, the old one is freed. So the
storage belongs to one *version*, the newest; the version before it becomes the difference to it:

    old -> storage [a, b, c]        new = old with x at 1        old -> (1, b) -> new -> storage [a, x, c]

This is the persistent array of Baker ("Shallow binding makes functional arrays fast", 1991). Setting and
pushing take the same time for every length. An old version that is read again gets a separate storage, once.
An old version that is kept but not read leaves the storage to the newest after a few changes, so that it need
not keep them all. Readers take no lock: a value is right if the version still owns its storage after the
read, because a writer takes the storage away before it changes an element.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from flowengine.core.accounting import NUMBER_BYTES, REFERENCE_BYTES
from flowengine.core.arrays import Value

#: None stands for an element that is not initialized.
Element: TypeAlias = Value | None


class ListStorage(list[Element]):
    """The elements of lists, which may be shorter than it."""

    __slots__ = ("__weakref__",)

    @property
    def nbytes(self) -> int:
        """The bytes of the references, and of elements that are numbers: all are, if the first or last is."""
        is_number = bool(self) and (isinstance(self[-1], np.generic) or isinstance(self[0], np.generic))
        return len(self) * (REFERENCE_BYTES + NUMBER_BYTES * is_number)


#: Held to write to a storage, or to take one away: for less than a microsecond, except for copies.
_WRITING: Final = threading.Lock()
#: So many changes are remembered for a version that is kept. A step may hold on to what it has used for some
#: iterations; a constant is kept for good.
_AGE_MAX: Final = 16


class ListVersion:
    """One state of a storage; lists of several lengths may share it, each of which sees its first elements.

    Elements are appended to a storage without a new version: shorter lists do not see them.
    """

    __slots__ = ("_age", "_change", "_storage")

    def __init__(self, elements: Iterable[Element]) -> None:
        #: Changes since nothing but one list is known to have referred to a version.
        self._age = 0
        self._storage: ListStorage | None = ListStorage(elements)
        #: (index, the element that this version has there, the version after it), where that has the storage.
        self._change: tuple[int, Element, ListVersion] | None = None

    @property
    def storage(self) -> ListStorage:
        """The storage of this version's elements, and perhaps of those of longer lists too."""
        storage = self._storage
        return self._taken_back() if storage is None else storage

    def get(self, index: int) -> Element:
        """The element at an index that a list of this version sees."""
        while True:
            storage = self.storage
            element = storage[index]
            if storage is self._storage:
                return element

    def elements(self, length: int) -> list[Element]:
        """The first elements; the caller's own list."""
        while True:
            storage = self.storage
            elements = storage[:length]
            if storage is self._storage:
                return elements

    def appended(self, length: int, elements: Sequence[Element]) -> ListVersion:
        """A version with these elements behind the first `length`, in which lists see `length` and more."""
        with _WRITING:
            storage = self._storage
            is_alone = self._is_alone()
            if storage is not None and is_alone:
                del storage[length:]  # elements of lists that were freed
            if storage is not None and len(storage) == length:
                storage.extend(elements)
                return self
            if storage is not None and len(elements) == 1 and (is_alone or self._age < _AGE_MAX):
                return self._changed(storage, length, elements[0], is_alone)
        return ListVersion([*self.elements(length), *elements])

    def dropped(self, length: int) -> ListVersion:
        """This version, without what only lists saw that are gone and had more than `length` elements."""
        with _WRITING:
            storage = self._storage
            if self._is_alone() and storage is not None:
                del storage[length:]
        return self

    def _is_alone(self) -> bool:
        """Whether one list refers to this version, and no version before it; asked by methods of its own."""
        return sys.getrefcount(self) <= _ONE_LIST

    def replaced(self, length: int, index: int, element: Element) -> ListVersion:
        """A version for lists of `length` elements, with another one at an index below it."""
        with _WRITING:
            storage = self._storage
            is_alone = self._is_alone()
            if storage is not None and (is_alone or self._age < _AGE_MAX):
                return self._changed(storage, index, element, is_alone)
        elements = self.elements(length)
        elements[index] = element
        return ListVersion(elements)

    def _changed(self, storage: ListStorage, index: int, element: Element, is_alone: bool) -> ListVersion:
        newest = ListVersion.__new__(ListVersion)
        newest._age = 0 if is_alone else self._age + 1
        newest._storage, newest._change = storage, None
        # In this order: see the readers.
        self._change = index, storage[index], newest
        self._storage = None
        storage[index] = element
        return newest

    def _taken_back(self) -> ListStorage:
        """A storage of its own for a version that had lost it."""
        with _WRITING:
            if self._storage is not None:
                return self._storage
            changes: list[tuple[int, Element]] = []
            version: ListVersion = self
            while version._storage is None:
                assert version._change is not None, "a version without a storage says what it was changed to"
                index, element, version = version._change
                changes.append((index, element))
            storage = ListStorage(version._storage)
            for index, element in reversed(changes):
                storage[index] = element
            self._storage, self._change = storage, None
            return storage


class _OneList:
    """Refers to a version as a list does."""

    __slots__ = ("_version",)

    def __init__(self) -> None:
        self._version = ListVersion([None, None])

    def references(self) -> int:
        """The least number of references with which a version drops what is behind its first element."""
        global _ONE_LIST
        for _ONE_LIST in range(16):
            # The interpreter may call otherwise what has been called often.
            for _ in range(50):
                self._version.dropped(1)
                if len(self._version.storage) == 1:
                    return _ONE_LIST
        return 0


#: The result of `sys.getrefcount` for a version to which one list refers. It is measured, because it includes
#: the references of the call itself, which depend on the interpreter.
_ONE_LIST: int = 0
_ONE_LIST = _OneList().references()
