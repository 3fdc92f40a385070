"""Variable scopes: variables that are found by name, and options for all variables of a scope.

    with graph.variable_scope("layer", initializer=fe.initializers.zeros()):
        w = graph.get_variable("w", [784, 10])           # "layer/w:0"
    with graph.variable_scope("layer", reuse=True):
        assert graph.get_variable("w", [784, 10]) is w

The name of a variable depends on the variable scopes alone, so that it is the same from everywhere. The names
of other nodes depend on the name scope, which a variable scope opens as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from flowengine.core.dtypes import DType, as_dtype, string
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.creation import Constraint, Initializer
from flowengine.graphs.variables.variable import GraphVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.graphs.variables.partitioned import PartitionedVariable

#: Whether `get_variable` makes a variable (False), finds one (True), or finds or makes one ("auto").
Reuse: TypeAlias = bool | Literal["auto"]
#: A penalty of a variable: Tensor -> () Tensor, or None for no penalty.
Regularizer: TypeAlias = Callable[[Tensor], Tensor | None]
#: (shape, dtype) -> into how many parts each axis is cut.
Partitioner: TypeAlias = Callable[[TensorShape, DType], Collection[int]]

_SCOPE_REUSE: Final = (None, False, True, "auto")


@dataclass(frozen=True)
class VariableScope:
    """The settings that the variables of a scope share; a scope may be entered again with them.

    name         prefix of the variables' names, without its last slash
    name_scope   the name scope that was opened with it, with its slash
    reuse        whether variables are made or found; see `Reuse`
    initializer, regularizer, partitioner, constraint, caching_device, dtype, use_resource   for each variable
                 that is not given its own; see `Graph.variable`
    getter       called instead of the usual way: getter(usual, name, **arguments) -> variable

    >>> graph = fe.Graph()
    >>> with graph.variable_scope("layer") as scope:
    ...     w = graph.get_variable("w", [2])
    >>> with graph.variable_scope(scope, reuse=True):
    ...     graph.get_variable("w") is w, scope.name
    (True, 'layer')
    """

    name: str = ""
    name_scope: str = ""
    reuse: Reuse = False
    initializer: Any = None
    regularizer: Regularizer | None = None
    partitioner: Partitioner | None = None
    constraint: Constraint | None = None
    caching_device: str | None = None
    dtype: DType = field(default_factory=lambda: as_dtype("float32"))
    use_resource: bool = True
    getter: Callable[..., Any] | None = None


class VariableScopes:
    """The variables of one graph that `get_variable` has made, and the scope that it is in."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.scope = VariableScope()
        self.variables: dict[str, GraphVariable | PartitionedVariable] = {}
        #: {full name of a scope: how often it was opened since the one around it was}
        self._opened: dict[str, int] = {}

    @contextmanager
    def entered(
        self,
        scope: str | VariableScope | None,
        *,
        default_name: str | None,
        reuse: Reuse | None,
        auxiliary_name_scope: bool,
        **options: Any,
    ) -> Iterator[VariableScope]:
        """See `Graph.variable_scope`."""
        if reuse not in _SCOPE_REUSE:
            raise InvalidArgumentError(f"reuse is None, True, False or 'auto', not {reuse!r}")
        before, opened = self.scope, dict(self._opened)
        if isinstance(scope, VariableScope):
            new, short = scope, scope.name.rpartition("/")[2]
        else:
            if scope is None:
                if default_name is None:
                    raise InvalidArgumentError("a variable scope needs a name or a default_name")
                if reuse is True:
                    raise InvalidArgumentError("reuse=True needs the scope's name; default_name is a new one")
                scope = self._unique(default_name)
            short = scope
            new = replace(before, name=f"{before.name}/{scope}" if before.name else scope)
        with ExitStack() as stack:
            if auxiliary_name_scope and short:
                new = replace(new, name_scope=stack.enter_context(self._graph.name_scope(short)))
            given = {key: value for key, value in options.items() if value is not None}
            if "dtype" in given:
                given["dtype"] = as_dtype(given["dtype"])
            outer = given.pop("getter", None)
            new = replace(new, reuse=reuse or new.reuse, getter=_chained(outer, new.getter), **given)
            self._opened[new.name] = self._opened.get(new.name, 0) + 1
            self.scope = new
            try:
                yield new
            finally:
                self.scope = before
                if isinstance(scope, VariableScope):
                    self._opened = opened
                else:
                    inside = new.name + "/"
                    for name in self._opened:
                        if name.startswith(inside):
                            self._opened[name] = 0

    def _unique(self, name: str) -> str:
        """A scope's name that was not opened yet in the present one: name, name_1, ..."""
        around = f"{self.scope.name}/" if self.scope.name else ""
        candidate, count = name, 0
        while self._opened.get(around + candidate, 0):
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    # -- variables ---------------------------------------------------------------------------------

    def get(self, name: str, shape: Any, **options: Any) -> Any:
        """See `Graph.get_variable`."""
        scope = self.scope
        getter = options.pop("getter", None)
        chain = _chained(getter, scope.getter)
        for key in ("initializer", "regularizer", "partitioner", "constraint", "caching_device", "dtype"):
            if options[key] is None:
                options[key] = getattr(scope, key)
        if options["use_resource"] is None:
            options["use_resource"] = scope.use_resource
        if options["reuse"] is None:
            options["reuse"] = scope.reuse
        full = f"{scope.name}/{name}" if scope.name else name
        if chain is None:
            return self._get(full, shape=shape, **options)
        return chain(self._get, full, shape=shape, **options)

    def _get(self, name: str, *, shape: Any, reuse: Reuse, dtype: Any, **options: Any) -> Any:
        """The variable of a full name, found or made."""
        dtype = as_dtype(dtype).base
        present = self.variables.get(name)
        if present is not None:
            if reuse is False:
                where = present.op.node.source if isinstance(present, GraphVariable) else ""
                raise InvalidArgumentError(
                    f"a variable '{name}' exists already{f', made at {where}' if where else ''}; to have the "
                    "same again, enter its scope with reuse=True or reuse='auto'"
                )
            _check_same(present, name, shape, dtype)
            return present
        if reuse is True:
            raise InvalidArgumentError(
                f"there is no variable '{name}', and its scope has reuse=True; reuse='auto' makes it"
            )
        made = self._make(name, shape, dtype, **options)
        self.variables[name] = made
        return made

    def _make(
        self,
        name: str,
        shape: Any,
        dtype: DType,
        *,
        initializer: Any,
        regularizer: Regularizer | None,
        **options: Any,
    ) -> Any:
        if initializer is None:
            from flowengine.graphs.variables.initializers import default_initializer

            initializer = default_initializer(name, dtype)
        if isinstance(initializer, type):
            initializer = initializer()
        if isinstance(initializer, str) and dtype is not string:
            from flowengine.graphs.variables.initializers import get

            initializer = get(initializer)
        if not callable(initializer) and shape is not None:
            raise InvalidArgumentError(
                f"variable '{name}': {initializer!r} is a value, whose shape is its own; leave shape= out or "
                "give a function such as fe.initializers.zeros()"
            )
        with self._graph.name_scope(None):
            made = self._graph.variable(
                initializer, name=name, shape=shape, dtype=dtype, regularizer=regularizer, **options
            )
        return made


