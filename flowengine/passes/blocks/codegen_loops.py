"""Write a loop's Python: the part of the region writer that knows `while`.

    t0, t1 = enter0, enter1
    i0 = m0 = 0
    while True:
        t2 = t0 < a0             # Less
        if not t2: break
        t1 = k0(t1)              # Tanh
        t0 = t0 + k1             # Add
        i0 += 1
        if not i0 & m0: m0 = yield m0

A region with a loop is a generator: after a number of iterations it yields their count (a mask, one less than
a power of two), and the caller sends the number of iterations before the next yield. Nested loops share a
clock `n` that ticks in each of them, while each has a mask of its own, because their iterations differ in
length; a long body also ticks in the middle. The counters `i0, i1, ...` serve error messages, which name the
iteration.

A variable's next value gets its name at once if the present value is not needed any more; the other variables
get theirs at the end of the iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node, OutputPort
from flowengine.passes.blocks.program import Program
from flowengine.passes.blocks.region_units import Conditions, Loop, LoopVariable, Unit

#: A body that takes longer than this reads the clock in between.
_MICROSECONDS_PER_TICK: Final = 300.0
#: The time of a node without an estimate. Most take less.
_MICROSECONDS: Final = 5.0


def truth(value: Any) -> bool:
    """Return the truth of a predicate. Raises InvalidArgumentError unless it is a scalar."""
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"The second input must be a scalar, but it has shape {list(value.shape)}")
    return bool(value)


class LoopSourceWriter:
    """The part of a region writer for loops. It relies on the writer's names, lines and scopes."""

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
    #: {the next value of a loop's variable: the name of the present one, which is not needed any more}
    _takes_over: dict[OutputPort, str]
    #: The clock and the mask of the loop that is being written.
    _clock: str
    _mask: str
    #: Microseconds of the units written since the last reading of the clock.
    _since_tick: float

    def _write_loop(self, loop: Loop, ending: Sequence[OutputPort]) -> None:
        """`ending`: origins that nobody takes after the loop."""
        number = self.loops_written
        self.loops_written += 1
        conditions, self._open = self._open, None
        self._write_entry(loop, ending)
        counter = f"i{number}"
        if self._loops:
            self._line(f"{counter} = 0")
        else:
            inside, longest = self._extent(loop)
            self._clock = "n" if inside > 1 or longest > _MICROSECONDS_PER_TICK else counter
            masks = "".join(f"m{number + index} = " for index in range(inside))
            self._line(f"{counter} = {masks}{'n = ' if self._clock == 'n' else ''}0")
        outer = self._loops, self._mask
        self._loops, self._mask = (*self._loops, (loop.path[-1], counter)), f"m{number}"
        self._line("while True:")
        self._indent += 1
        left = self._write_iteration(loop)
        self._line(f"{counter} += 1")
        self._tick()
        self._indent -= 1
        self._loops, self._mask = outer
        for name in left:
            self._line(f"{name} = None")
        self._finish_loop(loop)
        self._open = conditions

    def _tick(self) -> None:
        clock, mask = self._clock, self._mask
        self._since_tick = 0.0
        if clock == "n":
            self._line("n += 1")
        self._line(f"if not {clock} & {mask}: {mask} = yield {mask}")

    def _breathe(self, unit: Unit) -> None:
        """Check the time now and then in a long body. Called after each unit of a scope."""
        if not self._loops or self._clock != "n" or self.program.is_silent(unit):
            return
        self._since_tick += self._microseconds(unit)
        if self._since_tick > _MICROSECONDS_PER_TICK:
            self._tick()

    def _microseconds(self, unit: Unit) -> float:
        """Return the microseconds that a unit takes; 0 for a loop, which reads the clock itself."""
        return 0.0 if unit.loop is not None else max(self.program.costs.get(unit.name, 0.0), _MICROSECONDS)

    def _extent(self, loop: Loop) -> tuple[int, float]:
        """Return (number of loops in it, itself included; microseconds of the longest iteration)."""
        units = (*loop.top, *loop.body)
        count, longest = 1, sum(map(self._microseconds, units))
        for unit in units:
            if unit.loop is not None:
                inside, microseconds = self._extent(unit.loop)
                count, longest = count + inside, max(longest, microseconds)
        return count, longest

    def _write_entry(self, loop: Loop, ending: Sequence[OutputPort]) -> None:
        """Write the Enters: follow constants that are references, set variables to their first value."""
        program = self.program
        for node in loop.constants:
            port = OutputPort(node.name, 0)
            if program.origin(port) == port:
                text = f"{self._define(port)} = {self._argument(node.inputs[0], False)}"
                self._line(text, node, (self._value(node.inputs[0]),))
                if port in self._predicates:
                    self._write_truth(port)
        inside = {origin for unit in (*loop.top, *loop.body) for origin in program.uses(unit)}
        inside.update(program.origin(node.inputs[0]) for node in loop.constants)
        inside.update(program.origin(variable.following) for variable in loop.variables)
        started: list[tuple[LoopVariable, OutputPort, str, str]] = []
        for variable in loop.variables:
            port = variable.enter.inputs[0]
            expression = self._argument(port, False, port in program.scalars)
            started.append((variable, program.origin(port), expression, self._value(port)))
        sources = Counter(origin for _, origin, _, _ in started)
        given_up: list[str] = []
        for variable, origin, expression, plain in started:
            if origin in ending and origin not in inside and sources[origin] == 1 and expression == plain:
                # Nobody else takes it: the variable has the name from here on.
                self._names[variable.merge] = self._names.pop(origin)
                continue
            self._line(f"{self._define(variable.merge)} = {expression}", variable.enter, (plain,))
            if origin in ending and origin not in inside and origin in self._names:
                given_up.append(self._names[origin])
        for name in dict.fromkeys(given_up):
            self._line(f"{name} = None")

    def _write_iteration(self, loop: Loop) -> list[str]:
        """Write the `while`; return names that hold a value at its end."""
        program = self.program
        for variable in loop.variables:
            if variable.merge in self._predicates:
                self._write_truth(variable.merge)
        carried = [program.origin(v.following) for v in loop.variables]
        top_made = {port for unit in loop.top for port in program.defines(unit)}
        needed_later = [p for unit in loop.body for p in program.uses(unit)]
        verdict = program.origin(loop.cond)
        self._scope(loop.top, [verdict, *needed_later, *carried], outer=False)
        held = self._value(verdict)
        test = held if verdict in program.scalars else f"{self._constant(truth, 'truth')}({held})"
        self._line(f"if not {test}: break", loop.cond_switch, ("", held))
        left = [self._names[port] for port in top_made if port in self._names and not self._is_small(port)]
        taken = self._take_names_over(loop, carried)
        self._scope(loop.body, carried, outer=False)
        pairs = [
            (self._names[v.merge], self._value(port))
            for v, port in zip(loop.variables, carried, strict=True)
            if port != v.merge and port not in taken
        ]
        if pairs:
            self._line(f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")
        made = top_made | {port for unit in loop.body for port in program.defines(unit)}
        for port in taken:
            self._names.pop(port)
        ended = [port for port in made if port in self._names]
        small = [port for port in ended if self._is_small(port)]
        self._take_back(small)
        for name in sorted(self._take_back([port for port in ended if port not in small])):
            self._line(f"{name} = None")
        return sorted(left)

    def _is_small(self, port: OutputPort) -> bool:
        """Return whether a value may be kept a little longer."""
        return port in self.program.scalars

    def _take_names_over(self, loop: Loop, carried: Sequence[OutputPort]) -> set[OutputPort]:
        """Find the next values that may take the names of the present ones; return their origins."""
        program = self.program
        last: dict[OutputPort, int] = {}
        maker: dict[OutputPort, int] = {}
        for index, unit in enumerate(loop.body):
            for port in program.uses(unit):
                last[port] = index
            for port in unit.inputs:  # of a Merge, the values of its sides
                last[program.origin(port)] = index
            for port in program.defines(unit):
                if not unit.conditions and unit.loop is None:
                    maker[port] = index
        present = {variable.merge for variable in loop.variables}
        times = Counter(carried)
        taken: set[OutputPort] = set()
        for variable, port in zip(loop.variables, carried, strict=True):
            made = maker.get(port)
            if made is None or times[port] > 1 or times[variable.merge] or port in present:
                continue
            if last.get(variable.merge, -1) <= made:
                self._takes_over[port] = self._names[variable.merge]
                taken.add(port)
        return taken

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


__all__ = ["LoopSourceWriter", "truth"]
