"""State that the functions of a pipeline keep outside of it: variables, random numbers, Python, files.

The saved position of an iterator does not contain such state, so a run from there gives other elements. The
attribute `external_state_policy` decides: a line in the log (0), nothing (1), or an error (2).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.opdef import OpRegistry
from flowengine.ir.proto import FunctionDef, FunctionDefLibrary
from flowengine.ops.load import registry as op_registry
from flowengine.resources.data.dataset import DatasetValue

logger: Final = logging.getLogger("flowengine.resources")

WARN: Final = 0
IGNORE: Final = 1
FAIL: Final = 2

#: Ops with state that leaves elements as they are, or whose functions are looked at: those that TensorFlow
#: 2.21 lets pass of all its stateful ops, beside ops that make datasets.
_HARMLESS: Final = frozenset(
    {
        "Assert",
        "If",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "Print",
        "PrintV2",
        "Timestamp",
        "While",
    }
)
_MAKES_DATASET: Final = ("Dataset", "DatasetV2")


def check_outside_state(made: DatasetValue, policy: int) -> None:
    """Do what a policy says where a pipeline's functions keep state outside of it.

    Raises FailedPreconditionError naming the first such op with policy FAIL, and InvalidArgumentError for a
    policy that there is not.
    """
    if policy not in (WARN, IGNORE, FAIL):
        raise InvalidArgumentError(
            f"Unexpected value of external policy: {policy} (0 warns, 1 ignores, 2 fails)"
        )
    if policy == IGNORE:
        return
    op = op_with_outside_state(made)
    if op is None:
        return
    message = (
        f"{op} is stateful: what it keeps is no part of the pipeline and is not saved with it, so that what "
        "goes on from there may give other elements"
    )
    if policy == FAIL:
        raise FailedPreconditionError(f"{message}. external_state_policy=1 saves the rest without a word")
    logger.warning("%s", message)


def op_with_outside_state(made: DatasetValue) -> str | None:
    """The first op with state in the functions of a dataset and of what it is made of; None for none."""
    registry = op_registry()
    waiting, known = [made], {id(made)}
    while waiting:
        dataset = waiting.pop()
        origin = dataset.origin
        library = None if origin.caller is None else origin.caller.library
        if isinstance(library, FunctionDefLibrary):
            called = [each.name for value in origin.attrs.values() for each in _functions_in(value)]
            for function in _reached(library, called):
                op = _op_with_state(function, registry)
                if op is not None:
                    return op
        for source in reversed(dataset.sources()):
            if id(source) not in known:
                known.add(id(source))
                waiting.append(source)
    return None


def _functions_in(value: Any) -> Iterator[FuncAttr]:
    """The functions that an attribute names."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, FuncAttr):
            yield each


def _reached(library: FunctionDefLibrary, names: Iterable[str]) -> Iterator[FunctionDef]:
    """Functions, and all that they call."""
    definitions = {function.signature.name: function for function in library.function}
    waiting = list(names)
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in known or name not in definitions:
            continue
        known.add(name)
        function = definitions[name]
        yield function
        for node in function.node_def:
            waiting.append(node.op)
            for attr in node.attr.values():
                if attr.HasField("func"):
                    waiting.append(attr.func.name)
                waiting += [each.name for each in attr.list.func]


def _op_with_state(function: FunctionDef, registry: OpRegistry) -> str | None:
    for node in function.node_def:
        definition = registry.find(node.op)
        if definition is None or not definition.is_stateful or node.op in _HARMLESS:
            continue
        if not node.op.endswith(_MAKES_DATASET):
            return str(node.op)
    return None
