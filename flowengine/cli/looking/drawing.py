"""`flowengine inspect --draw FILE`: the folded graph in Graphviz' language, and as a picture by its `dot`."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError, printable
from flowengine.cli.looking.folding import INPUT, OP, OUTPUT, SCOPE, VARIABLE, FoldedGraph, fold
from flowengine.cli.results import check_new_file
from flowengine.ir.graph import OutputPort
from flowengine.passes.explain import quoted

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource

#: {ending: the format of `dot -T`}; a text is written without Graphviz.
FORMATS: Final = {".svg": "svg", ".png": "png", ".pdf": "pdf", ".dot": "", ".gv": ""}
_NOT_INSTALLED: Final = (
    "Graphviz is not installed: apt install graphviz, brew install graphviz, or "
    "https://graphviz.org/download; a .dot file needs no Graphviz"
)
_STYLES: Final = {
    INPUT: 'shape=ellipse, fillcolor="#fff3c4"',
    OUTPUT: 'shape=ellipse, fillcolor="#d8f0d3"',
    OP: 'shape=box, fillcolor="#f4f4f4"',
    VARIABLE: 'shape=cylinder, fillcolor="#e2e2f7"',
    SCOPE: 'shape=box3d, fillcolor="#d5e8f7"',
}
#: Parts of a name that a box shows.
_PARTS: Final = 2
#: Tensors that an edge names; of more it says how many.
_TENSORS: Final = 2


def check_drawing(path: str, *, force: bool) -> None:
    """CommandError (usage) for a file that cannot be drawn: its ending, its place, no Graphviz."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise CommandError(f"--draw {path}: the name must end in {', '.join(FORMATS)}", USAGE)
    check_new_file(path, force=force, option="--draw")
    if FORMATS[ending] and shutil.which("dot") is None:
        raise CommandError(f"--draw {path}: {_NOT_INSTALLED}", USAGE)


def draw(path: str, source: GraphSource) -> int:
    """Draw a graph into a file, whose ending says how; return how many boxes it has.

    Of a SavedModel it is the part that its default signature runs, with the bodies of called functions.
    Raises CommandError where Graphviz fails or the file cannot be written.
    """
    folded = _folded(source)
    text = as_dot(folded)
    kind = FORMATS[os.path.splitext(path)[1].lower()]
    try:
        if kind:
            _run_dot(text, kind, path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(f"--draw {path}: {error.strerror or error}", STEP_ERROR) from error
    return len(folded.boxes)


def _run_dot(text: str, kind: str, path: str) -> None:
    done = subprocess.run(
        ["dot", f"-T{kind}", "-o", path], input=text.encode(), capture_output=True, check=False
    )
    if done.returncode:
        said = printable(done.stderr.decode("utf-8", "replace"))
        raise CommandError(f"--draw {path}: dot ended with {done.returncode}: {said}", STEP_ERROR)


def _folded(source: GraphSource) -> FoldedGraph:
    """Fold what a signature runs, with the bodies of calls; all of a graph without signatures."""
    from flowengine.core.names import parse_tensor_name
    from flowengine.saved_model.freezing import part_with_bodies
    from flowengine.saved_model.signatures import DEFAULT_SIGNATURE

    called = source.signatures.get(DEFAULT_SIGNATURE) or next(iter(source.signatures.values()), None)
    if called is None:
        return fold(source.graph)
    inputs, outputs = (
        {name: OutputPort(*parse_tensor_name(each.tensors[0])) for name, each in side.items()}
        for side in (called.inputs, called.outputs)
    )
    graph = part_with_bodies(source.graph, list(dict.fromkeys(port.node for port in outputs.values())))
    return fold(graph, inputs=inputs, outputs=outputs)


def _title(name: str) -> str:
    """A name without its outer scopes, which a drawing has no place for."""
    parts = name.removesuffix("/").split("/")
    shown = "/".join(parts[-_PARTS:]) + ("/" if name.endswith("/") else "")
    return printable(shown if len(parts) <= _PARTS else f"\u2026/{shown}")


def as_dot(folded: FoldedGraph) -> str:
    """Write a folded graph in the language of Graphviz, from top to bottom."""
    lines = [
        "digraph {",
        '  graph [rankdir=TB, fontname="sans-serif", nodesep=0.3, ranksep=0.4];',
        '  node [fontname="sans-serif", fontsize=11, style=filled, margin="0.12,0.06"];',
        '  edge [fontname="sans-serif", fontsize=9, color="#777777", fontcolor="#555555"];',
    ]
    for box in folded.boxes:
        label, tip = quoted(f"{_title(box.title)}\n{printable(box.detail)}"), quoted(printable(box.name))
        lines.append(f"  {quoted(box.name)} [label={label}, tooltip={tip}, {_STYLES[box.kind]}];")
    for (source, target), tensors in folded.edges.items():
        shown = tensors[:_TENSORS] if len(tensors) <= _TENSORS else [f"{len(tensors)} tensors"]
        label = quoted("\n".join(map(printable, shown)))
        lines.append(f"  {quoted(source)} -> {quoted(target)} [label={label}];")
    for source, target in folded.controls:
        lines.append(f"  {quoted(source)} -> {quoted(target)} [style=dashed];")
    return "\n".join([*lines, "}"]) + "\n"


__all__ = ["as_dot", "check_drawing", "draw"]
