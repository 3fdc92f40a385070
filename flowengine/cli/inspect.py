"""`flowengine inspect`: what a graph holds, what it needs, and whether it can run here."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

import click

from flowengine.cli import overview
from flowengine.cli.failure import USAGE, CommandError, printable
from flowengine.cli.function_bodies import CalledFunction, called
from flowengine.cli.graphs import load_graph, tag_option
from flowengine.cli.imports import import_option
from flowengine.cli.looking.scopes import broadcasting_both
from flowengine.cli.models.likely import likely_outputs, proposed
from flowengine.cli.overview import TensorFacts, VariableFacts
from flowengine.cli.results import dumps
from flowengine.cli.sandbox.running import boxable
from flowengine.core.shapes import TensorShape
from flowengine.ir.names import ARGUMENT

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource
    from flowengine.graphs.graph import Graph
    from flowengine.ir.stripping import UnknownAttr
    from flowengine.saved_model.reading import SavedGraph
    from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor

#: Entries of a section that are shown unless all are asked for, and how few of them a screen may need.
_SHOWN: Final = 10
_SHOWN_MIN: Final = 3
#: Lines that fit a screen.
_LINES_MAX: Final = 58

#: The title of the list of attributes that keep a graph from running.
UNKNOWN_ATTRIBUTES: Final = "attributes that ops here lack, so that the graph cannot run"

HELP: Final = """\
Print the contents of GRAPH: nodes by op, placeholders, likely outputs, variables, the exact number of
parameters, the functions that it calls, and the ops that have no kernel here, also in bodies of functions.

With --draw, the command draws the graph instead: scopes are boxes, the largest ones opened as long as the
drawing stays readable; edges have the type and shape of their tensors; constants are left out. For a
SavedModel, it draws the part that the default signature runs.

With --by scope, the command counts nodes and parameters by name scope instead, as deep as a screen has rows.

