"""How a command line names tables, which most runs do without: nothing that reads them is imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.cli.failure import USAGE, CommandError

#: {ending of a table of texts: what parts its columns}
DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
PARQUET: Final = ".parquet"
#: Standard output, as CSV.
STDOUT: Final = "-"
#: Rows of a step unless `--batch-size` says otherwise: from some hundred on a step's own cost does not show.
BATCH_SIZE: Final = 256


def is_table(path: str) -> bool:
    """Whether a file is a table, by its name."""
    return path.lower().endswith((*DELIMITERS, PARQUET))


def table_in(feeds: Sequence[str]) -> str | None:
    """Return the feed that is a table, if there is one; CommandError (usage) for two."""
    tables = [feed for feed in feeds if is_table(feed) and not _is_literal(feed)]
    if len(tables) > 1:
        raise CommandError(f"--feed {tables[1]}: only one table can be fed, and {tables[0]} is one", USAGE)
    return tables[0] if tables else None


def _is_literal(feed: str) -> bool:
    """Whether it is a text in quotes, or the bytes of a file, that only ends like the name of a table."""
    return feed.partition("=")[2].startswith(("@", '"', "["))


__all__ = ["BATCH_SIZE", "DELIMITERS", "PARQUET", "STDOUT", "is_table", "table_in"]
