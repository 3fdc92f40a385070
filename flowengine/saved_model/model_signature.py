"""A signature of a loaded model that can be called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowengine.core.errors import OpError
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor

if TYPE_CHECKING:
    from flowengine.saved_model.batching import BatchedSignature


@dataclass(frozen=True, slots=True, repr=False)
class ModelSignature:
    """A signature of a loaded model: call it with its inputs by name.

    facts   its name, inputs and outputs

    A call returns {name: value} of the outputs, as `Session.run` returns values; await it, except for a
    blocking model. It raises the errors of a step, and InvalidArgumentError for inputs that are missing or
    unknown. Cancelled, it leaves the model usable.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> with fe.blocking.load_saved_model("export") as model:
    ...     signature = model.signatures["double"]
    ...     print(signature, signature(x=[1.0, 2.0])["y"], signature.call({"x": [3.0]})["y"])
    <ModelSignature 'double' (x float32 [?] -> y float32 [?])> [2. 4.] [6.]
    """

    facts: SignatureFacts
    _session: Any

    def __repr__(self) -> str:
        return f"<ModelSignature '{self.name}' ({self.facts.sides()})>"

    def _repr_html_(self) -> str:
        from flowengine.core import html  # only for notebooks

        rows = [
            *((f"input {name}", each) for name, each in self.inputs.items()),
            *((f"output {name}", each) for name, each in self.outputs.items()),
        ]
        return f"<div>{html.code(f'ModelSignature {self.name}')}{html.table(rows)}</div>"

    @property
    def name(self) -> str:
        """The name of the signature in the model."""
        return self.facts.name

    @property
    def inputs(self) -> Mapping[str, SignatureTensor]:
        """{name: SignatureTensor} of the inputs, sorted."""
        return self.facts.inputs

    @property
    def outputs(self) -> Mapping[str, SignatureTensor]:
        """{name: SignatureTensor} of the outputs, sorted."""
        return self.facts.outputs

    def __call__(self, *values: Any, **inputs: Any) -> Any:
        """Run one step. If the signature has one input, its value may come without the name."""
        return self.call(self.facts.inputs_of(values, inputs))

    def call(self, inputs: Mapping[str, Any], *, targets: Sequence[str] = (), options: Any = None) -> Any:
        """Run one step with `inputs` of any names, more nodes to run as `targets`, and `RunOptions`.

        `options` are those of the step; errors are those of a call.
        """
        feeds = self.facts.feeds(inputs)
        try:
            running = self._session.run(self.facts.fetches(), feeds, targets=targets, options=options)
        except OpError as error:
            self.facts.name_inputs(error)
            raise
        return self._awaited(running) if inspect.isawaitable(running) else running

    async def _awaited(self, running: Awaitable[Any]) -> Any:
        try:
            return await running
        except OpError as error:
            self.facts.name_inputs(error)
            raise

    async def prepare(self) -> None:
        """Make the plan of a call before the first call, in a trio program; at a target do nothing.

        Raises the errors of planning; cancelled, it leaves nothing behind.

        >>> graph = fe.Graph()
        >>> x = graph.placeholder("float32", [None], name="x")
        >>> with fe.blocking.Session(graph) as session:
        ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
        >>> async def main():
        ...     async with await fe.saved_model.load("export") as model:
        ...         await model.signature.prepare()
        ...         print(model.session.statistics().plans)
        >>> trio.run(main)
        1
        """
        feeds = [tensor for each in self.inputs.values() for tensor in each.tensors]
        await self._session._prepare(self.facts.fetches(), feeds)

    def batched(
        self,
        *,
        max_rows: int,
        allowed_rows: Sequence[int] = (),
        wait_seconds: float = 0.0,
        batches_at_once: int = 1,
        max_waiting_rows: int | None = None,
        pad: bool | Mapping[str, Any] = False,
        split: bool = True,
    ) -> BatchedSignature:
        """Return this signature with concurrent calls computed together, as one batch of rows.

        max_rows           most rows of a batch
        allowed_rows       rising up to `max_rows`: a batch is filled up to one of these sizes with copies of
                           a row, for models that are planned for each size; empty for any size
        wait_seconds       how long the first rows of a batch wait for others though nothing is computed
        batches_at_once    the number of batches that are computed at a time
        max_waiting_rows   most rows of all calls that wait or are computed; None for any number
        pad                True: rows of different lengths are filled up to the longest of their batch with
                           their first element, as TensorFlow Serving does; {input: value} for other values
        split              whether a call may have more rows than `max_rows`, in several batches

        Raises InvalidArgumentError if the first dimension of an input or output is fixed or unknown, and for
        values that cannot be. Outputs keep the length that padding has given to the rows.

        >>> graph = fe.Graph()
        >>> x = graph.placeholder("float32", [None], name="x")
        >>> with fe.blocking.Session(graph) as session:
        ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
        >>> with fe.blocking.load_saved_model("export") as model:
        ...     print(model.signature.batched(max_rows=64)([1.0, 2.0])["y"])
        [2. 4.]
        """
        from flowengine.saved_model.batching import BatchedSignature  # it loads trio and more of the engine

        return BatchedSignature(
            self.facts,
            self._session,
            max_rows=max_rows,
            allowed_rows=allowed_rows,
            wait_seconds=wait_seconds,
            batches_at_once=batches_at_once,
            max_waiting_rows=max_waiting_rows,
            pad=pad,
            split=split,
        )


__all__ = ["ModelSignature"]
