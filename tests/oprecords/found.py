"""All records, and the ops that have none, by the reason: what the files in the families' folders say."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from tests.oprecords.record import OpRecord

_FOLDER: Final = Path(__file__).resolve().parent


def record_modules() -> list[str]:
    """The names of the files of records, in order: `math.unary`."""
    return sorted(
        ".".join(path.relative_to(_FOLDER).with_suffix("").parts) for path in _FOLDER.glob("*/**/*.py")
    )


def _said(module: str) -> tuple[list[OpRecord], dict[str, str]]:
    found = importlib.import_module(f"tests.oprecords.{module}")
    records: list[OpRecord] = getattr(found, "RECORDS", [])
    excused: dict[str, str] = getattr(found, "EXCUSED", {})
    return records, {op: why for why, ops in excused.items() for op in ops.split()}


_SAID: Final = {module: _said(module) for module in record_modules()}

#: {module of records: ops of which it has something to say}, one name for each record and each reason
OPS: Final[dict[str, list[str]]] = {
    module: [*(record.op for record in records), *excused] for module, (records, excused) in _SAID.items()
}
RECORDS: Final[list[OpRecord]] = [record for records, _ in _SAID.values() for record in records]
#: {op: why it has no record}
EXCUSED: Final[dict[str, str]] = {op: why for _, excused in _SAID.values() for op, why in excused.items()}
