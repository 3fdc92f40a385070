"""`flowengine inspect`: what a graph holds, what it needs, and whether it can run here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from flowengine.cli import overview
from flowengine.cli.failure import printable
from flowengine.cli.graphs import load_graph
from flowengine.cli.results import dumps

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

HELP: Final = """\
Show what GRAPH holds: nodes by op, placeholders, likely outputs, variables, the exact number of parameters,
and the ops that cannot run here.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
"""


@click.command("inspect", help=HELP)
@click.argument("graph", metavar="GRAPH")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(graph: str, as_json: bool, debug: bool) -> None:
    loaded = load_graph(graph)
    document = examine(loaded.graph)
    document["signatures"] = {name: asdict(each) for name, each in loaded.signatures.items()}
    click.echo(dumps(document) if as_json else readable(graph, document), nl=False)


def examine(graph: Graph) -> dict[str, Any]:
    """What the verb shows of the graph itself, as JSON can hold it."""
    variables = overview.variables(graph)
    floats, constants = overview.constant_parameters(graph)
    in_variables = sum(each.elements or 0 for each in variables)
    return {
        "nodes": len(graph),
        "producer": graph.producer,
        "ops": overview.op_counts(graph),
        "placeholders": [asdict(each) for each in overview.placeholders(graph)],
        "outputs": [asdict(each) for each in overview.likely_outputs(graph)],
        "variables": [asdict(each) for each in variables],
        "parameters": {
            "total": in_variables + floats,
            "in_variables": in_variables,
            "in_constants": floats,
            "constants": constants,
            "variables_of_unknown_size": sum(each.elements is None for each in variables),
        },
        "ops_without_kernel": overview.ops_without_kernel(graph),
    }


def readable(path: str, found: dict[str, Any]) -> str:
    """The document as text."""
    lines = [f"{printable(path)}: {found['nodes']} nodes, producer version {found['producer']}"]
    lines += _section("placeholders", [_tensor(each) for each in found["placeholders"]])
    lines += _section("likely outputs", [_tensor(each) for each in found["outputs"]])
    if found["signatures"]:
        lines += _section("signatures", [_call(*each) for each in found["signatures"].items()])
    lines += _section("variables", [_tensor(each) for each in found["variables"]])
    lines += _parameters(found["parameters"], len(found["variables"]))
    missing = found["ops_without_kernel"]
    lines += _section("ops without a kernel here", [_count(op, missing[op]) for op in missing])
    lines += _section("ops", [_count(op, count) for op, count in found["ops"].items()])
    return "\n".join(lines) + "\n"


def _section(title: str, entries: list[str]) -> list[str]:
    return [f"{title}: {len(entries) or 'none'}", *(f"  {entry}" for entry in entries)]


def _tensor(facts: dict[str, Any]) -> str:
    return f"{printable(facts['name'])}  {facts['dtype']} {facts['shape']}"


def _call(name: str, signature: dict[str, dict[str, str]]) -> str:
    sides = [
        ", ".join(f"{key}={tensor}" for key, tensor in signature[side].items()) or "nothing"
        for side in ("inputs", "outputs")
    ]
    return printable(f"{name}: {sides[0]} -> {sides[1]}")


def _count(op: str, count: int) -> str:
    return f"{count:6d}  {printable(op)}"


def _parameters(found: dict[str, int], variables: int) -> list[str]:
    parts = [f"{found['in_variables']} in {variables} variables"]
    parts.append(f"{found['in_constants']} in {found['constants']} float constants of more than 8 elements")
    if found["variables_of_unknown_size"]:
        parts.append(f"not counting {found['variables_of_unknown_size']} variables whose shape is not fixed")
    return [f"parameters: {found['total']} ({', '.join(parts)})"]
