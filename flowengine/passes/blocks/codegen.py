"""Write a region's Python.

    def region(args, ctx):
        a0, a1 = args; args.clear()
        t0 = k0(a0, a1)          # MatMul 'dense/MatMul'
        t0 = k1(t0, k2)          # BiasAdd 'dense/BiasAdd'
        return t0

The text holds only identifiers and numbers made here: kernels and constants are reached through the
variables `k0, k1, ...` of a closure, and names of the graph, which may be any text, appear in comments
only where the source is shown, never in compiled text. So equal structures give equal text, and
compiled code is shared by text.

A name is reused after the last use of its value. A region with a loop is a generator: it yields after a
number of iterations, and the sent value says after how many it yields next: see `codegen_loops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import Constant, HandsOn
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.blocks.codegen_calls import CallSourceWriter
from flowengine.passes.blocks.codegen_loops import LoopSourceWriter, truth
from flowengine.passes.blocks.compiled_regions import CompiledRegion, Line
from flowengine.passes.blocks.program import Program
from flowengine.passes.blocks.region_units import Conditions, Unit

#: Units that are written before writing may be interrupted: some 10 us each.
_UNITS_A_PIECE: Final = 32


def compiling_region(program: Program, kernels: KernelRegistry) -> Pieces[CompiledRegion]:
    """Compile a program, in pieces; Python's own compiler compiles the text in one.

    Raises the errors of `KernelRegistry.find`.

    If `program.scalars` says that all operands of a node are of rank 0, it gets constants and inputs as NumPy
    scalars: an operation on two of them takes 0.04 us, with a rank-0 array among them 0.4.
    """
    writer = _ProgramWriter(program, kernels)
    yield from writer.writing()
    yield
    return CompiledRegion(
        writer.lines,
        writer.constants,
        is_generator=writer.loops_written > 0,
        takes_context=writer.takes_context,
    )


def as_scalar(value: Any) -> Any:
    """Return a rank-0 array as a NumPy scalar, and anything else unchanged."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


