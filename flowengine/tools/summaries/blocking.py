"""`fe.blocking.Writer`: event files from scripts and notebooks."""

from __future__ import annotations

from types import TracebackType

from flowengine.tools.summaries.recorder import SummaryRecorder


class Writer(SummaryRecorder):
    """A `flowengine.summary.Writer` behind plain calls; arguments and values are the same.

    Use it with `with`. A call to add a value writes the file as well if many events wait, or one has waited
    for `flush_seconds`: it then raises NotFoundError, PermissionDeniedError or ResourceExhaustedError if the
    file cannot be written. `flush`, and the end of the block, write all that was added.

    >>> with fe.blocking.Writer("logs/script") as writer:
    ...     writer.add_graph(fe.Graph())
    ...     writer.add_hparams({"rate": 0.1, "optimizer": "Adam"}, metrics=["loss"])
    ...     for step in range(100):
    ...         writer.add_scalar("loss", 0.9**step, step)
    ...     writer.add_histogram("weights", np.random.normal(size=[10, 10]), step)
    ...     writer.add_image("digits", np.zeros([2, 28, 28, 1]), step)
    ...     writer.add_audio("tone", np.zeros([1, 100, 1]), step, sample_rate=8000)
    ...     writer.add_text("notes", "**first** run", step)
    ...     writer.add_values({"rate": 0.1, "gradients": np.ones(10)}, step)
    ...     writer.flush()
    """

    _called = "fe.blocking.Writer"
    _block = "with"

    def flush(self) -> None:
        """Write all that was added before. Errors are those of a call to add a value."""
        self._flush()

    def _write_soon(self) -> None:
        self._flush()

    def __enter__(self) -> Writer:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(is_failure=error is not None)


__all__ = ["Writer"]
