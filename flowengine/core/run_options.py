"""Settings of one step: its timeout, and what looks at its values while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.setting_values import is_number


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of one step.

    timeout_seconds   DeadlineExceededError when the step has not ended by then
    keep_on_device    fetched values stay in the memory of the device that has computed them, as its arrays:
                      read them, do not write into them. Not at a target, and not in a sandbox
    trace             "blocks" or "nodes": fills `RunMetadata.events`; "nodes" times the members of blocks,
                      too
    trace_events      the number of events that a trace keeps; later ones are only counted
    guard             True: InvalidArgumentError from the first node that makes NaN or an infinity of finite
                      inputs; {pattern of node names: (least, largest value)} for bounds, too
    guard_file        a .npz file for the inputs and outputs of the node that the guard finds: its name, or an
                      open binary file
    observe           called with the name of each node that has run, ((loop, iteration), ...) and its
                      outputs, arrays or None: in the order of their dependences, some on a thread. Arrays
                      are lent: copy what you keep. Nodes that only hand a value on may be left out. Not at a
                      target, and not in a sandbox
    stepper           set by `fe.debug.Stepper`, which pauses the step

    Raises InvalidArgumentError for a timeout that is no number, or not positive, another word as a trace, and
    a number of events below one.

    >>> graph = fe.Graph()
    >>> with fe.blocking.Session(graph) as session:
    ...     session.run(graph.constant(2.0), options=fe.RunOptions(timeout_seconds=30.0)).tolist()
    2.0
    """

    timeout_seconds: float | None = None
    keep_on_device: bool = False
    trace: Literal["blocks", "nodes"] | None = None
    trace_events: int = 1_000_000
    guard: bool | Mapping[str, tuple[float, float]] = False
    guard_file: str | BinaryIO | None = None
    observe: Callable[[str, tuple[tuple[str, int], ...], Sequence[Any]], None] | None = None
    stepper: Any = None

    def __post_init__(self) -> None:
        if self.trace not in (None, "blocks", "nodes"):
            raise InvalidArgumentError(f'trace is {self.trace!r}: it must be "blocks", "nodes" or None')
        if not (is_number(self.trace_events) and self.trace_events >= 1 and not self.trace_events % 1):
            raise InvalidArgumentError(
                f"trace_events is {self.trace_events!r}: it must be a positive number of events"
            )
        if bool(self.guard) + sum(each is not None for each in (self.trace, self.observe, self.stepper)) > 1:
            raise InvalidArgumentError("trace, guard, observe and stepper: one step has one of them")
        if self.observe is not None and not callable(self.observe):
            raise InvalidArgumentError(f"observe is {self.observe!r}: it must be a function")
        for pattern, bounds in () if isinstance(self.guard, bool) else self.guard.items():
            if len([*bounds]) != 2 or not all(map(is_number, bounds)) or bounds[0] > bounds[1]:
                raise InvalidArgumentError(f"guard: {pattern!r} needs (least, largest value), not {bounds!r}")
        timeout = self.timeout_seconds
        if timeout is not None and not (is_number(timeout) and timeout > 0):
            raise InvalidArgumentError(
                f"timeout_seconds is {timeout!r}: it must be a positive number of seconds, or None for none"
            )

    @property
    def looks_at_values(self) -> bool:
        """Whether each node's value is looked at, so that the step runs uncompiled."""
        return bool(self.guard) or self.observe is not None or self.stepper is not None


def remote_timeout_of(options: RunOptions) -> float | None:
    """As `timeout_of` where another process runs steps; InvalidArgumentError if values are to stay there."""
    timeout = timeout_of(options)
    if options.keep_on_device:
        raise InvalidArgumentError(
            "keep_on_device: the step runs in another process, whose arrays cannot be handed out here: fetch "
            "without it"
        )
    for name in ("observe", "stepper"):
        if getattr(options, name) is not None:
            raise InvalidArgumentError(
                f"{name}: the step runs in another process, which cannot call a function here: use a session "
                "of this process"
            )
    return timeout


def timeout_of(options: RunOptions) -> float | None:
    """The timeout that a caller asks for; InvalidArgumentError for what are no `RunOptions`."""
    if not isinstance(options, RunOptions):
        raise InvalidArgumentError(
            f"options is a {type(options).__name__}: give `RunOptions(timeout_seconds=...)`"
        )
    return options.timeout_seconds


__all__ = ["RunOptions", "remote_timeout_of", "timeout_of"]
