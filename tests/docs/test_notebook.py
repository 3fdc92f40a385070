"""The notebook of docs/examples runs, and prints what is kept in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.docs.transcripts import EXAMPLES, pattern

NOTEBOOK = EXAMPLES / "digits.ipynb"


def printed(cell: Any) -> str:
    """The text that a cell has shown: what it printed, and its value."""
    texts = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {}).get("text/plain", output.get("text", ""))
        texts.append(data if isinstance(data, str) else "".join(data))
    return "".join(texts)


def test_the_notebook_is_kept_with_what_it_prints() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert any(printed(cell) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of what executes notebooks
def test_the_notebook_runs() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not here: make examples has it")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not here: make examples has it")
    pytest.importorskip("ipykernel", reason="ipykernel is not here: make examples has it")
    kept = nbformat.read(NOTEBOOK, as_version=4)
    ran = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(ran, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    for old, new in zip(kept.cells, ran.cells, strict=True):
        if old.cell_type == "code":
            said = "".join(f"{line.rstrip()}\n" for line in printed(new).rstrip().splitlines())
            assert pattern(printed(old).splitlines()).fullmatch(said), old.source