def _chained(inner: Callable[..., Any] | None, outer: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Chain two getters: the inner scope's is called first, and calls the outer's."""
    if inner is None or outer is None:
        return inner or outer

    def chain(usual: Callable[..., Any], name: str, **arguments: Any) -> Any:
        return inner(lambda n, **a: outer(usual, n, **a), name, **arguments)

    return chain


def _check_same(present: GraphVariable | PartitionedVariable, name: str, shape: Any, dtype: DType) -> None:
    if shape is not None and not TensorShape(shape).is_compatible_with(present.shape):
        raise InvalidArgumentError(
            f"variable '{name}' has shape {present.shape}; get_variable was called with {TensorShape(shape)}"
        )
    if dtype is not present.dtype:
        raise InvalidArgumentError(
            f"variable '{name}' is {present.dtype}; get_variable was called with {dtype}"
        )


def add_penalty(
    graph: Graph, variable: GraphVariable | PartitionedVariable, regularizer: Regularizer
) -> Tensor | None:
    """A regulariser's penalty for a variable, listed under "regularization_losses"."""
    name = variable.name.rpartition(":")[0] or variable.name
    with graph.scopes.outside(), graph.name_scope(f"{name}/Regularizer/"):
        penalty = regularizer(variable.__flowengine_tensor__(graph))
    if penalty is not None:
        graph.add_to_collection(keys.REGULARIZATION_LOSSES, penalty)
    return penalty


__all__ = [
    "Constraint",
    "Hashable",
    "Initializer",
    "Partitioner",
    "Regularizer",
    "Reuse",
    "VariableScope",
    "VariableScopes",
    "add_penalty",
]