class _ProgramWriter(CallSourceWriter, LoopSourceWriter):
    def __init__(self, program: Program, kernels: KernelRegistry) -> None:
        self.program = program
        self.kernels = kernels
        self.lines: list[Line] = []
        self.constants: list[Any] = []
        self.loops_written = 0
        self.takes_context = False
        self._constant_names: dict[Any, str] = {}
        self._kernel_of = {}
        self._held = set()
        self._wanted_scalars = set()
        self._indent = 2
        self._loops: tuple[tuple[str, str], ...] = ()
        self._takes_over = {}
        self._clock = self._mask = ""
        self._since_tick = 0.0
        #: {origin port: the name that holds its value}
        self._names: dict[OutputPort, str] = {}
        self._free: list[str] = []
        self._count = 0
        #: {predicate's origin: (the Switch to blame, the name that holds its truth or None)}
        self._predicates: dict[OutputPort, Node] = {}
        self._truths: dict[OutputPort, str] = {}
        self._open: Conditions | None = None

    # -- the program ---------------------------------------------------------------------------------

    def writing(self) -> Pieces[None]:
        program = self.program
        self._find_predicates(program.units)
        self._look_at_uses(program.units)
        yield
        header = [Line("def make(constants):"), Line(""), Line("    def region(args, ctx):")]
        for index, port in enumerate(program.inputs):
            self._names[port] = f"a{index}"
        if program.inputs:
            names = ", ".join(f"a{index}" for index in range(len(program.inputs)))
            self._line(f"{names}{',' if len(program.inputs) == 1 else ''} = args")
            self._line("args.clear()")
            for index, port in enumerate(program.inputs):
                if port in program.scalars and port in self._wanted_scalars and not program.reads(port):
                    self._line(f"a{index} = {self._constant(as_scalar, 'as_scalar')}(a{index})")
        for port in self._predicates:
            if port in self._names:
                self._write_truth(port)
            elif program.constant(port) is not None:
                self._truth_of_constant(port)
        yield from self._scope_in_pieces(program.units, [program.origin(port) for port in program.outputs])
        results = [self._value(port) for port in program.outputs]
        if len(results) == 1:
            self._line(f"return {results[0]}")
        elif results:
            self._line(f"return ({', '.join(results)})")
        else:
            self._line("return None")
        if self.constants:
            names = ", ".join(f"k{index}" for index in range(len(self.constants)))
            header[1] = Line(f"    {names}{',' if len(self.constants) == 1 else ''} = constants")
        self.lines = [*header, *self.lines, Line("    return region")]

    def _find_predicates(self, units: Iterable[Unit]) -> None:
        for unit in units:
            if unit.loop is not None:
                self._find_predicates((*unit.loop.top, *unit.loop.body))
            elif unit.node is not None and unit.node.op in SWITCH_OPS:
                self._predicates.setdefault(self.program.origin(unit.node.inputs[1]), unit.node)

    def _line(self, text: str, node: Node | None = None, inputs: Sequence[str] = ()) -> None:
        self.lines.append(Line("    " * self._indent + text, node, tuple(inputs), self._loops))

    # -- names --------------------------------------------------------------------------------------

    def _constant(self, value: Any, key: Any) -> str:
        name = self._constant_names.get(key)
        if name is None:
            name = self._constant_names[key] = f"k{len(self.constants)}"
            self.constants.append(value)
        return name

    def _constant_value(self, node: Node, scalar: bool = False) -> str:
        key = ("scalar" if scalar else "const", node.name)
        known = self._constant_names.get(key)
        if known is not None:
            return known
        constant = node.trait(Constant)
        assert constant is not None
        value = to_array(node.attrs[constant.value].value())
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        # A value in the wrong memory is copied there once.
        value = self.kernels.placed(node, value)
        return self._constant(as_scalar(value) if scalar else value, key)

    def _value(self, port: OutputPort, scalar: bool = False) -> str:
        """Return the name of a port's value; for a constant, as a NumPy scalar if wanted."""
        origin = self.program.origin(port)
        constant = self.program.constant(origin)
        return self._constant_value(constant, scalar) if constant is not None else self._names[origin]

    def _argument(self, port: OutputPort, wants_reference: bool, scalar: bool = False) -> str:
        """Return the expression of a kernel's argument: a reference is followed where it is used."""
        name = self._value(port, scalar)
        return (
            f"{name}.read()"
            if not wants_reference and self.program.reads(self.program.origin(port))
            else name
        )

    def _new_name(self) -> str:
        if self._free:
            return self._free.pop()
        self._count += 1
        return f"t{self._count - 1}"

    def _define(self, port: OutputPort) -> str:
        name = self._names[port] = self._takes_over.pop(port, "") or self._new_name()
        return name

    # -- scopes -------------------------------------------------------------------------------------

    def _scope(self, units: Sequence[Unit], kept: Iterable[OutputPort], outer: bool = True) -> None:
        """Write units in order; a name is freed after the last use of its value. As below."""
        at_once(self._scope_in_pieces(units, kept, outer))

    def _scope_in_pieces(
        self, units: Sequence[Unit], kept: Iterable[OutputPort], outer: bool = True
    ) -> Pieces[None]:
        """Write units as `_scope` does, in pieces.

        kept    origins that are needed after the scope
        outer   whether names of the enclosing scope may be freed here: not so in a loop's body
        """
        last: dict[OutputPort, int] = {}
        for index, unit in enumerate(units):
            for port in self.program.uses(unit):
                last[port] = index
            if unit.node is not None and unit.node.op in MERGE_OPS:
                for port in unit.inputs:
                    last[self.program.origin(port)] = index
        keep = set(kept)
        mine = {port for unit in units for port in self.program.defines(unit)}
        ending: dict[int, list[OutputPort]] = {}
        for port, index in last.items():
            if port not in keep and (port in mine or (outer and port in self.program.inputs)):
                ending.setdefault(index, []).append(port)
        for index, unit in enumerate(units):
            self._unit(unit, ending.get(index, []), mine, keep, last)
            self._breathe(unit)
            if not index % _UNITS_A_PIECE:
                yield
        self._close()

    def _unit(
        self,
        unit: Unit,
        ending: Sequence[OutputPort],
        mine: set[OutputPort],
        keep: set[OutputPort],
        last: Mapping[OutputPort, int],
    ) -> None:
        if self.program.is_silent(unit):
            self._release(ending)
            return
        with self._under(unit.conditions):
            if unit.loop is not None:
                self._write_loop(unit.loop, ending)
                released = self._take_back(ending)
                fresh: list[str] = []
            else:
                assert unit.node is not None
                released, fresh = self._write_node(unit, unit.node, ending, mine)
            for name in released:
                if name not in fresh:
                    self._line(f"{name} = None")
            for port in self.program.defines(unit):
                if port in self._predicates:
                    self._write_truth(port)
                if port not in last and port not in keep and port in mine and port in self._names:
                    self._drop(port)

    def _drop(self, port: OutputPort) -> None:
        """Return whether nobody takes this value."""
        name = self._names.pop(port)
        self._line(f"{name} = None")
        self._free.append(name)

    def _take_back(self, ports: Iterable[OutputPort]) -> list[str]:
        names = []
        for port in ports:
            name = self._names.pop(port, None)
            if name is not None:
                names.append(name)
                if name.startswith("t"):
                    self._free.append(name)
        return names

    def _release(self, ports: Iterable[OutputPort]) -> None:
        for name in self._take_back(ports):
            self._line(f"{name} = None")

    @contextmanager
    def _under(self, conditions: Conditions) -> Iterator[None]:
        """Write the following lines inside an `if` for these conditions, perhaps one that is open."""
        if conditions != self._open:
            self._close()
            if conditions:
                self._line(f"if {self._condition(conditions)}:")
                self._indent += 1
                self._open = conditions
        yield

    def _close(self) -> None:
        if self._open:
            self._indent -= 1
        self._open = None

    def _condition(self, conditions: Conditions) -> str:
        """Return outer predicates first: an inner one is only computed if they hold."""
        order = {port: index for index, port in enumerate(self._truths)}
        terms = {(self.program.predicate(pred), side) for pred, side in conditions}
        tests = sorted(terms, key=lambda term: order[term[0]])
        return " and ".join(self._truths[p] if side else f"not {self._truths[p]}" for p, side in tests)

    def _write_truth(self, port: OutputPort) -> None:
        name = self._truths.setdefault(port, f"p{len(self._truths)}")
        function = self._constant(truth, "truth")
        held = self._names[port]
        self._line(f"{name} = {function}({held})", self._predicates[port], ("", held))

    def _truth_of_constant(self, port: OutputPort) -> None:
        node = self.program.constant(port)
        assert node is not None
        name = self._truths.setdefault(port, f"p{len(self._truths)}")
        held = self._constant_value(node)
        self._line(f"{name} = {self._constant(truth, 'truth')}({held})", self._predicates[port], ("", held))

    # -- units --------------------------------------------------------------------------------------

    def _write_node(
        self, unit: Unit, node: Node, ending: Sequence[OutputPort], mine: Set[OutputPort]
    ) -> tuple[list[str], list[str]]:
        """Write the line of a node; return the freed names and the new ones."""
        if node.op in MERGE_OPS:
            text, plain = self._merge_expression(unit), [self._value(port) for port in unit.inputs]
            if len(tuple(self.program.defines(unit))) > 1:
                text += f", {self._index_expression(unit)}"
        elif node.op in SWITCH_OPS or node.has(HandsOn):
            text, plain = self._argument(node.inputs[0], False), [self._value(node.inputs[0])]
        else:
            text, plain = self._call(node, [port for port in ending if port in mine])
        released = self._take_back(ending)
        targets = [self._define(port) for port in self.program.defines(unit)]
        assigned = f"{', '.join(targets)} = " if targets else ""
        self._line(f"{assigned}{text}", node, plain)
        return released, targets

    def _merge_expression(self, unit: Unit) -> str:
        """Both sides have run or not by now: take the value of the one that did."""
        left, right = (self._side(port) for port in unit.inputs)
        pred, side = self._chooser(unit)
        chosen, other = (left, right) if side == 1 else (right, left)
        return f"{chosen} if {self._truths[pred]} else {other}"

    def _index_expression(self, unit: Unit) -> str:
        """Return the expression that selects the input of a Merge."""
        pred, side = self._chooser(unit)
        first, second = (self._constant(np.int32(index), ("index", index)) for index in (0, 1))
        chosen, other = (first, second) if side == 1 else (second, first)
        return f"{chosen} if {self._truths[pred]} else {other}"

    def _side(self, port: OutputPort) -> str:
        return self._argument(port, False)

    def _chooser(self, unit: Unit) -> tuple[OutputPort, int]:
        """Return (predicate, side on which the first input is the live one)."""
        assert unit.chooser is not None
        pred, side = unit.chooser
        return self.program.predicate(pred), side
