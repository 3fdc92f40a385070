"""The methods of `Graph` by which variables are made, found and listed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, overload

from flowengine.graphs.collections import Collections
from flowengine.graphs.errors import builds

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.graphs.variables.creation import Constraint
    from flowengine.graphs.variables.partitioned import PartitionedVariable
    from flowengine.graphs.variables.scopes import (
        Partitioner,
        Regularizer,
        Reuse,
        VariableScope,
        VariableScopes,
    )
    from flowengine.graphs.variables.summary import GraphSummary
    from flowengine.graphs.variables.variable import GraphVariable

    class VariableOptions(TypedDict, total=False):
        """The options that `variable` and `get_variable` share, beside their own parameters."""

        dtype: Any
        trainable: bool
        collections: Collection[Hashable] | None
        constraint: Constraint | None
        regularizer: Regularizer | None
        caching_device: str | None
        validate_shape: bool

    class GraphVariableOptions(VariableOptions, total=False):
        """The options of `variable`."""

        name: str | None
        shape: Any
        use_resource: bool

    class ScopeVariableOptions(VariableOptions, total=False):
        """The options of `get_variable`."""

        initializer: Any
        use_resource: bool | None
        reuse: Reuse | None
        getter: Callable[..., Any] | None


class GraphVariables:
    """Variables, their scopes, and collections, of the graph that this is a part of."""

    #: The seed of random nodes that are built later, beside their own seeds; None for other values each time.
    seed: int | None = None

    _collections: Collections | None = None
    #: The collections of a MetaGraphDef, as messages, until a caller reads them. Their values refer to the
    #: graph, so a loaded graph that has them is freed by the collector only.
    _unread_collections: Mapping[str, Any] | None = None
    _variables: VariableScopes | None = None

    # -- collections -------------------------------------------------------------------------------

    @property
    def collections(self) -> Collections:
        """The lists kept beside the nodes: variables, losses and the like."""
        if self._collections is None:
            self._collections = Collections()
        if self._unread_collections is not None:
            self._read_collections()
        return self._collections

    def _read_collections(self) -> None:
        """List what the messages say that were kept when the graph was read."""
        from flowengine.graphs.meta_graph import read_collections

        unread, self._unread_collections = self._unread_collections, None
        graph = cast("Graph", self)
        with graph.scopes.outside():
            read_collections(graph, unread or {})

    def collection(self, name: Hashable) -> list[Any]:
        """Return the values listed under a name, in order, in a list that the caller may change.

        >>> graph = fe.Graph()
        >>> w = graph.variable(1.0, name="w")
        >>> graph.collection("trainable_variables")
        [<GraphVariable 'w:0' shape=[] dtype=float32>]
        """
        if self._collections is None and self._unread_collections is None:
            return []
        return self.collections.of(name)

    def add_to_collection(self, name: Hashable, value: Any) -> None:
        """List `value` under `name`: see `flowengine.graphs.variables.keys` for TensorFlow's names.

        >>> graph = fe.Graph()
        >>> graph.add_to_collection("mine", graph.constant(1.0))
        >>> graph.collection("mine")
        [<Tensor 'Const:0' shape=[] dtype=float32>]
        """
        self.collections.add(name, value)

    @builds
    def to_meta_graph(self) -> Any:
        """This graph with its collections, as a MetaGraphDef message that TensorFlow can import.

        >>> graph = fe.Graph()
        >>> w = graph.variable(1.0, name="w")
        >>> sorted(graph.to_meta_graph().collection_def)
        ['trainable_variables', 'variables']
        """
        from flowengine.graphs.meta_graph import to_meta_graph

        return to_meta_graph(cast("Graph", self), self.collections)

    def summary(self, *, scopes_only: bool | None = None) -> GraphSummary:
        """Return the variables by scope, with shapes, dtypes and sizes, and whether they are trained.

        scopes_only   whether the table has only a row for each scope; by default for more than 100 variables

        `str` of it and a notebook show a table. It has `parameters`, `trainable_parameters` and `bytes`, and
        `variables`, without those of metrics and other local variables. A GraphDef lists no variables: they
        are found by their nodes, and it is not known which of them are trained.

        >>> graph = fe.Graph()
        >>> w = graph.variable(np.zeros([3, 2], np.float32), name="w")
        >>> graph.summary().parameters, graph.summary().bytes
        (6, 24)
        """
        from flowengine.graphs.variables.summary import summarized

        return summarized(cast("Graph", self), scopes_only=scopes_only)

    # -- variables ---------------------------------------------------------------------------------

    @overload
    def variable(
        self, initial: Any, *, partitioner: None = None, **options: Unpack[GraphVariableOptions]
    ) -> GraphVariable: ...

    @overload
    def variable(
        self, initial: Any, *, partitioner: Partitioner, **options: Unpack[GraphVariableOptions]
    ) -> PartitionedVariable: ...

    @overload
    def variable(
        self, initial: Any, *, partitioner: Partitioner | None, **options: Unpack[GraphVariableOptions]
    ) -> GraphVariable | PartitionedVariable: ...

    @builds
    def variable(
        self,
        initial: Any,
        *,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        collections: Collection[Hashable] | None = (),
        constraint: Constraint | None = None,
        regularizer: Regularizer | None = None,
        partitioner: Partitioner | None = None,
        caching_device: str | None = None,
        validate_shape: bool = True,
    ) -> Any:
        """Return a variable: a `GraphVariable`, or a `PartitionedVariable` where a partitioner is given.

        initial          a value, a Tensor, or an initializer: a function (graph, shape, dtype) -> Tensor,
                         which needs `shape`
        name             of its node, made unique in the name scope; "Variable" if none is given
        shape, dtype     the declared shape and type; by default those of the initial value
        trainable        whether optimizers change it, and it is listed under "trainable_variables"
        use_resource     whether it has a resource handle, and not a reference
        collections      the names of the collections that list it, by default "variables"
        constraint       a function of a Tensor that optimizers apply to its new value
        regularizer      a function of a Tensor whose result is listed under "regularization_losses"
        partitioner      a function (shape, dtype) -> the number of parts of each axis
        caching_device   the device that keeps its value for reads
        validate_shape   False for a variable that takes values of any shape

        Its nodes are always built outside of loops and branches. It has no value before its initializer has
        run: see `Session.initialize`. Raises InvalidArgumentError for arguments that do not fit.

        >>> graph = fe.Graph()
        >>> graph.variable(fe.initializers.zeros(), shape=[784, 10], dtype="float32", name="w")
        <GraphVariable 'w:0' shape=[784,10] dtype=float32>
        """
        from flowengine.graphs.variables.creation import make_variable
        from flowengine.graphs.variables.partitioned import make_partitioned
        from flowengine.graphs.variables.scopes import add_penalty

        graph = cast("Graph", self)
        options: dict[str, Any] = {
            "trainable": trainable,
            "use_resource": use_resource,
            "collections": collections or (),
            "constraint": constraint,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
        }
        made: Any
        if partitioner is None:
            made = make_variable(graph, initial, name=name, shape=shape, dtype=dtype, **options)
        else:
            made = make_partitioned(graph, initial, name or "Variable", shape, dtype, partitioner, **options)
        if regularizer is not None:
            add_penalty(graph, made, regularizer)
        return made

    def variable_scope(
        self,
        scope: str | VariableScope | None,
        *,
        default_name: str | None = None,
        reuse: Reuse | None = None,
        initializer: Any = None,
        regularizer: Regularizer | None = None,
        partitioner: Partitioner | None = None,
        constraint: Constraint | None = None,
        caching_device: str | None = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        getter: Callable[..., Any] | None = None,
        auxiliary_name_scope: bool = True,
    ) -> AbstractContextManager[VariableScope]:
        """Open a scope in which `get_variable` makes and finds variables; the context's value is the scope.

        scope          its name below the present one, a `VariableScope` to enter again, or None
        default_name   the name if `scope` is None, made unique by `_1`, `_2`, ...
        reuse          False: variables are made; True: they must exist; "auto": made if missing; None: as in
                       the outer scope. In a scope that reuses, inner scopes do
        auxiliary_name_scope   whether a name scope of the name is opened as well
        initializer, regularizer, partitioner, constraint, caching_device, dtype, use_resource, getter   for
                       each variable that is not given its own, here and in inner scopes; `getter` is called
                       instead of the usual way as getter(usual, name, **arguments)

        Raises InvalidArgumentError for arguments that do not fit.

        >>> graph = fe.Graph()
        >>> with graph.variable_scope("layer", initializer=fe.initializers.zeros()):
        ...     w = graph.get_variable("w", [784, 10])
        >>> with graph.variable_scope("layer", reuse=True):
        ...     graph.get_variable("w", [784, 10]) is w, w.name
        (True, 'layer/w:0')
        """
        return self.variable_store.entered(
            scope,
            default_name=default_name,
            reuse=reuse,
            auxiliary_name_scope=auxiliary_name_scope,
            initializer=initializer,
            regularizer=regularizer,
            partitioner=partitioner,
            constraint=constraint,
            caching_device=caching_device,
            dtype=dtype,
            use_resource=use_resource,
            getter=getter,
        )

    @overload
    def get_variable(
        self,
        name: str,
        shape: Any = None,
        *,
        partitioner: None = None,
        **options: Unpack[ScopeVariableOptions],
    ) -> GraphVariable: ...

    @overload
    def get_variable(
        self,
        name: str,
        shape: Any = None,
        *,
        partitioner: Partitioner,
        **options: Unpack[ScopeVariableOptions],
    ) -> PartitionedVariable: ...

    @overload
    def get_variable(
        self,
        name: str,
        shape: Any = None,
        *,
        partitioner: Partitioner | None,
        **options: Unpack[ScopeVariableOptions],
    ) -> Any: ...

    @builds
    def get_variable(
        self,
        name: str,
        shape: Any = None,
        *,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Regularizer | None = None,
        trainable: bool = True,
        collections: Collection[Hashable] | None = (),
        partitioner: Partitioner | None = None,
        constraint: Constraint | None = None,
        caching_device: str | None = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        reuse: Reuse | None = None,
        getter: Callable[..., Any] | None = None,
    ) -> Any:
        """Return the variable of this name in the present variable scope, made or found as the scope says.

        shape           of the variable; may be left out if the initializer is a value, or the variable exists
        initializer     a value or initializer as of `variable`; by default that of the scope, else
                        `initializers.glorot_uniform` for floating point and zero for other types
        reuse, getter   as of `variable_scope`, for this variable

        The others, `dtype`, `regularizer`, `trainable`, `collections`, `partitioner`, `constraint`,
        `caching_device`, `validate_shape` and `use_resource`, are those of `variable`. Raises
        InvalidArgumentError if the variable exists and should not, or the reverse, or has another shape or
        type.

        >>> graph = fe.Graph()
        >>> graph.get_variable("w", [784, 10], initializer="he_normal").name
        'w:0'
        """
        return self.variable_store.get(
            name,
            shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=collections,
            partitioner=partitioner,
            constraint=constraint,
            caching_device=caching_device,
            validate_shape=validate_shape,
            use_resource=use_resource,
            reuse=reuse,
            getter=getter,
        )

    @property
    def variable_store(self) -> VariableScopes:
        """The variables that `get_variable` has made, and the present variable scope."""
        if self._variables is None:
            from flowengine.graphs.variables.scopes import VariableScopes

            self._variables = VariableScopes(cast("Graph", self))
        return self._variables
