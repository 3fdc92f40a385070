"""What a receiver knows by its first bytes: frames that have come before on this connection. Sans-I/O.

Names, types and shapes come from outside, so what is remembered is bounded.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from flowengine.transport.calls.call_forms import (
    ANSWER,
    BEFORE_CALL,
    BEFORE_TENSOR,
    NUMBERED_BYTES,
    AnswerForm,
    CallForm,
    HeardAnswers,
    HeardCalls,
    HeardTensor,
)
from flowengine.transport.limits import ENTRY_BYTES
from flowengine.transport.tensors.routes import ROUTES_MAX, Route
from flowengine.transport.wire.encoding import type_of
from flowengine.transport.wire.forms import ALIVE, BEFORE_ROUTE, STEP_MARK, Known
from flowengine.transport.wire.framing import KNOWN_BYTES, PREFIX_BYTES, message_prefix

#: Frames that are remembered on one connection, of each kind, and the longest of what tells one from another.
_FORMS_MAX: Final = 4096
_TAIL_BYTES_MAX: Final = 256

AnyForm: TypeAlias = Known | CallForm | AnswerForm | HeardCalls | HeardAnswers


class KnownForms(dict[bytes, AnyForm]):
    """{first bytes of a frame: what it is} of frames that have come on one connection, and of those that
    all connections know."""

    def __init__(self) -> None:
        self._always: dict[bytes, AnyForm] = {ANSWER.head: ANSWER}
        self._calls: dict[bytes, tuple[str, list[Any]]] = {}
        self._tensors: dict[bytes, HeardTensor] = {}
        super().__init__(self._always)

    def know(self, form: CallForm) -> None:
        """Tell calls of a method by their first bytes."""
        self._always[form.head] = self[form.head] = form

    def clear(self) -> None:
        """Forget what has come."""
        super().clear()
        self._calls.clear()
        self._tensors.clear()
        self.update(self._always)

    def learn(self, header: memoryview, payload: int, route: Route, description: list[Any]) -> None:
        """Remember a DELIVER that has passed every check, if it is written in the form of `forms`."""
        place = KNOWN_BYTES - PREFIX_BYTES
        if len(header) <= place or header[:3] != BEFORE_ROUTE or header[5] != STEP_MARK:
            return
        dtype, tail = type_of(description[0]), bytes(header[place:])
        if dtype is None or tail[:1] != ALIVE or len(tail) > _TAIL_BYTES_MAX:
            return
        self._make_room()
        shape = tuple(description[1])
        self[message_prefix(len(header), 0, payload) + bytes(header[: place - 8])] = Known(
            PREFIX_BYTES + len(header) + payload,
            tail,
            payload,
            ENTRY_BYTES + payload,
            route,
            dtype,
            shape or None,
        )

    def learn_call(self, header: memoryview, method: str, arguments: Any) -> None:
        """Remember a call without tensors that has passed every check, if it is written as a `FixedCall`."""
        if header[:6] != BEFORE_CALL or type(arguments) is not list:
            return
        tail = bytes(header[NUMBERED_BYTES:])
        # What lies deeper could be changed by whoever is called.
        if len(tail) > _TAIL_BYTES_MAX or any(isinstance(each, list | dict) for each in arguments):
            return
        head = message_prefix(len(header), 0, 0) + BEFORE_CALL
        if not isinstance(self.get(head), HeardCalls):
            if head in self:
                return
            self._make_room()
            self[head] = HeardCalls(PREFIX_BYTES + len(header), self._calls)
        if len(self._calls) >= _FORMS_MAX:
            self._calls.clear()
        self._calls[tail] = method, arguments.copy()

    def learn_answer(self, header: memoryview, payload: int, result: Any, descriptions: list[Any]) -> None:
        """Remember an answer that has passed every check, if it is written as a `TensorAnswer`."""
        if header[:6] != BEFORE_TENSOR or len(descriptions) != 1 or not (result is None or result == {}):
            return
        (description,) = descriptions
        dtype, tail = type_of(description[0]), bytes(header[NUMBERED_BYTES:])
        if dtype is None or not payload or len(tail) > _TAIL_BYTES_MAX:
            return
        head = message_prefix(len(header), 0, payload) + BEFORE_TENSOR
        if head not in self:
            self._make_room()
            self[head] = HeardAnswers(len(header), payload, self._tensors)
        if len(self._tensors) >= _FORMS_MAX:
            self._tensors.clear()
        self._tensors[tail] = HeardTensor(result is not None, dtype, tuple(description[1]))

    def _make_room(self) -> None:
        if len(self) >= min(_FORMS_MAX, ROUTES_MAX):
            self.clear()


__all__ = ["AnyForm", "KnownForms"]
