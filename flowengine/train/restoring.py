"""Reading a checkpoint into variables: all the requested ones, or none."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from flowengine.checkpoint import BundleReader, V1Reader, open_checkpoint, read_many
from flowengine.checkpoint.elements import Check
from flowengine.checkpoint.files import checkpoint_prefix
from flowengine.checkpoint.slices import parse_shape_and_slice, slice_shape
from flowengine.checkpoint.state import exists, latest_checkpoint
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.train.saveables import Saveable, alike
from flowengine.train.snapshot import listed

#: The key under which TensorFlow 2 keeps the names of objects.
_OBJECTS: Final = b"_CHECKPOINTABLE_OBJECT_GRAPH"


def chosen(saveables: Sequence[Saveable], names: Iterable[str] | None) -> list[Saveable]:
    """Return the named variables: by name in the checkpoint or of the node, or by a pattern with * ? [].

    Raises NotFoundError for a name, or a pattern, that matches none.
    """
    if names is None:
        return list(saveables)
    if isinstance(names, str):
        names = [names]
    wanted: dict[int, Saveable] = {}
    for name in names:
        found = {
            index: each
            for index, each in enumerate(saveables)
            if name in (each.text, each.node) or fnmatch.fnmatchcase(each.text, name)
        }
        if not found:
            known = [each.text for each in saveables]
            raise NotFoundError(f"the saver has no variable '{name}'{alike(name, known)}")
        wanted |= found
    return [saveables[index] for index in sorted(wanted)]


def prefix_in(path: str, state_name: str) -> str:
    """Return the prefix of the checkpoint to restore from a path, which is a prefix or a folder.

    Raises NotFoundError if the folder has none.
    """
    if not os.path.isdir(path):
        return checkpoint_prefix(path)
    latest = latest_checkpoint(path, state_name)
    exported = os.path.join(path, "variables", "variables")
    if latest is None and exists(exported):
        return exported
    if latest is None:
        raise NotFoundError(
            f"{path}: no checkpoint there: the folder has no file '{state_name}' that names one"
        )
    return latest


def read_values(
    prefix: str, saveables: Sequence[Saveable], *, strict: bool, check: Check
) -> list[tuple[Saveable, Array]]:
    """The stored values, each checked to fit its variable.

    strict   whether a variable that the checkpoint does not have is an error; else it is left out

    Raises NotFoundError for a missing checkpoint or names, InvalidArgumentError naming every variable of
    another type or shape, DataLossError for damage.
    """
    with open_checkpoint(prefix, check=check) as reader:
        present = [each for each in saveables if each.name in reader]
        if strict and len(present) < len(saveables):
            raise _missing(prefix, [each for each in saveables if each.name not in reader], reader.names())
        faults = [fault for each in present if (fault := _fault(reader, each))]
        if faults:
            raise InvalidArgumentError(f"{prefix} does not fit: " + "; ".join(faults))
        requests = [(e.name, parse_shape_and_slice(e.spec)[1] if e.spec else None) for e in present]
        return list(zip(present, read_many(reader, requests, check=check), strict=True))


def _missing(prefix: str, missing: Sequence[Saveable], stored: Collection[bytes]) -> NotFoundError:
    names = [name.decode("utf-8", "replace") for name in stored]
    if _OBJECTS in stored:
        return NotFoundError(
            f"{prefix} was saved by the names of objects, as TensorFlow 2 saves, and has no variable "
            f"{missing[0].text}: fe.saved_model.load(DIRECTORY) restores the variables of a SavedModel"
        )
    if len(missing) == 1:
        text = missing[0].text
        return NotFoundError(f"Key {text} not found in checkpoint {prefix}{alike(text, names)}")
    return NotFoundError(
        f"Keys not found in checkpoint {prefix}, which holds {len(names)} tensors: "
        f"{listed([each.text for each in missing], 'key')}"
    )


def _fault(reader: BundleReader | V1Reader, saveable: Saveable) -> str:
    """Describe how a stored tensor does not fit this variable; empty if it fits."""
    dtype = reader.dtype(saveable.name)
    if dtype is not saveable.dtype:
        return f"'{saveable.text}' is {dtype} there, the variable is {saveable.dtype}"
    stored = reader.shape(saveable.name)
    if saveable.spec:
        shape, part, _ = parse_shape_and_slice(saveable.spec)
        if shape != stored:
            return (
                f"'{saveable.text}' has shape {list(stored)} there, the variable is a part of {list(shape)}"
            )
        stored = slice_shape(shape, part)
    if not saveable.shape.is_compatible_with(TensorShape(stored)):
        return f"'{saveable.text}' has shape {list(stored)} there, the variable {saveable.shape}"
    return ""
