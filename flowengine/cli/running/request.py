"""The request of a step as the options name it: fetches, nodes to run, values to feed and to restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.feeding.images import ImageOptions
from flowengine.cli.graphs import GraphSource, check_node, find_port, value_at
from flowengine.cli.models.feeds import read_feeds
from flowengine.cli.models.likely import proposed
from flowengine.cli.models.restoring import Restoration, restoration_of
from flowengine.cli.models.signatures import CalledSignature
from flowengine.cli.models.starting import starting
from flowengine.cli.running.job import Invocation
from flowengine.cli.running.training import facts_of
from flowengine.cli.tables.naming import table_in

if TYPE_CHECKING:
    from flowengine.cli.tables.planning import TableFeed
    from flowengine.ir.graph import OutputPort


@dataclass(slots=True)
class StepRequest:
    """The request of a step of one graph. The names are those of the options until `read` has looked them up.

    source, path   the graph, and the file or folder that it is from
    call           the signature that the names belong to
    given_feeds    the texts of `--feed`; fetches: of `--fetch`; targets: of `--target`; inits: of `--init`
    ports, shown   the outputs to fetch, and the name that each has on the screen; the same of final ones
    feeds          {tensor: value}
    rows, table    the tensors that a table feeds, and the table
    starters       nodes that begin iterators and fill tables
    """

    source: GraphSource
    path: str
    call: CalledSignature
    given_feeds: Sequence[str] = ()
    fetches: Sequence[str] = ()
    targets: Sequence[str] = ()
    inits: Sequence[str] = ()
    ports: list[OutputPort] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    final_ports: list[OutputPort] = field(default_factory=list)
    final_shown: list[str] = field(default_factory=list)
    feeds: dict[str, Any] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    table: TableFeed | None = None
    starters: list[str] = field(default_factory=list)

    def read_feeds(self, images: ImageOptions) -> None:
        """Read the values to feed.

        images   how images are fed

        Raises CommandError for a name that the graph lacks, and for a value that cannot be read or fed.
        """
        graph, call = self.source.graph, self.call
        alone = list(self.given_feeds)
        if table_in(alone):
            from flowengine.cli.tables.planning import table_feed

            alone, self.table = table_feed(graph, alone, call)
        self.feeds = read_feeds(graph, alone, images, call)
        self.rows = [] if self.table is None else self.table.tensors

    def find(self, finals: Sequence[str] = ()) -> None:
        """Look up the other names, when the values to feed are known.

        finals   the texts of `--final`

        Raises CommandError for a name that the graph lacks, and an input of the signature without a value.
        """
        graph, call = self.source.graph, self.call
        call.complete(self.feeds, self.rows)
        names = self.fetches or (tuple(call.outputs) if call.facts else ())
        self.ports, self.shown = self._ports(names, "--fetch")
        self.final_ports, self.final_shown = self._ports(finals, "--final")
        for name in self.targets:
            check_node(graph, name, USAGE, "--target")
        for name in self.inits:
            check_node(graph, name, USAGE, "--init")
        wanted = [*(port.node for port in (*self.ports, *self.final_ports)), *self.targets]
        tables = facts_of(self.source.meta, graph).tables
        self.starters = starting(graph, wanted, self.inits, [*self.feeds, *self.rows], tables)

    def propose(self) -> None:
        """Fetch the likely outputs, if no option names anything to run. CommandError if none stands out."""
        if self.fetches or self.targets or self.call.facts:
            return
        self.fetches = [fact.name for fact in proposed(self.source.graph, self.source.hidden)]
        if not self.fetches:
            raise CommandError(f"{self.path}: no output stands out: add --fetch NAME", USAGE)

    def initialize_by_meta_graph(self, restoration: Restoration | None) -> None:
        """Run the initializers that a MetaGraphDef lists, if nothing else gives variables their values."""
        facts = facts_of(self.source.meta, self.source.graph)
        if restoration is None and not self.inits and facts.content is not None:
            self.inits = [*facts.initializers, *facts.local]

    def job(self, **options: Any) -> Invocation:
        """Return the invocation with these names and values; `options` are its other fields."""
        graph = self.source.graph
        return Invocation(
            graph=graph,
            fetches=[value_at(graph, port) for port in self.ports],
            names=self.shown,
            finals=[value_at(graph, port) for port in self.final_ports],
            final_names=self.final_shown,
            targets=[*self.targets],
            inits=[*self.inits],
            starters=self.starters,
            feeds=self.feeds,
            **options,
        )

    def restoration(self, named: str | None, *, may_look: bool) -> Restoration | None:
        """Return the source of the variables' values, and of their initializers; None if there is none.

        named      the checkpoint of `--restore`
        may_look   whether a checkpoint beside the graph is looked for, if no node initializes
        """
        may_look = may_look and not (self.inits or self.targets)
        found = restoration_of(self.source, self.path, named, may_look=may_look)
        return None if found is None else replace(found, starters=tuple(self.starters))

    def _ports(self, names: Sequence[str], what: str) -> tuple[list[OutputPort], list[str]]:
        call = self.call
        ports = [find_port(self.source.graph, call.output(each), USAGE, what) for each in names]
        shown = [name if name in call.outputs else str(port) for name, port in zip(names, ports, strict=True)]
        return ports, shown


def check_standard_input(graph: str, feeds: Sequence[str]) -> None:
    """CommandError where standard input is to be two things."""
    if graph == "-" and any(feed.endswith("=-") for feed in feeds):
        raise CommandError("standard input can be the graph or a feed, not both", USAGE)
    if sum(feed.endswith("=-") for feed in feeds) > 1:
        raise CommandError("standard input can be fed to one tensor only", USAGE)


__all__ = ["StepRequest", "check_standard_input"]