With --stats, the command prints figures and a histogram of the variables and constants instead. The variables
have the values of the SavedModel's checkpoint, or of the checkpoint beside the file.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
"""


@click.command("inspect", help=HELP)
@boxable
@click.argument("graph", type=click.Path(), metavar="GRAPH")
@import_option
@tag_option
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Print complete lists instead of ten entries, and likely outputs besides signatures.",
)
@click.option(
    "--draw",
    "drawing",
    type=click.Path(),
    metavar="FILE",
    help="Draw the graph into a .svg, .png or .pdf file by Graphviz, or write a .dot file.",
)
@click.option("--force", is_flag=True, help="Overwrite the file of --draw, if it exists.")
@click.option("--stats", is_flag=True, help="Print figures and histograms of variables and constants.")
@click.option("--by", type=click.Choice(["scope"]), help="Count nodes and parameters by name scope.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(
    graph: str,
    tags: tuple[str, ...],
    every: bool,
    drawing: str | None,
    force: bool,
    stats: bool,
    by: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    if sum((drawing is not None, stats, by is not None)) > 1:
        raise CommandError("--draw, --stats and --by: choose one", USAGE)
    if drawing is not None:
        _draw(graph, tags, drawing, force=force)
        return
    ignored: list[UnknownAttr] = []
    loaded = load_graph(graph, tags, ignored=ignored)
    if stats:
        click.echo(_stats(loaded, graph, None if every else _SHOWN, as_json=as_json), nl=False)
        return
    known = None if loaded.saved is None else saved_variables(loaded.saved)
    if by is not None:
        click.echo(_by_scope(loaded.graph, known, as_json=as_json), nl=False)
        return
    document = examine(loaded.graph, known, loaded.hidden, by_products=every or as_json)
    document["unknown_attributes"] = [asdict(each) for each in ignored]
    document["other_graphs"] = (
        [] if loaded.saved is None else [list(each) for each in loaded.saved.other_tags]
    )
    document["signatures"] = {name: _signature(each) for name, each in loaded.signatures.items()}
    if as_json:
        click.echo(dumps(document), nl=False)
    else:
        click.echo(readable(graph, document) if every else _fitting(graph, document), nl=False)


def _by_scope(graph: Graph, known: list[VariableFacts] | None, *, as_json: bool) -> str:
    from flowengine.cli.looking.scopes import counts_by_scope, scope_table

    counts = counts_by_scope(graph, overview.variables(graph) if known is None else known)
    return dumps({"scopes": [asdict(each) for each in counts]}) if as_json else scope_table(counts)


def _stats(source: GraphSource, path: str, shown: int | None, *, as_json: bool) -> str:
    from flowengine.cli.looking.stats import statistics
    from flowengine.cli.looking.values import shown_values, values_of

    if not as_json:
        return shown_values(source, path, shown)
    return dumps(
        {
            title.split()[0]: {
                name: None if value is None else statistics(value) for name, value in values.items()
            }
            for title, values in values_of(source, path).items()
        }
    )


def _fitting(path: str, document: dict[str, Any]) -> str:
    """Return the document as text, with as many entries of each section as a screen holds."""
    shown = _SHOWN
    while (text := readable(path, document, shown)).count("\n") > _LINES_MAX and shown > _SHOWN_MIN:
        shown -= 1
    return text


def _draw(graph: str, tags: tuple[str, ...], path: str, *, force: bool) -> None:
    from flowengine.cli.looking.drawing import check_drawing, draw

    check_drawing(path, force=force)
    count = draw(path, load_graph(graph, tags, ignored=[]))
    click.echo(f"drew {count} boxes in {path}", err=True)


def saved_variables(saved: SavedGraph) -> list[VariableFacts] | None:
    """The variables of a SavedModel by the objects that they are, however many nodes each has.

    None where there are no objects.
    """
    if saved.objects is None:
        return None
    return [
        VariableFacts(each.name, str(each.dtype), each.shape, each.shape.num_elements())
        for each in saved.variables.values()
    ]


def examine(
    graph: Graph,
    known: list[VariableFacts] | None = None,
    hidden: Collection[str] = (),
    *,
    by_products: bool = True,
) -> dict[str, Any]:
    """Compute the facts that the verb shows about the graph itself, in a form that JSON can hold.

    known         its variables; None for those that its nodes are
    hidden        nodes that are no placeholders and outputs to anybody, such as a saver's
    by_products   whether gradients, and what only reads a variable, are among the outputs, as the last ones
    """
    variables = overview.variables(graph) if known is None else known
    outputs = likely_outputs(graph, hidden=hidden) if by_products else proposed(graph, hidden)
    functions = called(graph)
    bodies = [graph, *(each.body for each in functions if each.body is not None)]
    floats, constants = map(sum, zip(*map(overview.constant_parameters, bodies), strict=True))
    in_variables = sum(each.elements or 0 for each in variables)
    return {
        "nodes": len(graph),
        "producer": graph.producer,
        "ops": overview.op_counts(graph),
        "placeholders": [_facts(each) for each in overview.placeholders(graph, hidden)],
        "outputs": [_facts(each) for each in outputs],
        "variables": [_facts(each) for each in variables],
        "parameters": {
            "total": in_variables + floats,
            "in_variables": in_variables,
            "in_constants": floats,
            "constants": constants,
            "variables_of_unknown_size": sum(each.elements is None for each in variables),
        },
        "functions": [_function(each) for each in functions],
        "ops_without_kernel": overview.ops_without_kernel(graph, functions),
        "broadcasts_of_both": list(broadcasting_both(graph)),
    }


def _facts(each: TensorFacts | VariableFacts) -> dict[str, Any]:
    """The facts as JSON can hold them: a shape is a list, null for what is not known."""
    shape = each.shape.dims
    return {
        **{field.name: getattr(each, field.name) for field in fields(each)},
        "shape": None if shape is None else list(shape),
    }


def _signature(each: SignatureFacts) -> dict[str, Any]:
    return {
        side: {name: _of_signature(tensor) for name, tensor in held.items()}
        for side, held in (("inputs", each.inputs), ("outputs", each.outputs))
    }


def _of_signature(each: SignatureTensor) -> dict[str, Any]:
    shape = each.shape.dims
    return {
        "tensors": list(each.tensors),
        "dtype": each.dtype.name,
        "shape": None if shape is None else list(shape),
    }


def _function(each: CalledFunction) -> dict[str, Any]:
    if each.body is None:
        return {"name": each.name, "fault": each.fault}
    return {"name": each.name, "nodes": len(each.body), "ops": overview.op_counts(each.body)}


def readable(path: str, found: dict[str, Any], shown: int | None = None) -> str:
    """The document as text, with so many entries of each section; None for all."""
    lines = [f"{printable(path)}: {found['nodes']} nodes, producer version {found['producer']}"]
    lines += [f"another graph: {printable(shown_tags(each))}" for each in found["other_graphs"]]

    def section(title: str, entries: list[str]) -> None:
        lines.append(f"{title}: {len(entries) or 'none'}")
        lines.extend(f"  {entry}" for entry in entries[:shown])
        if shown is not None and len(entries) > shown:
            lines.append(f"  and {len(entries) - shown} more: --all")

    if found["signatures"]:
        section("signatures", [_call(*each) for each in found["signatures"].items()])
    if shown is None or not found["signatures"]:
        # Signatures say what goes in and out; beside them are nodes that restore, and copies of them.
        section("placeholders", [_tensor(each) for each in found["placeholders"]])
        section("likely outputs", [_tensor(each) for each in found["outputs"]])
    section("variables", [_tensor(each) for each in found["variables"]])
    lines += _parameters(found["parameters"], len(found["variables"]))
    if found["functions"]:
        section("functions", [_body(each) for each in found["functions"]])
    missing = found["ops_without_kernel"]
    section("ops without a kernel here", [_count(op, missing[op]) for op in missing])
    if found["unknown_attributes"]:
        section(UNKNOWN_ATTRIBUTES, [unknown_attribute(**each) for each in found["unknown_attributes"]])
    if found["broadcasts_of_both"]:
        title = "element-wise ops that repeat both inputs: is that meant?"
        section(title, [_broadcast(**each) for each in found["broadcasts_of_both"]])
    section("ops", [_count(op, count) for op, count in found["ops"].items()])
    if found["functions"]:
        within = _within(found["functions"])
        section("ops in functions", [_count(op, count) for op, count in within.items()])
    return "\n".join(lines) + "\n"


def shown_tags(tags: Sequence[str]) -> str:
    """The options that name a graph of a SavedModel by its tags."""
    return " ".join(f"--tag {shlex.quote(tag)}" for tag in tags or [""])


def unknown_attribute(node: str, op: str, attr: str, value: str, function: str) -> str:
    """An attribute that its op lacks, as a line."""
    place = f" in function '{function}'" if function else ""
    return printable(f"{op} '{node}'{place}: {attr} = {value}")


def _within(functions: list[dict[str, Any]]) -> dict[str, int]:
    """How often each op is in the bodies of functions, the most frequent first."""
    counts: Counter[str] = Counter()
    for each in functions:
        counts.update({op: count for op, count in each.get("ops", {}).items() if op != ARGUMENT})
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _tensor(facts: dict[str, Any]) -> str:
    return f"{printable(facts['name'])}  {facts['dtype']} {TensorShape(facts['shape'])}"


def _broadcast(name: str, op: str, x: str, y: str) -> str:
    return printable(f"{name}  {op} of {x} and {y}")


def _body(facts: dict[str, Any]) -> str:
    name = printable(facts["name"])
    return (
        f"{name}: {printable(facts['fault'])}" if "fault" in facts else f"{facts['nodes']:6d} nodes  {name}"
    )


def _call(name: str, signature: dict[str, dict[str, Any]]) -> str:
    told = [
        [f"{key} {each['dtype']} {TensorShape(each['shape'])}" for key, each in signature[side].items()]
        for side in ("inputs", "outputs")
    ]
    sides = [", ".join(each) or "nothing" for each in told]
    return printable(f"{name}: {sides[0]} -> {sides[1]}")


def _count(op: str, count: int) -> str:
    return f"{count:6d}  {printable(op)}"


def _parameters(found: dict[str, int], variables: int) -> list[str]:
    parts = [f"{found['in_variables']} in {variables} variables"]
    parts.append(f"{found['in_constants']} in {found['constants']} float constants of more than 8 elements")
    if found["variables_of_unknown_size"]:
        parts.append(f"not counting {found['variables_of_unknown_size']} variables whose shape is not fixed")
    return [f"parameters: {found['total']} ({', '.join(parts)})"]
