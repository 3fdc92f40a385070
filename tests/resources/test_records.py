"""Contents of compressed files: as much as is asked for, until their end."""

from __future__ import annotations

import io

import pytest

from flowengine.resources import records
from flowengine.resources.tf_records import tf_records


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_an_empty_file_holds_nothing(compression: str) -> None:
    source = records.source_of(io.BytesIO(b""), compression, b"f")
    assert source.read(10) == b""
    assert source.read(10) == b"", "the end stays the end"
    assert list(tf_records(records.source_of(io.BytesIO(b""), compression, b"f"), b"f")) == []
