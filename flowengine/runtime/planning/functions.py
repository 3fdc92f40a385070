"""Function calls: PartitionedCall, If, Case, While, For, and a function used as an op.

A body runs as child items of the same step: same rendezvous, cancel scope and step container, so its waiting
items wait as any item does, and a function may call itself. All calls with the same attributes share the
body's plan. It is made with the caller's if it runs whenever the call does, else on the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol
from weakref import WeakSet

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.functions.bodies import function_key
from flowengine.functions.rows import rows_of
from flowengine.functions.signatures import FunctionTypes, misfit, named_by, types_of
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionBody, FunctionLibrary
from flowengine.ir.graph import Node
from flowengine.ir.names import (
    CASE_OPS,
    FOR_OP,
    FUNCTION_CALL_OPS,
    IF_OPS,
    SYMBOLIC_GRADIENT,
    WHILE_OPS,
)
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import preparing
from flowengine.resources.function_calls import FunctionCaller
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.tiers import TieredPlan, tiered

#: Takes the results of a call.
Done = Callable[[Sequence[Any]], None]
#: Runs a body on arguments: returns its results if it ended at once, else None and calls `Done` later.
RunBody = Callable[[Plan, Sequence[Any], Done], Sequence[Any] | None]


class FunctionTable:
    """The plans of a graph's functions, made on the first call.

    compiler   compiles a plan that has become hot, now or soon; None leaves all to the interpreter
    tables     the tables that are closed with each other: this one joins them, and those made from it
    """

    def __init__(
        self,
        library: FunctionLibrary,
        kernels: KernelRegistry,
        context: PassContext,
        compiler: Callable[[TieredPlan], None] | None = None,
        tables: WeakSet[FunctionTable] | None = None,
    ) -> None:
        self._tables: WeakSet[FunctionTable] = WeakSet() if tables is None else tables
        self._tables.add(self)
        self._library = library
        self._kernels = kernels
        self._context = context
        self.compiler = compiler
        #: Calls them for resources; set by the runner of steps.
        self.caller: FunctionCaller | None = None
        self._plans: dict[Any, TieredPlan] = {}
        #: The types of their arguments and results.
        self._types: dict[Any, FunctionTypes | None] = {}
        #: Functions that are being planned.
        self._under_way: set[Any] = set()

    @property
    def definitions(self) -> object:
        """Return the library of the graph."""
        return self._library.definitions

    def of_library(self, library: object) -> FunctionTable:
        """Return a table of other functions, planned as these are."""
        other = FunctionLibrary(library, self._library.registry)
        return FunctionTable(other, self._kernels, self._context, self.compiler, self._tables)

    def close(self) -> None:
        """Forget all plans, which refer to this table, and its caller: no more steps begin."""
        self._plans.clear()
        self._types.clear()
        self.caller = None

    def calls(self, node: Node) -> bool:
        """Return whether the node is a call that this table can make."""
        return node.op in FUNCTION_CALL_OPS or node.op in self._library

    def plans_of(self, function: FuncAttr) -> TieredPlan:
        """Return the plans of a body. Raises as `FunctionLibrary.instantiate` and `make_plan` do."""
        plans = self._plans.get((*function_key(function), None))
        return at_once(self.planning(function)) if plans is None else plans

    def types_of(self, function: FuncAttr) -> FunctionTypes | None:
        """Return the types of a planned function's arguments and results; see `signatures.types_of`."""
        return self._types[(*function_key(function), None)]

    def rows_of(self, function: FuncAttr, count: int) -> FunctionBody | None:
        """Return the body for many rows at once in its first `count` arguments; None if none is known."""
        return rows_of(self._instantiated(function), count, self._library.registry)

    def planning(self, function: FuncAttr, rows: int | None = None) -> Pieces[TieredPlan]:
        """Return plans as `plans_of` does, in pieces; with `rows`, of the existing body for many rows."""
        key = (*function_key(function), rows)
        plans = self._plans.get(key)
        if plans is None:
            body = self._instantiated(function) if rows is None else self.rows_of(function, rows)
            assert body is not None
            self._types[key] = types_of(body)
            context = replace(
                self._context,
                feeds=body.arguments,
                fetches=body.results,
                targets=body.targets,
                declared=tuple(body.graph[port.node] for port in body.arguments),
                function=function.name,
            )
            yield
            self._under_way.add(key)
            try:
                graph = yield from preparing(body.graph, context)
                plans = yield from tiered(graph, context, self._kernels, self)
            finally:
                self._under_way.discard(key)
            plans = self._plans.setdefault(key, plans)
        return plans

    def _instantiated(self, function: FuncAttr) -> FunctionBody:
        if function.name != SYMBOLIC_GRADIENT:
            return self._library.instantiate(function.name, function.attrs)
        # Imported here because few graphs differentiate when they run.
        from flowengine.gradients.symbolic_gradient import gradient_body

        attrs = function.attrs
        return gradient_body(self._library, attrs["f"], attrs["Tin"], len(attrs["Tout"]))

    def planning_beforehand(self, function: FuncAttr) -> Pieces[None]:
        """Plan a body that a call will need, unless it is being planned, such as one that calls itself."""
        if (*function_key(function), None) in self._under_way:
            return
        try:
            yield from self.planning(function)
        except Exception:
            # The call meets it again, if it is ever made, and reports it.
            return

    def bind(self, node: Node, kernels: KernelRegistry) -> Call:
        """Return the call that a node stands for, in a plan of these kernels."""
        attrs, table = node.attrs, self
        inside = kernels.inside(node)
        if inside is not kernels:
            # They account for the kernels of this very call: it shares no plans.
            table = FunctionTable(self._library, inside, self._context, tables=self._tables)
            table.caller = self.caller
        if node.op in self._library:
            return _Invoke(_CalledBody(table, FuncAttr(node.op, attrs)))
        bodies = [_CalledBody(table, function, types) for function, types in named_by(node)]
        if node.op in IF_OPS:
            return _Branch(bodies[::-1], _truth)
        if node.op in CASE_OPS:
            return _Branch(bodies, _case_index)
        if node.op in WHILE_OPS:
            return _WhileLoop(*bodies)
        if node.op == FOR_OP:
            return _Count(*bodies)
        if node.op == SYMBOLIC_GRADIENT:
            return _Invoke(_CalledBody(table, FuncAttr(node.op, attrs)))
        return _Invoke(*bodies)


