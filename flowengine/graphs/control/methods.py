"""The methods of `Graph` that build conditionals, loops and arrays, each in another module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from flowengine.graphs.errors import builds
from flowengine.graphs.tensor import Operation

if TYPE_CHECKING:
    from flowengine.graphs.control.contexts import ControlContext
    from flowengine.graphs.control.tensor_array import GraphTensorArray
    from flowengine.graphs.graph import Graph


class GraphControlFlow:
    """Conditionals, loops and arrays of the graph that this is a part of.

    Functions that are given take and return structures: tensors, values convertible to tensors, and tuples,
    lists, dictionaries, named tuples and dataclasses of those (see `graphs.structures`). They are called
    once, while the graph is built, and may use any tensor from outside. All is built from TensorFlow 1's
    primitives. Raises TypeError or ValueError (as InvalidArgumentError) for functions and arguments that do
    not fit.
    """

    _contexts: dict[str, ControlContext]
    _kept: list[object]

    def context_of(self, name: str) -> ControlContext | None:
        """Return the branch or loop in which the node `name` was built; None if it is in none.

        >>> graph = fe.Graph()
        >>> y = graph.cond(graph.constant(True), lambda: graph.constant(1), lambda: graph.constant(2))
        >>> graph.place_in(graph.context_of("cond/Const"), [graph.ops.NoOp().name])
        >>> graph.note_context(graph.context_of("NoOp"))  # `cond` does this once for each branch
        >>> len(graph.collection("cond_context")), graph.context_of(y.op.name)
        (3, None)
        """
        graph = cast("Graph", self)
        if graph._unread_collections is not None:
            graph._read_collections()
        return self._contexts.get(name)

    def place_in(self, context: ControlContext, names: Iterable[str]) -> None:
        """Put the nodes `names` into the branch or loop `context`; see `flowengine.Graph.context_of`."""
        for name in names:
            self._contexts[name] = context
            context.members.append(name)

    def note_context(self, context: ControlContext) -> None:
        """List a finished `context` in the one around it, or else in the graph's collection.

        See `flowengine.Graph.context_of`.
        """
        if context.outer is None:
            cast("Graph", self).add_to_collection(context.collection, context)
        else:
            context.outer.nested.append(context)

    @builds
    def cond(
        self, pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
    ) -> Any:
        """Return the value of `true_fn()` if `pred` is true in a step, else that of `false_fn()`.

        pred   one bool, of rank 0
        true_fn, false_fn   functions without arguments; both return structures of one form, of the same types

        Shapes may differ. Only nodes built within a function are left out of a step that takes the other. Two
        Operations give an Operation, and None gives None. Raises TypeError or ValueError (as
        InvalidArgumentError) if the structures are not alike.

        >>> graph = fe.Graph()
        >>> x = graph.placeholder("float32", [])
        >>> y = graph.cond(x > 0, lambda: x, lambda: -x)
        >>> with fe.blocking.Session(graph) as session:
        ...     print(session.run(y, {x: -3.0}))
        3.0
        """
        from flowengine.graphs.control.conditionals import cond

        return cond(cast("Graph", self), pred, true_fn, false_fn, name)

    @builds
    def case(
        self,
        pred_fn_pairs: Sequence[tuple[Any, Callable[[], Any]]] | Mapping[Any, Callable[[], Any]],
        default: Callable[[], Any] | None = None,
        exclusive: bool = False,
        name: str | None = None,
    ) -> Any:
        """Return the value of the first function whose condition is true, else that of `default()`.

        pred_fn_pairs   pairs of a bool of rank 0 and a function without arguments
        default         the function for no true condition; without it, that is an error of the step
        exclusive       whether more than one true condition is an error of the step

        The functions return structures as those of `cond`.

        >>> graph = fe.Graph()
        >>> x = graph.constant(7)
        >>> pairs = [(x < 5, lambda: "small"), (x < 10, lambda: "middling")]
        >>> size = graph.case(pairs, default=lambda: "large")
        >>> fe.testing.evaluate(graph, [size.name])[0].tolist()
        b'middling'
        """
        from flowengine.graphs.control.conditionals import case

        return case(cast("Graph", self), pred_fn_pairs, default, exclusive, name)

    @builds
    def switch_case(
        self,
        branch_index: Any,
        branch_fns: Sequence[Callable[[], Any]] | Mapping[int, Callable[[], Any]],
        default: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> Any:
        """Return the value of the function with this number; for any other, of `default` or the last.

        branch_index   one integer, of rank 0
        branch_fns     a list, or functions by their numbers
        default        the function for other numbers

        >>> graph = fe.Graph()
        >>> chosen = graph.switch_case(graph.constant(1), [lambda: 10.0, lambda: 20.0])
        >>> fe.testing.evaluate(graph, [chosen.name])[0].tolist()
        20.0
        """
        from flowengine.graphs.control.conditionals import switch_case

        return switch_case(cast("Graph", self), branch_index, branch_fns, default, name)

    @builds
    def while_loop(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        loop_vars: Any,
        shape_invariants: Any = None,
        *,
        parallel_iterations: int = 10,
        swap_memory: bool = False,
        maximum_iterations: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return the variables after `body` was applied for as long as `cond` holds.

        cond, body            take the variables, one argument each if `loop_vars` is a list or tuple; the one
                              returns one bool, the other the variables of the next iteration
        loop_vars             a structure of their first values
        shape_invariants      the same structure of shapes, for variables that change their shape: the part
                              that is the same in every iteration; None in a shape is any size
        parallel_iterations   how many iterations may be under way at once
        swap_memory           noted for TensorFlow
        maximum_iterations    one integer, after which it ends in any case

        Returns a structure like `loop_vars`. Raises TypeError or ValueError (as InvalidArgumentError) where
        the body returns another structure, or a variable of another type or shape.

        >>> graph = fe.Graph()
        >>> i, total = graph.while_loop(lambda i, total: i < 5, lambda i, total: (i + 1, total + i), (0, 0))
        >>> fe.testing.evaluate(graph, [total.name])[0].tolist()
        10
        """
        from flowengine.graphs.control.loops import while_loop

        return while_loop(
            cast("Graph", self),
            cond,
            body,
            loop_vars,
            shape_invariants,
            parallel_iterations,
            swap_memory,
            maximum_iterations,
            name,
        )

    @builds
    def map(
        self,
        fn: Callable[[Any], Any],
        elems: Any,
        dtype: Any = None,
        *,
        parallel_iterations: int = 10,
        swap_memory: bool = False,
        infer_shape: bool = True,
        name: str | None = None,
    ) -> Any:
        """Apply a function to each row, and return its results as rows.

        fn            takes a structure like `elems` of rows (...)
        elems         a structure of tensors (n, ...)
        dtype         the types of its results, as a structure; inferred from `fn` if not given
        infer_shape   False if its results differ in shape; then only results of equal shape can be stacked
        parallel_iterations, swap_memory   as for `while_loop`

        Returns a structure of tensors (n, ...).

        >>> graph = fe.Graph()
        >>> squares = graph.map(lambda row: row * row, graph.constant([1, 2, 3]))
        >>> fe.testing.evaluate(graph, [squares.name])[0].tolist()
        [1, 4, 9]
        """
        from flowengine.graphs.control.iteration import map_rows

        return map_rows(
            cast("Graph", self), fn, elems, dtype, parallel_iterations, swap_memory, infer_shape, name
        )

    @builds
    def fold(
        self,
        fn: Callable[[Any, Any], Any],
        elems: Any,
        initializer: Any = None,
        *,
        reverse: bool = False,
        parallel_iterations: int = 10,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> Any:
        """Fold rows by `fn(so_far, row)`, beginning with `initializer` or the first row.

        fn        returns a structure like `initializer`
        elems     a structure of tensors (n, ...)
        reverse   whether to go from the last row to the first
        parallel_iterations, swap_memory   as for `while_loop`

        Returns the value of `fn` for the last row.

        >>> graph = fe.Graph()
        >>> total = graph.fold(lambda so_far, row: so_far + row, graph.constant([1, 2, 3]))
        >>> fe.testing.evaluate(graph, [total.name])[0].tolist()
        6
        """
        from flowengine.graphs.control.iteration import fold

        return fold(
            cast("Graph", self), fn, elems, initializer, reverse, parallel_iterations, swap_memory, name
        )

    @builds
    def scan(
        self,
        fn: Callable[[Any, Any], Any],
        elems: Any,
        initializer: Any = None,
        *,
        reverse: bool = False,
        parallel_iterations: int = 10,
        swap_memory: bool = False,
        infer_shape: bool = True,
        name: str | None = None,
    ) -> Any:
        """Return the values of `fn(so_far, row)` for all rows, as rows: `fold` with each step's value.

        fn, elems, initializer, reverse   as for `fold`
        parallel_iterations, swap_memory, infer_shape   as for `map` and `while_loop`

        Without an initializer the first row of the result is that of `elems`.

        >>> graph = fe.Graph()
        >>> totals = graph.scan(lambda so_far, row: so_far + row, graph.constant([1, 2, 3]))
        >>> fe.testing.evaluate(graph, [totals.name])[0].tolist()
        [1, 3, 6]
        """
        from flowengine.graphs.control.iteration import scan

        return scan(
            cast("Graph", self),
            fn,
            elems,
            initializer,
            reverse,
            parallel_iterations,
            swap_memory,
            infer_shape,
            name,
        )

    @builds
    def tensor_array(
        self,
        dtype: Any,
        size: Any = None,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        tensor_array_name: str = "",
        element_shape: Any = None,
        infer_shape: bool = True,
        name: str | None = None,
    ) -> GraphTensorArray:
        """Add an array of tensors that a loop writes and reads.

        dtype              of every element
        size               one integer; may be left out if it grows
        dynamic_size       whether it grows when it is written behind its end
        clear_after_read   whether an element is dropped once it is read
        tensor_array_name  a name of the array in the step, such as for the array of its gradients
        element_shape      of every element, as far as it is known
        infer_shape        False if elements differ in shape

        >>> graph = fe.Graph()
        >>> array = graph.tensor_array("int32", 2).write(0, 5).write(1, 6)
        >>> fe.testing.evaluate(graph, [array.stack().name])[0].tolist()
        [5, 6]
        """
        from flowengine.graphs.control.tensor_array import GraphTensorArray

        return GraphTensorArray.create(
            cast("Graph", self),
            dtype,
            size,
            dynamic_size=dynamic_size,
            clear_after_read=clear_after_read,
            tensor_array_name=tensor_array_name,
            element_shape=element_shape,
            infer_shape=infer_shape,
            name=name,
        )

    @builds
    def call(
        self,
        python_function: Callable[..., Any],
        inputs: Sequence[Any],
        dtypes: Any,
        *,
        shapes: Sequence[Any] | None = None,
        stateful: bool = True,
        name: str | None = None,
    ) -> Any:
        """Call a function of the program from a node of the graph, when a step gets there.

        python_function   takes an array for each input (bytes for a single string), which it must not write
                          to; a coroutine function of trio is awaited by the step, beside its other nodes
        inputs            tensors, in the order of its arguments
        dtypes            a structure of the types of its results; None for a function without results
        shapes            of its results, one each; not known if they are not given
        stateful          False for a function without effects that returns equal results for equal inputs

        Returns tensors in the structure of `dtypes`, or the Operation. It has no derivative. An exception of
        the function fails the step; a cancelled step cancels it where it waits. The function stays in this
        process: a graph that was written, or runs in another task, fails there with FailedPreconditionError,
        and where `Config.python_calls` is False with PermissionDeniedError.

        >>> graph = fe.Graph()
        >>> y = graph.call(lambda x: np.sort(x), [graph.constant([3, 1, 2])], "int32", shapes=[[3]])
        >>> with fe.blocking.Session(graph) as session:
        ...     print(session.run(y))
        [1 2 3]
        """
        from flowengine.graphs.control.python_calls import call_python

        return call_python(cast("Graph", self), python_function, inputs, dtypes, shapes, stateful, name)

    def keep(self, held: object) -> None:
        """Keep the object `held` as long as the graph exists, such as a function that its nodes call.

        >>> fe.Graph().keep(lambda x: x + 1)
        """
        self._kept.append(held)

    @builds
    def assert_that(
        self,
        condition: Any,
        data: Sequence[Any] = (),
        summarize: int = 3,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that fails the step with InvalidArgumentError unless `condition` is true.

        condition   bools of any shape
        data        values that the error shows
        summarize   how many elements of each to show
        message     a text before them

        A step runs it if it is a target, or if nodes that the step runs were built within
        `graph.control_dependencies([...])` of it.

        >>> graph = fe.Graph()
        >>> x = graph.placeholder("int32", [])
        >>> with graph.control_dependencies([graph.assert_that(x > 0, [x], message="x is positive, not")]):
        ...     y = fe.identity(x)
        >>> with fe.blocking.Session(graph) as session:
        ...     session.run(y, {x: -1})
        Traceback (most recent call last):
        flowengine.core.errors.InvalidArgumentError: ...x is positive, not...
        """
        from flowengine.core import dtypes
        from flowengine.graphs.conversion import convert

        graph = cast("Graph", self)
        with graph.name_scope(name or "Assert") as scope:
            flag = convert(graph, condition, dtypes.bool_)
            if flag.shape.rank != 0:
                every = graph.ops.Range(0, graph.ops.Rank(flag), 1)
                flag = graph.ops.All(flag, every)
            shown = [convert(graph, each) for each in ([message] if message else []) + list(data)]
            if not shown:
                shown = [convert(graph, f"the condition '{flag.name}' does not hold")]
            found: Operation = graph.ops.Assert(flag, shown, summarize=summarize, name=scope)
        return found
