"""The core of a dataflow engine in one file: Switch, Merge, Enter, Exit, NextIteration, a dict and a deque.

It has no threads, no event loop, no memory to care for, and frees nothing; what it has is the meaning of
control flow, short enough to read at one sitting. `semantics.md` tells it in words. A *token* is a value
or DEAD; a *tag* says which frame and iteration it belongs to: `()` is the step itself, `(("loop", 3),)` the
fourth round of a loop, `(("loop", 3), ("inner", 0))` the first round of a loop in it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEAD = object()
Port = tuple[str, int]  # node, output
Tag = tuple[tuple[str, int], ...]  # (frame, iteration), outermost first


@dataclass(frozen=True)
class Node:
    """`compute` takes the values of the inputs and returns one value an output; control flow needs none."""

    name: str
    op: str
    inputs: tuple[Port, ...] = ()
    compute: Callable[..., Sequence[Any]] | None = None
    outputs: int = 1
    frame: str = ""  # of an Enter
    constant: bool = False  # of an Enter: feeds every iteration


class TinyEngine:
    """Runs a graph, all of it. `run` gives the tokens of the ports that were asked for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.consumers: dict[Port, list[tuple[Node, int]]] = defaultdict(list)
        for node in nodes:
            for index, port in enumerate(node.inputs):
                self.consumers[port].append((node, index))

    def run(self, feeds: Mapping[Port, Any], fetches: Sequence[Port]) -> list[Any]:
        #: (node, tag) -> {index of the input: token that has arrived}
        self.arrived: dict[tuple[str, Tag], dict[int, Any]] = defaultdict(dict)
        #: Merges that have fired, since they do not wait for all their inputs.
        self.fired: set[tuple[str, Tag]] = set()
        #: (parent's tag, frame) -> the ports that feed every iteration, and how many iterations there are
        self.constants: dict[tuple[Tag, str], list[tuple[Port, Any]]] = defaultdict(list)
        self.iterations: dict[tuple[Tag, str], int] = defaultdict(lambda: 1)
        #: Frames that were entered with a dead value: all that comes out of them is dead.
        self.dead_frames: set[tuple[Tag, str]] = set()
        self.ready: deque[tuple[Node, Tag, list[Any]]] = deque()
        self.results: dict[Port, Any] = {}

        for port, value in feeds.items():
            self.deliver(port, (), value)
        for node in self.nodes.values():
            if not node.inputs and (node.name, 0) not in feeds:
                self.ready.append((node, (), []))
        while self.ready:
            self.execute(*self.ready.popleft())
        return [self.results.get(port, DEAD) for port in fetches]

    def deliver(self, port: Port, tag: Tag, token: Any) -> None:
        """A token arrives at all consumers of a port; those that waited for nothing else become ready."""
        if not tag:
            self.results[port] = token
        for node, index in self.consumers[port]:
            arrived = self.arrived[node.name, tag]
            arrived[index] = token
            if node.op == "Merge":
                self.offer(node, tag, index, token, arrived)
            elif len(arrived) == len(node.inputs):
                self.ready.append((node, tag, [arrived[i] for i in range(len(arrived))]))

    def offer(self, merge: Node, tag: Tag, index: int, token: Any, arrived: dict[int, Any]) -> None:
        """A Merge takes the first live token. It is dead if all are, or if one from an Enter is."""
        from_enter = self.nodes[merge.inputs[index][0]].op == "Enter"
        all_dead = len(arrived) == len(merge.inputs) and all(each is DEAD for each in arrived.values())
        if (merge.name, tag) not in self.fired and (token is not DEAD or from_enter or all_dead):
            self.fired.add((merge.name, tag))
            self.ready.append((merge, tag, [token, DEAD if token is DEAD else index]))

    def execute(self, node: Node, tag: Tag, tokens: list[Any]) -> None:
        """Run one node in one iteration and deliver what it gives, where its op says."""
        dead = any(token is DEAD for token in tokens)
        if node.op == "Switch":
            data, predicate = tokens
            taken = None if dead else int(bool(predicate))
            for slot in (0, 1):
                self.deliver((node.name, slot), tag, data if slot == taken else DEAD)
        elif node.op == "Merge":
            for slot, token in enumerate(tokens):
                self.deliver((node.name, slot), tag, token)
        elif node.op == "Enter":
            self.enter(node, tag, tokens[0])
        elif node.op == "NextIteration":
            if not dead:
                self.next_iteration(node, tag, tokens[0])
        elif node.op == "Exit":
            (frame, _), outside = tag[-1], tag[:-1]
            # A dead Exit says nothing while its loop goes on: a later iteration will be live.
            if not dead or (outside, frame) in self.dead_frames:
                self.deliver((node.name, 0), outside, tokens[0])
        else:
            values = [DEAD] * node.outputs if dead else (node.compute or (lambda *_: _))(*tokens)
            for slot, value in enumerate(values):
                self.deliver((node.name, slot), tag, value)

    def enter(self, node: Node, tag: Tag, token: Any) -> None:
        frame, port = (tag, node.frame), (node.name, 0)
        if token is DEAD:
            self.dead_frames.add(frame)
        if node.constant:
            self.constants[frame].append((port, token))
        for iteration in range(self.iterations[frame] if node.constant else 1):
            self.deliver(port, (*tag, (node.frame, iteration)), token)

    def next_iteration(self, node: Node, tag: Tag, token: Any) -> None:
        (name, iteration), outside = tag[-1], tag[:-1]
        following: Tag = (*outside, (name, iteration + 1))
        if self.iterations[outside, name] == iteration + 1:  # the first to get there begins the iteration
            self.iterations[outside, name] = iteration + 2
            for port, constant in self.constants[outside, name]:
                self.deliver(port, following, constant)
        self.deliver((node.name, 0), following, token)
