"""The `--feed` options: names of a signature's inputs or of the graph's tensors, and the values for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowengine.cli.failure import BAD_FEED, USAGE, CommandError
from flowengine.cli.feeding.batches import LINES_SUFFIXES, read_inputs
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.feeding.sources import ValueTarget, cast, check_shape, read_archive, read_source
from flowengine.cli.graphs import find_port
from flowengine.cli.models.signatures import CalledSignature
from flowengine.cli.overview import dtype_of, shape_of

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


def read_feeds(
    graph: Graph, feeds: Sequence[str], images: ImageOptions, call: CalledSignature
) -> dict[str, Any]:
    """{tensor name: value} of all `--feed` options, whose names may be those of a signature's inputs."""
    read: dict[str, Any] = {}
    for text in feeds:
        name, equals, source = text.partition("=")
        if equals:
            wanted = wanted_target(graph, call, name)
            pairs = [(wanted, read_source(source, wanted, images))]
        elif text.lower().endswith((".npz", ".json", *LINES_SUFFIXES)):
            pairs = [
                (wanted := wanted_target(graph, call, key), check_shape(cast(value, wanted), wanted))
                for key, value in _of_all(text).items()
            ]
        else:
            raise CommandError(
                f"--feed {text}: write NAME=SOURCE, such as x=3.5, or a file of all inputs: x.npz, x.json, "
                "x.jsonl",
                USAGE,
            )
        for wanted, value in pairs:
            if wanted.name in read:
                raise CommandError(f"--feed {wanted.label or wanted.name}: it is fed twice", BAD_FEED)
            read[wanted.name] = value
    return read


def _of_all(path: str) -> dict[str, Any]:
    """{input: value} of a file; CommandError (a bad feed) where it cannot be read."""
    if path.lower().endswith(".npz"):
        return read_archive(path)
    try:
        return read_inputs(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--feed {path}: cannot read it: {error}", BAD_FEED) from error


def wanted_target(graph: Graph, call: CalledSignature, name: str) -> ValueTarget:
    """Return the tensor that a name after `--feed` means; CommandError (a bad feed) if there is none."""
    port = find_port(graph, call.input(name, graph), BAD_FEED, "--feed", is_fed=True)
    label = name if name in call.inputs else ""
    return ValueTarget(str(port), dtype_of(graph, port), shape_of(graph, port), label)
