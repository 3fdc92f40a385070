"""`LoopState`: how a training loop stands, as its hooks see it, and the values that they ask for by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.session import Session
from flowengine.train.hooks.step_values import FetchedValues, is_number, leaves, to_number
from flowengine.train.saveables import alike

if TYPE_CHECKING:
    from flowengine.train.hooks.hook import Hook

#: What is no structure in which a value could have the same name.
_NUMBERS: Final = (float, int, np.generic, np.ndarray)


@dataclass(slots=True)
class LoopState:
    """How a loop stands, for its hooks.

    session   whose steps they are
    step      how many steps the model has made, those before a restart included
    values    what the last step returned
    metrics   {name: value} of the last evaluations
    stopped   why the loop is to end, or empty
    targets   the nodes that each step runs for their effect; empty if a function makes the steps
    hooks     the loop's hooks, in their order
    fetched   what each step fetches; None if a function makes the steps
    has_run   whether this loop has made a step
    """

    session: Session
    step: int = 0
    values: Any = None
    metrics: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    targets: Sequence[str] = ()
    hooks: Sequence[Hook] = ()
    fetched: FetchedValues | None = None
    has_run: bool = False

    def stop(self, reason: str) -> None:
        """Let the loop end after this step; the first reason counts."""
        self.stopped = self.stopped or reason

    def value(self, name: str) -> float:
        """Return a number by its name: of an evaluation, or of what the last step returned.

        name   the key of a dictionary; "losses/0" for what is deeper in a structure; the name of a tensor
               that is fetched under no key

        Raises InvalidArgumentError if there is no such number, or if the value has several elements.
        """
        found = self.find(name)
        if found is None:
            known = [*self.metrics, *leaves(self.values)]
            raise InvalidArgumentError(f"no evaluation and no step has given '{name}'; there are {known}")
        if isinstance(found, float | np.floating):
            return float(found)
        if not is_number(found):
            raise InvalidArgumentError(
                f"'{name}' is no single number, but of shape {list(np.shape(found))}: fetch a scalar, such "
                "as fe.reduce_mean of it"
            )
        return to_number(found)

    def find(self, name: str) -> Any:
        """Return the newest value of this name, or None if no evaluation and no step has given one."""
        if name in self.metrics:
            return self.metrics[name]
        if type(self.values) is dict and isinstance(self.values.get(name), _NUMBERS):
            return self.values[name]
        fetched = None if self.fetched is None else self.fetched.find(name)
        return leaves(self.values).get(name if fetched is None else fetched.path)

    def numbers(self) -> dict[str, Any]:
        """Return {name: value} of what the last step returned and of the last evaluations, to be shown."""
        found: dict[str, Any] = {}
        for path, value in leaves(self.values).items():
            fetched = None if self.fetched is None else self.fetched.find(path)
            found[path if fetched is None else fetched.shown] = value
        return {name.removesuffix(":0") or "value": value for name, value in found.items()} | self.metrics

    def settles(self, name: str, hook: str) -> bool:
        """Return the result of `expects`; True if a function makes the steps, which may return it later."""
        return self.fetched is None or self.expects(name, hook)

    def expects(self, name: str, hook: str) -> bool:
        """Return whether a value of this name comes; False if that cannot be known yet.

        It cannot be known before a function that makes the steps has made one, and before an `Evaluation` has
        run once. `hook` says in the message who needs the value.

        Raises InvalidArgumentError if no step fetches the name and no hook gives it.
        """
        if name in self.metrics or self.find(name) is not None:
            return True
        given: list[str] = []
        is_certain = True
        for each in self.hooks:
            names = each.metric_names
            is_certain = is_certain and names is not None
            given += names or ()
        if name in given:
            return True
        if self.fetched is None:
            is_certain = is_certain and self.has_run
            known = [*given, *leaves(self.values)]
        else:
            known = [*given, *self.fetched.names()]
            if (fetched := self.fetched.find(name)) is not None:
                if not fetched.has_value:
                    raise InvalidArgumentError(
                        f"{hook}: '{name}' is fetched as the node '{fetched.name}', which has no value: "
                        f"fetch its output, '{fetched.name}:0'"
                    )
                return True
        if not is_certain:
            return False
        raise InvalidArgumentError(
            f"{hook}: no step fetches '{name}' and no hook sets it{alike(name, known)}; there are {known}. "
            f"Fetch it with fetches={{'{name}': ...}}, or add fe.train.Evaluation(..., name='{name}'); a "
            "hook of your own must list the names it sets in its `metric_names`"
        )


__all__ = ["LoopState"]
