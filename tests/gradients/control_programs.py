"""Random programs in which scopes of control dependencies enclose conditionals, loops and their gradients.

`draw(seed)` draws a program as plain data. `build(engine, program)` builds it with one of two engines, which
know the same few calls: FlowEngine (`tests.gradients.control_engines`) or TensorFlow 1.15
(`tensorflow_programs.py`). A program computes `a`, `b` and `c`, vectors of three elements, from a placeholder
`x` and two variables `v` and `w`; its loss is a sum over them, and an optimizer trains the variables.

Scopes are statements: `after` adds control dependencies, on values that are at hand there or on the
placeholder `late`; `free` forgets the dependencies around it; `beside` colocates, `on` asks for a device and
`within` opens a name scope. None of them changes a value, so a program computes the same with and without.

Uses nothing of this project and no syntax newer than Python 3.7, because TensorFlow 1.15 runs it too.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any, Callable, Dict

NAMES = ("a", "b", "c")
SOURCES = ("a", "b", "c", "v", "w", "x", "one")
BINARY = ("+", "-", "*", "tanh", "rows", "select")
OPTIMIZERS = ("sgd", "momentum", "adam")
SCOPES = ("after", "free", "beside", "on", "within")

Values = Dict[str, Any]
Program = Dict[str, Any]


def draw(seed: int) -> Program:
    """Draw the program of a seed: its statements, its scopes around the gradients, its inputs."""
    chance = random.Random(seed)
    statements = _statements(chance, 2)
    return {
        "statements": statements,
        "loss": [chance.choice(NAMES), chance.choice((*NAMES, "v"))],
        "around_gradients": _scopes(chance, 2),
        "around_training": _scopes(chance, 2),
        "optimizer": chance.choice(OPTIMIZERS),
        # TensorFlow has no second derivatives of loops.
        "seen_again": chance.random() < 0.3 and not _has_loop(statements),
        "v": [chance.randint(-8, 8) / 8 for _ in range(3)],
        "w": [chance.randint(-8, 8) / 8 for _ in range(3)],
        "feeds": [[chance.randint(-8, 8) / 8 for _ in range(3)] for _ in range(3)],
    }


def _has_loop(statements: Any) -> bool:
    if isinstance(statements, list):
        return bool(statements) and (statements[0] in ("for", "while") or any(map(_has_loop, statements)))
    return False


def _scopes(chance: random.Random, most: int) -> list[list[Any]]:
    """Scopes, the outermost first: always one of control dependencies among them."""
    found = [_scope(chance) for _ in range(chance.randint(0, most))]
    found.insert(chance.randint(0, len(found)), ["after", _waits(chance)])
    return found


def _scope(chance: random.Random, is_outermost: bool = True) -> list[Any]:
    # TensorFlow forgets dependencies by leaving the branch or loop, whose values are then out of reach.
    kind = chance.choice(SCOPES if is_outermost else [each for each in SCOPES if each != "free"])
    if kind == "after":
        return [kind, _waits(chance)]
    return [kind, chance.choice(NAMES)]


def _waits(chance: random.Random) -> list[str]:
    return chance.sample((*SOURCES, "late"), chance.randint(1, 2))


def _statements(chance: random.Random, depth: int) -> list[list[Any]]:
    return [_statement(chance, depth) for _ in range(chance.randint(0 if depth < 2 else 1, 3))]


def _statement(chance: random.Random, depth: int) -> list[Any]:
    kinds = ["set", "set", "set", "give"]
    if depth:
        kinds += ["if", "if", "for", "for", "while", "case", "scope", "scope", "scope"]
    kind = chance.choice(kinds)
    if kind == "set":
        return [
            kind,
            chance.choice(NAMES),
            chance.choice(BINARY),
            chance.choice(SOURCES),
            chance.choice(SOURCES),
        ]
    if kind == "give":
        return [kind, chance.choice(NAMES), chance.randint(-4, 4) / 4]
    if kind == "if":
        return [
            kind,
            chance.choice(SOURCES),
            chance.randint(-4, 4) / 4 + 0.06,
            _statements(chance, depth - 1),
            _statements(chance, depth - 1),
        ]
    if kind == "case":
        return [kind, chance.choice(SOURCES), [_statements(chance, depth - 1) for _ in range(3)]]
    if kind == "for":
        return [kind, chance.randint(0, 3), _statements(chance, depth - 1)]
    if kind == "while":
        return [kind, chance.choice(NAMES), chance.randint(0, 3), _statements(chance, depth - 1)]
    return ["scope", _scope(chance, depth == 2), _statements(chance, depth)]


class Building:
    """One program while an engine builds it.

    waits   whether scopes are entered; without, the program is built as if it had none
    """

    def __init__(self, engine: Any, program: Program, waits: bool) -> None:
        self.engine = engine
        self.program = program
        self.waits = waits
        self.fixed: Values = {
            "x": engine.placeholder([3], "x"),
            "late": engine.placeholder([], "late"),
            "v": engine.variable(program["v"], "v"),
            "w": engine.variable(program["w"], "w"),
        }

    def value(self, values: Values, name: str) -> Any:
        if name == "one":
            return self.engine.constant([1.0, 0.5, -0.5])
        if name in ("v", "w"):
            return self.engine.read(self.fixed[name])
        return values.get(name, self.fixed.get(name))

    @contextlib.contextmanager
    def scope(self, scope: list[Any], values: Values) -> Any:
        if not self.waits:
            yield
            return
        kind, what = scope
        if kind == "after":
            around = self.engine.after([self.value(values, name) for name in what])
        elif kind == "free":
            around = self.engine.after(None)
        elif kind == "beside":
            around = self.engine.beside(values[what])
        elif kind == "on":
            around = self.engine.on("/cpu:0")
        else:
            around = self.engine.within(what)
        with around:
            yield

    @contextlib.contextmanager
    def scopes(self, scopes: list[list[Any]], values: Values) -> Any:
        with contextlib.ExitStack() as stack:
            for each in scopes:
                stack.enter_context(self.scope(each, values))
            yield

    def run(self, statements: list[list[Any]], values: Values) -> Values:
        values = dict(values)
        for statement in statements:
            values = getattr(self, "_" + statement[0])(values, *statement[1:])
        return values

    def _set(self, values: Values, target: str, kind: str, left: str, right: str) -> Values:
        x, y = self.value(values, left), self.value(values, right)
        return dict(values, **{target: self.engine.binary(kind, x, y)})

    def _give(self, values: Values, target: str, number: float) -> Values:
        return dict(values, **{target: self.engine.constant([number, number, -number])})

    def _scope(self, values: Values, scope: list[Any], inner: list[list[Any]]) -> Values:
        with self.scope(scope, values):
            return self.run(inner, values)

    def _if(self, values: Values, name: str, bound: float, then: Any, other: Any) -> Values:
        flag = self.engine.exceeds(self.value(values, name), bound)
        return self._cond(values, flag, lambda: self.run(then, values), lambda: self.run(other, values))

    def _case(self, values: Values, name: str, branches: list[Any]) -> Values:
        total = self.value(values, name)

        def at(number: int) -> Callable[[], Values]:
            return lambda: self.run(branches[number], values)

        return self._cond(
            values,
            self.engine.exceeds(total, 0.06),
            lambda: self._cond(values, self.engine.exceeds(total, 1.06), at(0), at(1)),
            at(2),
        )

    def _cond(self, values: Values, flag: Any, then: Any, other: Any) -> Values:
        # Only tensors of the branch are handed out: an engine hands on one from around through a Switch.
        found = self.engine.cond(flag, lambda: _listed(then()), lambda: _listed(other()))
        return dict(zip(NAMES, found))

    def _for(self, values: Values, count: int, inner: Any) -> Values:
        def body(*carried: Any) -> list[Any]:
            return _listed(self.run(inner, dict(zip(NAMES, carried))))

        return dict(zip(NAMES, self.engine.loop(count, None, body, _listed(values))))

    def _while(self, values: Values, name: str, most: int, inner: Any) -> Values:
        def goes_on(*carried: Any) -> Any:
            return self.engine.exceeds(self.value(dict(zip(NAMES, carried)), name), -0.56)

        def body(*carried: Any) -> list[Any]:
            return _listed(self.run(inner, dict(zip(NAMES, carried))))

        return dict(zip(NAMES, self.engine.loop(most, goes_on, body, _listed(values))))


def _listed(values: Values) -> list[Any]:
    return [values[name] for name in NAMES]


def build(engine: Any, program: Program, waits: bool = True) -> tuple[Values, Any, list[Any], Any]:
    """Build a program; return what is fed, its loss, the gradients of `x`, `v` and `w`, and a training step.

    A gradient is None where the loss does not depend on it.
    """
    building = Building(engine, program, waits)
    fixed = building.fixed
    x = fixed["x"]
    values = {
        "a": engine.binary("*", x, engine.read(fixed["v"])),
        "b": engine.binary("+", x, engine.read(fixed["w"])),
        "c": engine.constant([0.25, -0.5, 0.75]),
    }
    values = building.run(program["statements"], values)
    first, second = (building.value(values, name) for name in program["loss"])
    loss = engine.total(engine.binary("+", engine.binary("*", first, second), first))
    xs = [x, fixed["v"], fixed["w"]]
    with building.scopes(program["around_gradients"], values):
        gradients = engine.gradients(loss, xs)
        if program["seen_again"] and gradients[0] is not None:
            gradients = engine.gradients(engine.total(engine.binary("*", gradients[0], gradients[0])), xs)
    with building.scopes(program["around_training"], values):
        step = engine.minimize(program["optimizer"], loss)
    return {"x": x, "late": fixed["late"]}, loss, gradients, step


def play(engine: Any, program: Program, waits: bool = True) -> dict[str, Any]:
    """Build a program and run it: its losses, its first gradients and its variables after three steps.

    Returns lists of numbers: "losses", one before each step; "gradients", None for an absent one; "v", "w".
    """
    fed, loss, gradients, step = build(engine, program, waits)
    run = engine.session()
    feeds = [{fed["x"]: feed, fed["late"]: 0.0} for feed in program["feeds"]]
    there = [each for each in gradients if each is not None]
    values = iter(run(there, feeds[0]) if there else [])
    found: dict[str, Any] = {
        "gradients": [None if each is None else next(values).tolist() for each in gradients]
    }
    losses = []
    for feed in feeds:
        losses.append(float(run([loss], feed)[0]))
        if step is not None:
            run([step], feed)
    found["losses"] = losses
    for name in ("v", "w"):
        found[name] = run([engine.read_now(name)], feeds[0])[0].tolist()
    engine.close()
    return found
