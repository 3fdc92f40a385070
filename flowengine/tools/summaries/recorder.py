"""The calls by which values come into an event file; writers for each kind of program have them.

A call encodes its value at once, in the thread of its caller, and leaves the event to the file: nothing is
awaited.
"""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError
from flowengine.core.files.paths import path_text
from flowengine.ir.wire import bytes_field
from flowengine.kernels.common.file_access import translated
from flowengine.kernels.io.summary_fields import double_field, is_message, number_field
from flowengine.resources.event_files import EventFile, begin_file
from flowengine.tools.summaries import hyperparameters as hyper
from flowengine.tools.summaries import values
from flowengine.tools.summaries.given import kinds_in
from flowengine.tools.summaries.graphs import drawn_graph
from flowengine.tools.summaries.values import checked_step, checked_tag

_log: Final = logging.getLogger("flowengine.summary")
#: Writers of this process, for names of files that no other has.
_numbers: Final = count()
#: So many events may wait before they are written; a picture more or less is no matter.
_EVENTS_MAX: Final = 100


class SummaryRecorder(ABC):
    """A base of writers: it turns values into events, and checks them.

    logdir          the folder of the run; it is made if it is not there
    restored_step   how many steps a model had made when this program restored it; None for a new run.
                    TensorBoard then drops the values of later steps that other files of the folder hold
    flush_seconds   how long an event may wait until it is written
    suffix          the end of the file's name

    Raises InvalidArgumentError for arguments that cannot be.
    """

    #: As users write it.
    _called = ""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        restored_step: int | None = None,
        flush_seconds: float = 10.0,
        suffix: str = "",
    ) -> None:
        self._folder = os.path.abspath(path_text(logdir, self._called))
        self._restored = None if restored_step is None else checked_step(restored_step)
        if not flush_seconds > 0:
            raise InvalidArgumentError(f"flush_seconds={flush_seconds} must be positive")
        if os.sep in suffix or "\0" in suffix:
            raise InvalidArgumentError(f"suffix={suffix!r} is the end of a file's name, without '{os.sep}'")
        self._seconds = flush_seconds
        self._suffix = suffix
        self._file: EventFile | None = None
        self._kinds: dict[str, str] = {}
        self._has_hparams = False

    @property
    def logdir(self) -> str:
        """The folder, as an absolute path."""
        return self._folder

    @property
    def path(self) -> str:
        """The path of the event file; FailedPreconditionError before the writer is entered."""
        return self._opened().path

    def add_scalar(self, tag: str, value: Any, step: int, *, description: str = "") -> None:
        """Add one number as the `value` of a `step`: a Python number, or an array with one element.

        The number is written as float32; NaN and infinities stay. `description` is Markdown that TensorBoard
        shows beside the tag; the first one counts. Raises InvalidArgumentError for other values, a negative
        step, a tag that is empty, not UTF-8 or already used for another kind of value;
        FailedPreconditionError if the writer is not open.
        """
        tag = checked_tag(tag)
        tensor = values.scalar_tensor(tag, value)
        self._add(tag, "scalars", values.SCALAR, tensor, step, description=description)

    def add_histogram(
        self, tag: str, numbers: Any, step: int, *, buckets: int = 30, description: str = ""
    ) -> None:
        """Add the histogram of `numbers`, all elements of an array, in `buckets` of one width.

        It leaves out NaN and infinities, counts them in the scalar `tag/not_finite`, and logs the first time.
        Raises the errors of `flowengine.summary.Writer.add_scalar`.
        """
        tag = checked_tag(tag)
        tensor, left_out = values.histogram_tensor(tag, numbers, buckets)
        self._add(tag, "histograms", values.TENSOR, tensor, step, description=description)
        if left_out:
            alone = f"{tag}/not_finite"
            if alone not in self._kinds:
                _log.warning(
                    "the histogram '%s' of step %s is without %s NaN or infinities; '%s' has their number",
                    *(tag, step, left_out, alone),
                )
            self.add_scalar(alone, left_out, step)

    def add_image(
        self, tag: str, images: Any, step: int, *, max_outputs: int = 3, description: str = ""
    ) -> None:
        """Add the first images (k, height, width, 1, 3 or 4), uint8 or floats in [0, 1], as PNG.

        No more than `max_outputs` are written; floats beyond the range as its end, NaN as 0.
        Errors are those of `flowengine.summary.Writer.add_scalar`.
        """
        tag = checked_tag(tag)
        tensor = values.image_tensor(tag, images, max_outputs)
        self._add(tag, "images", values.BLOB_SEQUENCE, tensor, step, description=description)

    def add_audio(
        self,
        tag: str,
        sounds: Any,
        step: int,
        *,
        sample_rate: int,
        max_outputs: int = 3,
        description: str = "",
    ) -> None:
        """Add the first sounds (k, frames, channels), floats in [-1, 1], as WAV of 16 bits.

        `sample_rate` is in frames a second. No more than `max_outputs` are written; numbers beyond the range
        as its end, NaN as 0. Errors are those of `flowengine.summary.Writer.add_scalar`.
        """
        tag = checked_tag(tag)
        tensor = values.audio_tensor(tag, sounds, sample_rate, max_outputs)
        given = {"content": values.WAV, "description": description}
        self._add(tag, "audio", values.BLOB_SEQUENCE, tensor, step, **given)

    def add_text(self, tag: str, text: Any, step: int, *, description: str = "") -> None:
        """Add a `text`, which TensorBoard shows as Markdown, or an array of texts, shown as a table.

        Bytes that are not UTF-8 become U+FFFD. Errors are those of
        `flowengine.summary.Writer.add_scalar`.
        """
        tag = checked_tag(tag)
        tensor = values.text_tensor(tag, text)
        self._add(tag, "text", values.TENSOR, tensor, step, description=description)

    def add_hparams(
        self,
        hparams: Mapping[str, hyper.HyperparameterValue],
        *,
        metrics: Sequence[str] = (),
        group: str = "",
    ) -> None:
        """Add the hyperparameters of the run.

        hparams   {name: number, text or truth value}
        metrics   tags of scalars that TensorBoard shows beside them
        group     a name that runs share if they repeat one experiment; by default each run is one

        The end of the run is written when the writer closes: success, or failure if an error or a
        cancellation closes it. Raises FailedPreconditionError the second time, as a run has one set, and
        InvalidArgumentError for values of other types.
        """
        if isinstance(metrics, str):
            raise InvalidArgumentError(f"metrics is a list of tags: write [{metrics!r}]")
        now = time.time()
        begun = [hyper.experiment(hparams, metrics, now), hyper.session_start(hparams, group, now)]
        if self._has_hparams:
            raise FailedPreconditionError(
                "the run has its hyperparameters: another set of them is another run, in a folder of its own"
            )
        self._record(0, bytes_field(5, b"".join(begun)))
        self._has_hparams = True

    def add_graph(self, graph: Any) -> None:
        """Add a `graph`, a `fe.Graph`, for TensorBoard's page of graphs; a run shows the last one.

        Shapes of outputs are noted as far as they are known; the elements of large constants are left out.
        Raises InvalidArgumentError for anything else.
        """
        self._record(0, bytes_field(4, drawn_graph(graph)))

    def add_run_metadata(self, metadata: Any, tag: str, step: int) -> None:
        """Add the times of a step, which TensorBoard shows on the graph.

        tag        the name under which it shows them, such as "step 100"
        metadata   a `fe.RunMetadata` of a step that was traced, or TensorFlow's RunMetadata: the message, or
                   its bytes

        Raises InvalidArgumentError for anything else, and for a tag that was used before.

        >>> with fe.blocking.Writer("logs/times") as writer:
        ...     writer.add_run_metadata(b"", tag="step 100", step=100)
        """
        tag, number = checked_tag(tag), checked_step(step)
        message = _serialized(metadata)
        self._opened()
        kind = f"the times of step {number}"
        if self._kinds.setdefault(tag, kind) is not kind:
            raise InvalidArgumentError(
                f"the tag '{tag}' was used before, for {self._kinds[tag]}: each step has its own tag"
            )
        tagged = bytes_field(1, tag.encode()) + bytes_field(2, message)
        self._record(number, bytes_field(8, tagged))

    def add_summary(self, summary: bytes, step: int) -> None:
        """Add a `summary` that a summary op has made, such as the value of `graph.ops.ScalarSummary`.

        Raises InvalidArgumentError for bytes that are no Summary, and for a tag of another kind of value.

        >>> graph = fe.Graph()
        >>> summary = graph.ops.ScalarSummary("loss", graph.constant(0.5))
        >>> with fe.blocking.Session(graph) as session, fe.blocking.Writer("logs/ops") as writer:
        ...     writer.add_summary(session.run(summary), step=1)
        """
        number = checked_step(step)
        kinds = kinds_in(summary)
        if kinds is None:
            raise InvalidArgumentError(f"no Summary, as a summary op returns it, but {summary!r:.60}")
        for tag, kind in kinds:
            self._note(tag, kind)
        self._record(number, bytes_field(5, summary))

    def add_values(self, fetched: Mapping[str, Any], step: int) -> None:
        """Add values that a step has `fetched`, by name: numbers, arrays of them as histograms, Summaries.

        Other values are left out, such as texts and what has no element. Errors are those of
        `flowengine.summary.Writer.add_scalar`.
        """
        for name, value in fetched.items():
            if isinstance(value, bytes):
                if kinds_in(value):
                    self.add_summary(value, step)
                continue
            try:
                array = values.numbers_in(name, value)
            except InvalidArgumentError:
                continue
            if array.size == 1:
                self.add_scalar(name, array, step)
            elif array.size:
                self.add_histogram(name, array, step)

    def _add(self, tag: str, plugin: str, data_class: int, tensor: Any, step: int, **described: Any) -> None:
        number = checked_step(step)
        value = values.value_of(tag, plugin, data_class, tensor, **described)
        self._note(tag, plugin)
        self._record(number, bytes_field(5, value))

    def _note(self, tag: str, plugin: str) -> None:
        """Note the kind of a tag's values; InvalidArgumentError if it has another."""
        self._opened()
        kind = self._kinds.setdefault(tag, plugin)
        if kind != plugin:
            raise InvalidArgumentError(
                f"the tag '{tag}' was used before, for {kind}: TensorBoard would not show it as {plugin}, so "
                "give them another tag"
            )

    def _record(self, step: int, content: bytes) -> None:
        if self._opened().add(double_field(1, time.time()) + number_field(2, step) + content):
            self._write_soon()

    @abstractmethod
    def _write_soon(self) -> None:
        """Events wait that are to be written, now or in the background."""

    def _opened(self) -> EventFile:
        if self._file is None:
            raise FailedPreconditionError(
                f"{self._called} is not open: values are added within its block, "
                f"`{self._block} {self._called}(...) as writer:`"
            )
        return self._file

    #: The statement that opens it.
    _block = "async with"

    def _open(self) -> None:
        """Begin the file. Blocks; OSError comes as one of our errors."""
        if self._file is not None:
            raise FailedPreconditionError(f"{self._called} is open already")
        suffix = f".{os.getpid()}.{next(_numbers)}{self._suffix}"
        # The program repeats the steps after the restored one, whose own values stay valid.
        first = None if self._restored is None else self._restored + 1
        try:
            path, file = begin_file(self._folder, suffix, first_step=first)
        except OSError as error:
            raise translated(error, self._folder) from error
        self._kinds.clear()
        self._has_hparams = False
        self._file = EventFile(path, file, most=_EVENTS_MAX, seconds=self._seconds, clock=time.monotonic)

    def _flush(self) -> None:
        """Write all that waits. Blocks; OSError comes as one of our errors, and all of it waits on."""
        file = self._opened()
        try:
            file.write_now()
        except OSError as error:
            raise self._failure(error, file) from error

    def _close(self, *, is_failure: bool) -> None:
        """Write what waits, and how the run has ended; close the file. Blocks, errors as of `_flush`."""
        file = self._file
        if file is None:
            return
        if self._has_hparams:
            status = hyper.FAILURE if is_failure else hyper.SUCCESS
            self._record(0, bytes_field(5, hyper.session_end(status, time.time())))
        self._file = None
        try:
            file.close()
        except OSError as error:
            if is_failure:
                # The error that has closed it is what its user must see.
                _log.warning("values are lost that were added to %s: %s", file.path, error)
                return
            raise self._failure(error, file) from error

    @staticmethod
    def _failure(error: OSError, file: EventFile) -> OpError:
        found = translated(error, file.path)
        assert isinstance(found, OpError)
        return found


def _serialized(metadata: Any) -> bytes:
    for name in ("step_stats", "SerializeToString"):
        # A message has a field of the first name, which is no function.
        if callable(make := getattr(metadata, name, None)):
            metadata = make()
            break
    if not isinstance(metadata, bytes) or not is_message(metadata):
        raise InvalidArgumentError(
            "add_run_metadata takes a fe.RunMetadata of a traced step, or bytes of TensorFlow's, not "
            f"{metadata!r:.60}"
        )
    return metadata


__all__ = ["SummaryRecorder"]
