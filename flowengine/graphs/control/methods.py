"""The methods of `Graph` that build conditionals, loops and arrays, each by a module of its own."""

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

    Functions that are given take and return structures: tensors, what stands for them, and tuples, lists,
    dictionaries, named tuples and dataclasses of those (see `graphs.structures`). They are called once, while
    the graph is built, and may use any tensor from outside. All is built from TensorFlow 1's primitives.
    """

    _contexts: dict[str, ControlContext]
    _kept: list[object]

    def context_of(self, name: str) -> ControlContext | None:
        """The branch or loop in which a node was built; None for one that was read, or stands outside."""
        graph = cast("Graph", self)
        if graph._unread_collections is not None:
            graph._read_collections()
        return self._contexts.get(name)

    def place_in(self, context: ControlContext, names: Iterable[str]) -> None:
        """Let nodes be in a branch or loop from here on."""
        for name in names:
            self._contexts[name] = context
            context.members.append(name)

    def note_context(self, context: ControlContext) -> None:
        """List a branch or loop that has been built, with that around it or in a collection."""
        if context.outer is None:
            cast("Graph", self).add_to_collection(context.collection, context)
        else:
            context.outer.nested.append(context)

    @builds
    def cond(
        self, pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
    ) -> Any:
        """Return the value of `true_fn()` if `pred` is true in a step, else that of `false_fn()`.

        pred   one bool

        Both return structures of one form, of the same types; shapes may differ. Only what is built within a
        function is left undone where the other is taken. Operations in the same place give an Operation, and
        None gives None. Raises TypeError or ValueError (as InvalidArgumentError) where they are not alike.
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

        exclusive   more than one true condition is an error of the step

        Without a default, no true condition is an error of the step. Otherwise as `cond`.
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

        branch_index   one integer
        branch_fns     a list, or functions by their numbers
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
        """The variables after `body` was applied for as long as `cond` holds.

        cond, body            take the variables, one argument each if `loop_vars` is a list or tuple; the one
                              returns one bool, the other the variables of the next iteration
        loop_vars             a structure of their first values
        shape_invariants      the same structure with a shape in each place: what is the same in every
                              iteration, where a variable changes its shape; None in a shape is any size
        parallel_iterations   how many iterations may be under way at once
        swap_memory           noted for TensorFlow
        maximum_iterations    one integer, after which it ends in any case

        Returns a structure like `loop_vars`. Raises TypeError or ValueError (as InvalidArgumentError) where
        the body returns another structure, or a variable of another type or shape.
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
        dtype         the types of what it returns, as a structure; found from it if not given
        infer_shape   False if its results differ in shape; then nothing can be stacked but what is alike

        Returns a structure of tensors (n, ...). Arguments otherwise as for `while_loop`.
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

        The result is the value of `fn` for the last row.

        reverse   from the last row to the first

        Returns a structure like `initializer`. Arguments otherwise as for `map`.
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

        Without an initializer the first row of the result is that of `elems`.
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
        """An array of tensors that a loop writes and reads.

        size               one integer; may be left out if it grows
        dynamic_size       whether it grows when it is written behind its end
        clear_after_read   whether an element is dropped once it is read
        element_shape      of every element, as far as it is known
        infer_shape        False if elements differ in shape
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
        dtypes            a structure of the types of what it returns; None for a function without results
        shapes            of its results, one each; not known if they are not given
        stateful          False for a function that does nothing but return the same for the same inputs

        Returns tensors in the structure of `dtypes`, or the Operation. It has no derivative. An exception of
        the function fails the step; a cancelled step cancels it where it waits. The function stays in this
        process: a graph that was written, or runs in another task, fails there with FailedPreconditionError;
        where `Config.python_calls` is False, with PermissionDeniedError.
        """
        from flowengine.graphs.control.python_calls import call_python

        return call_python(cast("Graph", self), python_function, inputs, dtypes, shapes, stateful, name)

    def keep(self, held: object) -> None:
        """Keep an object for as long as the graph is there: a function that its nodes call."""
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
        """An operation that fails the step where not all of a condition is true: an InvalidArgumentError.

        data        what the error shows, so many elements of each as `summarize` says
        message     what stands before it

        Let it run by `graph.control_dependencies([...])` around what depends on it, or as a target.
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
