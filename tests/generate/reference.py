"""Print the pages of the reference that list the public names of some modules, and the index of all pages.

    python -m tests.generate.reference      # JSON: {"layers.md": text, ...}

The pages that `PAGES` does not name are written by hand, in an order to be read in. A public name that no
page has goes to `more.md` by itself, until somebody gives it a place.
"""

from __future__ import annotations

import inspect
import json
import pydoc
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import flowengine as fe
from flowengine import testing

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
#: Tables of values of one kind, which have a page or docstring of their own.
_TABLES: Final = frozenset({"dtypes", "errors"})
_FUNCTIONS: Final = "flowengine.graphs.functions"
_BUILDING: Final = "[Building graphs](../building.md#functions-and-ops)"


@dataclass(frozen=True)
class Page:
    """A page that is made of modules.

    title      its heading
    about      a sentence in Markdown
    guide      a link to the guide that shows the names in use
    modules    the modules that the names come from, in the order of the page
    """

    title: str
    about: str
    guide: str
    modules: tuple[str, ...] = ()


PAGES: Final = {
    "layers": Page(
        "Layers",
        "`fe.layers`: functions that add a layer and its variables to a graph.",
        "[Training](../training.md#layers-and-losses)",
        ("flowengine.layers",),
    ),
    "losses": Page(
        "Losses",
        "`fe.losses`: scalars to minimize, with weights and reductions.",
        "[Training](../training.md#layers-and-losses)",
        ("flowengine.losses",),
    ),
    "metrics": Page(
        "Metrics",
        "`fe.metrics`: values that accumulate over steps.",
        "[Training](../training.md)",
        ("flowengine.metrics",),
    ),
    "optimizers": Page(
        "Optimizers and schedules",
        "`fe.optimizers`, `fe.schedules` for learning rates, and moving averages.",
        "[Training](../training.md#an-optimizer)",
        ("flowengine.optimizers", "flowengine.schedules", "flowengine.client.averages"),
    ),
    "initializers": Page(
        "Initializers, regularizers, partitioners",
        "They are arguments of `graph.variable`, `graph.get_variable` and the layers.",
        "[Variables](../variables.md)",
        ("flowengine.initializers", "flowengine.regularizers", "flowengine.partitioners"),
    ),
    "rnn": Page(
        "Recurrent networks",
        "`fe.rnn`: cells, wrappers, attention, decoders and the functions that run them.",
        "[Training](../training.md)",
        ("flowengine.rnn",),
    ),
    "embedding": Page(
        "Embeddings, sampled classes, CTC",
        "`fe.embedding`, `fe.sampled` and `fe.ctc`.",
        "[Training](../training.md)",
        ("flowengine.embedding", "flowengine.sampled", "flowengine.ctc"),
    ),
    "nn": Page(
        "Network functions",
        "`fe.nn`: activations, convolutions, pooling, normalisation and losses without variables.",
        _BUILDING,
        ("flowengine.nn",),
    ),
    "math": Page(
        "Mathematics",
        "Functions of single elements.",
        _BUILDING,
        (f"{_FUNCTIONS}.math", f"{_FUNCTIONS}.special", f"{_FUNCTIONS}.complexes"),
    ),
    "arrays": Page(
        "Arrays",
        "Functions that make, join, slice, index and compare tensors.",
        _BUILDING,
        (f"{_FUNCTIONS}.array", f"{_FUNCTIONS}.indexing", f"{_FUNCTIONS}.compare"),
    ),
    "reductions": Page(
        "Reductions",
        "Functions along axes.",
        _BUILDING,
        (f"{_FUNCTIONS}.reductions",),
    ),
    "linalg": Page(
        "Linear algebra",
        "Products, decompositions and solvers, batch by batch.",
        _BUILDING,
        (f"{_FUNCTIONS}.linalg",),
    ),
    "strings": Page(
        "Strings and random numbers",
        "Functions of strings, and random tensors.",
        _BUILDING,
        (f"{_FUNCTIONS}.strings", f"{_FUNCTIONS}.random"),
    ),
    "gradients": Page(
        "Derivatives",
        "Derivatives beyond `fe.gradients`, and clipping.",
        "[Gradients](../gradients.md)",
        ("flowengine.gradients", "flowengine.client.clipping"),
    ),
    "data": Page(
        "Datasets",
        "`fe.data`: pipelines of elements.",
        "[Datasets](../data.md)",
        ("flowengine.data",),
    ),
    "summary": Page(
        "Event files",
        "`fe.summary`: files for TensorBoard.",
        "[TensorBoard](../tensorboard.md)",
        ("flowengine.summary",),
    ),
    "debug": Page(
        "Debugging",
        "`fe.debug`: a step that stops before its nodes.",
        "[Stepping through a step](../debugging.md)",
        ("flowengine.debug",),
    ),
    "saved_model": Page(
        "SavedModels",
        "`fe.saved_model`: models with signatures.",
        "[SavedModels](../savedmodels.md)",
        ("flowengine.saved_model", "flowengine.blocking", "flowengine.asyncio", "flowengine.anyio"),
    ),
}
MORE: Final = Page("More names", "Public names that no other page has.", "[Embedding](../embedding.md)")
#: The pages that are written by hand: their titles stand in them.
_INDEX: Final = """# Reference

Every public name, by page, after `import flowengine as fe`. Examples import `numpy as np` and `trio`, too.
[Embedding](../embedding.md),
[Building graphs](../building.md) and [Training](../training.md) show the names in use, and [Ops](../ops.md)
lists the constructors of `graph.ops`.

| page | names |
|---|---|
"""


