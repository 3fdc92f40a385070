"""One side of a comparison: a graph to run, or the record of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import BAD_FEED, UNREADABLE_GRAPH, USAGE, CommandError
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import find_port, load_graph
from flowengine.cli.models.restoring import remedied
from flowengine.cli.models.signatures import called_signature
from flowengine.cli.running.request import StepRequest
from flowengine.cli.running.steps import set_up
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from flowengine.cli.running.job import Invocation
    from flowengine.core.config import Config
    from flowengine.tools.compare import NameMap, StepRecord

#: The ending of records.
ENDING: Final = ".npz"


@dataclass(frozen=True, slots=True)
class SideOptions:
    """The options of `flowengine compare` about the steps that it runs, as for `flowengine run`."""

    feeds: Sequence[str] = ()
    fetches: Sequence[str] = ()
    targets: Sequence[str] = ()
    inits: Sequence[str] = ()
    signature: str | None = None
    function: str | None = None
    tags: Sequence[str] = ()
    timeout_seconds: float | None = None
    images: ImageOptions = field(default_factory=ImageOptions)
    config: Config | None = None


@dataclass(slots=True)
class ComparedSide:
    """One side.

    path          as the command line names it
    record        the record of its step, once it is known
    request       the request of its step; None for a recorded run
    checkpoint    the one of `--restore`
    at            the target of its session; "" for this process
    config        where its nodes are placed; None for the default
    """

    path: str
    record: StepRecord | None = None
    request: StepRequest | None = None
    checkpoint: str | None = None
    at: str = ""
    timeout_seconds: float | None = None
    config: Config | None = None

    @property
    def step(self) -> StepRequest:
        """Return the request of a side that runs."""
        assert self.request is not None
        return self.request

    def job(self, steps: int = 1) -> Invocation:
        """Return the request of its steps."""
        from flowengine.tools.compare import plain_config

        restoration = self.step.restoration(self.checkpoint, may_look=True)
        self.step.initialize_by_meta_graph(restoration)
        return self.step.job(
            steps=steps,
            every=0,
            repeat=0,
            timeout_seconds=self.timeout_seconds,
            config=plain_config(self.config),
            at=self.at,
            restoration=restoration,
        )

    async def run(self, keep: Sequence[str] = ()) -> None:
        """Run and record one step; `keep` has the names of tensors that are kept whole."""
        from flowengine.core.run_options import RunOptions
        from flowengine.session import Session
        from flowengine.tools.compare import record_step

        job = self.job()
        options = RunOptions(timeout_seconds=self.timeout_seconds)
        try:
            async with Session(job.graph, config=job.config, target=self.at) as session:
                await set_up(session, job, options)
                _, self.record = await record_step(
                    session,
                    job.fetches,
                    job.feeds,
                    targets=job.targets,
                    keep=keep,
                    timeout_seconds=self.timeout_seconds,
                )
        except FailedPreconditionError as error:
            raise remedied(
                error, self.step.source, self.path, restoration=job.restoration, trains=False
            ) from error


def read_side(path: str, options: SideOptions, *, checkpoint: str | None, at: str) -> ComparedSide:
    """Read a graph or a record; CommandError where it is neither."""
    side = ComparedSide(
        path,
        checkpoint=checkpoint,
        at=at,
        timeout_seconds=options.timeout_seconds,
        config=options.config,
    )
    if path.lower().endswith(ENDING):
        from flowengine.tools.compare import read_record

        if checkpoint is not None or at:
            raise CommandError(f"{path} is a record, which does not run: leave out --restore and --at", USAGE)
        try:
            side.record = read_record(path)
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror}", UNREADABLE_GRAPH) from error
        except InvalidArgumentError as error:
            raise CommandError(error.message, UNREADABLE_GRAPH) from error
        return side
    source = load_graph(path, options.tags)
    asks_by_name = bool(options.fetches or options.targets)
    call = called_signature(
        source, options.signature, is_wanted=True, asks_by_name=asks_by_name, function=options.function
    )
    side.request = StepRequest(
        source, path, call, options.feeds, options.fetches, options.targets, options.inits
    )
    return side


def prepare(one: ComparedSide, other: ComparedSide, names: NameMap, images: ImageOptions) -> None:
    """Read the feeds and look up the names of the sides that run.

    images   how images are fed

    The other side is fed what the first one is, and a recorded run gives the values that it was fed.
    CommandError for a name that a side lacks, and for a feed that cannot be read.
    """
    if one.request is not None:
        one.request.read_feeds(images)
        if other.record is not None:
            _feed_from_record(one.request, other.record, {})
        _look_up(one.request, [])
    if other.request is None:
        return
    step = other.request
    if one.request is None:
        assert one.record is not None
        step.read_feeds(images)
        _feed_from_record(step, one.record, {names(each.name): each.name for each in one.record.tensors})
        _look_up(step, [])
        return
    first = one.request
    step.fetches = [each if each in step.call.outputs else names(each) for each in step.fetches]
    step.targets = [*map(names, step.targets)]
    step.inits = [*map(names, step.inits)]
    for tensor, value in first.feeds.items():
        label = first.call.label(tensor)
        name = step.call.inputs.get(label) or names(tensor)
        port = find_port(step.source.graph, name, BAD_FEED, f"--feed {label} of {other.path}:", is_fed=True)
        step.feeds[str(port)] = value
    _look_up(step, [names(str(port)) for port in first.ports])


def freeze(one: ComparedSide, other: ComparedSide, tensors: Sequence[str], names: NameMap) -> None:
    """Feed the other side the values that these tensors have on the first one.

    CommandError for a tensor that the first side does not make, or of which its record has no whole value.
    """
    assert one.record is not None
    known = {tensor.name: tensor for tensor in one.record.tensors if not tensor.iteration}
    for name in tensors:
        if name not in known:
            raise CommandError(f"--freeze {name}: the step of {one.path} does not make it", USAGE)
        value = known[name].array()
        if value is None:
            raise CommandError(
                f"--freeze {name}: {one.path} has no whole value of it: record it with --record-values "
                f"{name}",
                USAGE,
            )
        step = other.step
        port = find_port(step.source.graph, names(name), USAGE, "--freeze", is_fed=True)
        step.feeds[str(port)] = value


def tensor_name(text: str) -> str:
    """Return the name of a tensor: "y" is "y:0"."""
    return text if ":" in text else f"{text}:0"


def _look_up(step: StepRequest, likely: Sequence[str]) -> None:
    """Look up the names of a step; without a fetch, `likely` or else the likely outputs are fetched."""
    if not (step.fetches or step.targets or step.call.facts):
        if all(each.rpartition(":")[0] in step.source.graph for each in likely):
            step.fetches = [*likely]
        step.propose()
    step.find()


def _feed_from_record(step: StepRequest, record: StepRecord, back: Mapping[str, str]) -> None:
    """Feed placeholders the whole values that a record has of them; `back`: {name here: name there}."""
    known = {tensor.name: tensor for tensor in record.tensors if not tensor.iteration}
    for node in step.source.graph:
        name = f"{node.name}:0"
        tensor = known.get(back.get(name, name))
        if node.is_placeholder and name not in step.feeds and tensor is not None:
            value = tensor.array()
            if value is not None:
                step.feeds[name] = value


__all__ = ["ENDING", "ComparedSide", "SideOptions", "freeze", "prepare", "read_side", "tensor_name"]
