"""Write a loop's Python: the part of the region writer that knows `while`.

    t0, t1 = enter0, enter1
    i0 = 0
    while True:
        t2 = k0(t0, a0)          # Less
        if not t2: break
        ...
        i0 += 1
        if not i0 & m: m = yield

A region with a loop is a generator: it yields every so many iterations, and is told how many by what it
is sent. Each loop counts its iterations for the sake of error messages, which name one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node, OutputPort
from flowengine.passes.program import Program
from flowengine.passes.units import Conditions, Loop


def truth(value: Any) -> bool:
    """The truth of a predicate; InvalidArgumentError unless it is a scalar."""
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"The second input must be a scalar, but it has shape {list(value.shape)}")
    return bool(value)


class LoopWriting:
    """What a writer of regions does about loops. It relies on the writer's names, lines and scopes."""

    program: Program
    loops_written: int
    _indent: int
    _loops: tuple[tuple[str, str], ...]
    _names: dict[OutputPort, str]
    _free: list[str]
    _predicates: dict[OutputPort, Node]
    _open: Conditions | None
    _line: Callable[..., None]
    _constant: Callable[[Any, Any], str]
    _value: Callable[..., str]
    _argument: Callable[..., str]
    _define: Callable[[OutputPort], str]
    _scope: Callable[..., None]
    _take_back: Callable[[Iterable[OutputPort]], list[str]]
    _write_truth: Callable[[OutputPort], None]

    def _write_loop(self, loop: Loop) -> None:
        number = self.loops_written
        self.loops_written += 1
        conditions, self._open = self._open, None
        counter, mask = f"i{number}", f"m{number}"
        for node in loop.constants:
            port = OutputPort(node.name, 0)
            if self.program.origin(port) == port:  # a reference that is followed on entering
                self._line(
                    f"{self._define(port)} = {self._argument(node.inputs[0], False)}",
                    node,
                    (self._value(node.inputs[0]),),
                )
                if port in self._predicates:
                    self._write_truth(port)
        initial = [
            (v, self._argument(port, False, port in self.program.scalars), self._value(port))
            for v in loop.variables
            for port in (v.enter.inputs[0],)
        ]
        for variable, expression, plain in initial:
            name = self._define(variable.merge)
            self._line(f"{name} = {expression}", variable.enter, (plain,))
        self._line(f"{counter} = {mask} = 0")
        self._line("while True:")
        self._indent += 1
        outer, self._loops = self._loops, (*self._loops, (loop.path[-1], counter))
        for variable in loop.variables:
            if variable.merge in self._predicates:
                self._write_truth(variable.merge)
        program = self.program
        carried = [program.origin(v.following) for v in loop.variables]
        top_made = {port for unit in loop.top for port in program.defines(unit)}
        needed_later = [p for unit in loop.body for p in program.uses(unit)]
        self._scope(loop.top, [loop_cond := program.origin(loop.cond), *needed_later, *carried], outer=False)
        test = self._constant(truth, "truth")
        held = self._value(loop_cond)
        self._line(f"if not {test}({held}): break", loop.cond_switch, ("", held))
        self._scope(loop.body, carried, outer=False)
        pairs = [
            (self._names[v.merge], self._value(port))
            for v, port in zip(loop.variables, carried, strict=True)
            if port != v.merge
        ]
        if pairs:
            self._line(f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")
        made = top_made | {port for unit in loop.body for port in program.defines(unit)}
        ended = set(self._take_back([p for p in made if p in self._names]))
        for name in sorted(ended):
            self._line(f"{name} = None")
        self._line(f"{counter} += 1")
        self._line(f"if not {counter} & {mask}: {mask} = yield")
        self._indent -= 1
        self._loops = outer
        self._finish_loop(loop)
        self._open = conditions

    def _finish_loop(self, loop: Loop) -> None:
        """Give each Exit the value of its variable; the first takes over the name."""
        holder: dict[int, OutputPort] = {}
        for port, index in loop.exits.items():
            merge = loop.variables[index].merge
            if index not in holder:
                holder[index] = port
                self._names[port] = self._names[merge]
            else:
                self._line(f"{self._define(port)} = {self._names[merge]}")
        for index, variable in enumerate(loop.variables):
            name = self._names.pop(variable.merge)
            if index not in holder:
                self._line(f"{name} = None")
                self._free.append(name)
        for node in loop.constants:
            name = self._names.pop(OutputPort(node.name, 0), "")
            if name:
                self._line(f"{name} = None")
                self._free.append(name)