def public() -> Iterator[tuple[str, str]]:
    """Yield the full name of each public name and the module that it is listed under.

    A name of a public module belongs to that module, one of `flowengine` to the module that defines it. A
    package that may be called is shown by hand, as the function that it stands for.
    """
    for name in sorted(set(fe.__all__) - _TABLES):
        value = getattr(fe, name)
        if isinstance(value, ModuleType):
            if not callable(value):
                yield from (
                    (f"flowengine.{name}.{each}", f"flowengine.{name}") for each in sorted(value.__all__)
                )
        elif not name.startswith("_"):
            yield f"flowengine.{name}", getattr(value, "__module__", "flowengine")
    yield from ((f"flowengine.testing.{each}", "flowengine.testing") for each in sorted(testing.__all__))


def written_by_hand() -> set[str]:
    """Return the names on the pages that are written by hand."""
    pages = (page for page in FOLDER.glob("*.md") if page.stem not in {*PAGES, "more", "index"})
    return {name for page in pages for name in on_page(page.read_text())}


def on_page(text: str) -> list[str]:
    """Return the names that a page shows, in order."""
    return re.findall(r"^::: (\S+)$", text, re.MULTILINE)


def placed() -> dict[str, list[str]]:
    """Return {page: names} for the pages of `PAGES` and for `more`."""
    known = written_by_hand()
    pages: dict[str, list[str]] = {page: [] for page in [*PAGES, "more"]}
    order = {
        module: (page, index) for page, each in PAGES.items() for index, module in enumerate(each.modules)
    }
    ranked: list[tuple[int, str, str]] = []
    for name, module in public():
        if name in known:
            continue
        while module not in order and "." in module:
            module = module.rpartition(".")[0]
        page, rank = order.get(module, ("more", 0))
        ranked.append((rank, name, page))
    for _, name, page in sorted(ranked):
        pages[page].append(name)
    return pages


def page_text(page: str, names: list[str]) -> str:
    """Return the Markdown of a page that shows these names."""
    about = PAGES.get(page, MORE)
    if not names:
        return f"# {about.title}\n\nThe other pages of the reference have them all.\n"
    head = [f"# {about.title}", f"{about.about} Guide: {about.guide}."]
    return "\n\n".join([*head, *examples(about, names), *(f"::: {name}" for name in names)]) + "\n"


def examples(page: Page, names: list[str]) -> Iterator[str]:
    """Yield the examples in the docstrings of a page's modules, and of those that define its names."""
    objects = [pydoc.locate(name) for name in (*page.modules, *names)]
    defining = [getattr(each, "__module__", "") for each in objects[len(page.modules) :]]
    modules = [*objects[: len(page.modules)], *(sys.modules.get(each) for each in dict.fromkeys(defining))]
    for docstring in dict.fromkeys(inspect.getdoc(each) or "" for each in modules):
        yield from (f"```pycon\n{each}\n```" for each in docstring.split("\n\n") if each.startswith(">>> "))


def index_text() -> str:
    """Return the Markdown of the index: each page with the names on it."""
    generated = placed()
    rows = []
    for path in sorted(FOLDER.glob("*.md")):
        if path.stem == "index" or not generated.get(path.stem, True):
            continue
        if path.stem in generated:
            title, names = PAGES.get(path.stem, MORE).title, generated[path.stem]
        else:
            text = path.read_text()
            title, names = text.partition("\n")[0].removeprefix("# "), on_page(text)
        short = ", ".join(f"`{name.removeprefix('flowengine.')}`" for name in names)
        rows.append(f"| [{title}]({path.name}) | {short} |")
    return _INDEX + "\n".join(rows) + "\n"


def main() -> None:
    pages = {page: page_text(page, names) for page, names in placed().items()}
    print(json.dumps({f"{page}.md": text for page, text in {**pages, "index": index_text()}.items()}))


if __name__ == "__main__":
    main()
