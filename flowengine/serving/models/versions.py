"""One version of a model on its way: loading, answering, and ended when its last request has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

import trio

from flowengine.core.errors import OpError
from flowengine.core.run_options import RunOptions
from flowengine.saved_model.batching import BatchedSignature, is_batchable
from flowengine.saved_model.model import AwaitedModel
from flowengine.saved_model.model_signature import ModelSignature
from flowengine.saved_model.signatures import SignatureFacts
from flowengine.serving.models.settings import RowBatching

#: Memory that a version takes for each byte of its files, as TensorFlow Serving estimates it.
_BYTES_PER_BYTE: Final = 1.2


class VersionState(Enum):
    """The stages of a version; the words and numbers are those of TensorFlow Serving's status."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class ServedVersion:
    """A version of a model: its state, and the calls that it answers.

    number    of the version
    folder    where its files are
    state     it answers only while it is AVAILABLE
    error     what loading it ended with; None if nothing went wrong
    requests  the number of its calls that have not ended
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self.state = VersionState.START
        self.error: OpError | None = None
        self.requests = 0
        self.estimated_bytes = 0
        #: The files as they were when they were read.
        self.fingerprint: Fingerprint | None = None
        self._model: AwaitedModel | None = None
        #: What answers for each signature: itself, or with its calls computed together.
        self._calls: dict[str, ModelSignature | BatchedSignature] = {}
        self._idle: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<ServedVersion {self.number} {self.state.name}>"

    @property
    def signatures(self) -> Mapping[str, SignatureFacts]:
        """{name: SignatureFacts}; empty before it is loaded."""
        model = self._model
        return {} if model is None else {name: each.facts for name, each in model.signatures.items()}

    @property
    def waiting_rows(self) -> int:
        """The rows of batched calls that wait or are being computed."""
        return sum(each.waiting_rows for each in self._calls.values() if isinstance(each, BatchedSignature))

    def open(self, model: AwaitedModel, batching: RowBatching | None) -> None:
        """Let a loaded model answer; signatures without free rows are not batched."""
        self._model = model
        self._calls = {name: _call_of(each, batching) for name, each in model.signatures.items()}

    async def call(
        self, signature: str, inputs: Mapping[str, Any], timeout_seconds: float | None = None
    ) -> dict[str, Any]:
        """Run a signature; errors are those of its call. Cancelled, it cancels the step."""
        options = None if timeout_seconds is None else RunOptions(timeout_seconds=timeout_seconds)
        outputs: dict[str, Any] = await self._calls[signature].call(inputs, options=options)
        return outputs

    @contextmanager
    def request(self) -> Iterator[None]:
        """Return a context for one request: the version is not closed before it ends."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests and self._idle is not None:
                self._idle.set()

    async def close(self) -> None:
        """Answer nothing new, wait for the requests that it answers, then free what it holds.

        Cancelled, it ends the requests that still run.
        """
        self.state = VersionState.UNLOADING
        try:
            if self.requests:
                self._idle = trio.Event()
                await self._idle.wait()
        finally:
            with trio.CancelScope(shield=True):
                if self._model is not None:
                    await self._model.close()
            self._model, self._calls = None, {}
            self.state = VersionState.END


def _call_of(signature: ModelSignature, batching: RowBatching | None) -> ModelSignature | BatchedSignature:
    if batching is None or not is_batchable(signature.facts):
        return signature
    return signature.batched(
        max_rows=batching.max_rows,
        allowed_rows=batching.allowed_rows,
        wait_seconds=batching.wait_seconds,
        batches_at_once=batching.batches_at_once,
        max_waiting_rows=batching.max_waiting_rows,
        pad=batching.pad,
        split=batching.split,
    )


#: (path within the folder, size, time of change) of each file.
Fingerprint = tuple[tuple[str, int, int], ...]


def fingerprint(folder: Path) -> Fingerprint:
    """Return the facts that change with the files of a folder; call it on a thread.

    Raises OSError if the folder cannot be read.
    """
    found = []
    for where, _, files in os.walk(folder, onerror=_raise):
        for name in files:
            path = os.path.join(where, name)
            facts = os.stat(path)
            found.append((os.path.relpath(path, folder), facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))


def estimated_bytes(files: Fingerprint) -> int:
    """Estimate the memory that a version of these files takes."""
    return int(sum(size for _, size, _ in files) * _BYTES_PER_BYTE)


def load_failure(error: OpError) -> str:
    """Return the sentence for a version that could not be loaded: its kind, without paths."""
    return f"the version could not be loaded ({type(error).__name__})"


def _raise(error: OSError) -> None:
    raise error


__all__ = [
    "Fingerprint",
    "ServedVersion",
    "VersionState",
    "estimated_bytes",
    "fingerprint",
    "load_failure",
]