class _CalledBody:
    """A function as a call names it, and the types of its arguments and results, if the call has them."""

    def __init__(self, table: FunctionTable, function: FuncAttr, types: FunctionTypes | None = None) -> None:
        self._table = table
        self._function = function
        self._types = types
        self._plans: TieredPlan | None = None

    def planning(self) -> Pieces[None]:
        """Have a plan before it is needed, if one can be made."""
        return self._table.planning_beforehand(self._function)

    def plan(self, args: Sequence[Any]) -> Plan:
        """Return the plan to run now with these arguments.

        Raises InvalidArgumentError if the function does not fit this call; else as `plans_of` does.
        """
        plans = self._plans
        if plans is None:
            plans = self._table.plans_of(self._function)
            if self._types is not None:
                name = self._function.name
                if (words := misfit(name, self._table.types_of(self._function), self._types)) is not None:
                    raise InvalidArgumentError(words)
            self._plans = plans
        compiler = self._table.compiler
        if compiler is None:
            return plans.interpreted
        plan = plans.choose(args)
        if plan is plans.interpreted and plans.ran(args, 0.0):
            compiler(plans)
        return plan


#: Iterations of one loop until a compiled plan is chosen anew, for its present arguments.
_ROUNDS: Final = 16


class _Rounds:
    """A body that one execution of a loop runs in each iteration."""

    __slots__ = ("_body", "_left", "_plan")

    def __init__(self, body: _CalledBody) -> None:
        self._body = body
        self._plan: Plan | None = None
        self._left = 0

    def plan(self, args: Sequence[Any]) -> Plan:
        """Return the plan of the next iteration."""
        if self._plan is not None and self._left:
            self._left -= 1
            return self._plan
        plan = self._body.plan(args)
        if plan.unfused is not None:
            self._plan, self._left = plan, _ROUNDS - 1
        return plan


class Call(Protocol):
    """One kind of call."""

    def begin(self, run: RunBody, args: Sequence[Any], done: Done) -> None:
        """Start it; `done` gets the results, possibly before this returns."""

    def planning(self) -> Pieces[None]:
        """Plan the bodies that always run; a branch is planned when it is taken."""


class _Invoke:
    """Run one function on the arguments."""

    def __init__(self, body: _CalledBody) -> None:
        self._body = body
        self.planning = body.planning

    def begin(self, run: RunBody, args: Sequence[Any], done: Done) -> None:
        results = run(self._body.plan(args), args, done)
        if results is not None:
            done(results)


class _Branch:
    """Run the function that the first argument selects on the others."""

    def __init__(self, bodies: Sequence[_CalledBody], choose: Callable[[Any, int], int]) -> None:
        self._bodies = bodies
        self._choose = choose

    def planning(self) -> Pieces[None]:
        yield from ()

    def begin(self, run: RunBody, args: Sequence[Any], done: Done) -> None:
        body = self._bodies[self._choose(args[0], len(self._bodies))]
        results = run(body.plan(args[1:]), args[1:], done)
        if results is not None:
            done(results)


class _WhileLoop:
    """While: run `cond` on the loop variables, then `body`, until `cond` says false."""

    def __init__(self, cond: _CalledBody, body: _CalledBody) -> None:
        self._cond = cond
        self._body = body

    def planning(self) -> Pieces[None]:
        yield from self._cond.planning()
        yield from self._body.planning()

    def begin(self, run: RunBody, args: Sequence[Any], done: Done) -> None:
        cond, body = _Rounds(self._cond), _Rounds(self._body)

        # Bodies that end at once run in this loop, so that its length does not deepen the stack.
        def advance(variables: Sequence[Any], verdict: Sequence[Any] | None) -> None:
            while True:
                if verdict is None:
                    verdict = run(cond.plan(variables), variables, partial(advance, variables))
                    if verdict is None:
                        return
                if not _truth(verdict[0], 2):
                    done(variables)
                    return
                verdict = None
                results = run(body.plan(variables), variables, lambda results: advance(results, None))
                if results is None:
                    return
                variables = results

        advance(args, None)


class _Count:
    """For: run `body` on (i, variables) for i in range(start, limit, delta)."""

    def __init__(self, body: _CalledBody) -> None:
        self._body = body
        self.planning = body.planning

    def begin(self, run: RunBody, args: Sequence[Any], done: Done) -> None:
        start, limit, delta = map(_bound_of_range, ("start", "limit", "delta"), args)
        if delta == 0:
            raise InvalidArgumentError("For has a delta of 0: it would never end")
        indices = iter(range(start, limit, delta))
        body = _Rounds(self._body)

        def advance(variables: Sequence[Any]) -> None:
            while True:
                index = next(indices, None)
                if index is None:
                    done(variables)
                    return
                given = (np.int32(index), *variables)
                results = run(body.plan(given), given, advance)
                if results is None:
                    return
                variables = results

        advance(args[3:])


def _bound_of_range(name: str, value: Any) -> int:
    if np.ndim(value):
        raise InvalidArgumentError(f"{name} must be a scalar, and has the shape {list(np.shape(value))}")
    return int(value)


def _truth(value: Any, _: int) -> int:
    """Return a condition of any dtype: a scalar is true unless zero or empty, a tensor if it has elements."""
    if getattr(value, "ndim", 0):
        return int(value.size > 0)
    if isinstance(value, np.ndarray):
        value = value[()]
    return int(bool(value))


def _case_index(value: Any, count: int) -> int:
    """Return the branch of a Case: the last one for an index out of range."""
    index = int(value)
    return index if 0 <= index < count else count - 1
