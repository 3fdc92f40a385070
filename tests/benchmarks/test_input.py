"""The pipelines of the benchmark of input give what is in the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import bench_input, input_flowengine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench_input, "ROWS", 700)
    monkeypatch.setattr(bench_input, "IMAGES", 3)
    bench_input.write_files(tmp_path, [each for each in bench_input.CASES if each != "images"])
    return tmp_path


@pytest.mark.parametrize("case", [each for each in bench_input.CASES if each != "images"])
async def test_rows_are_those_of_the_file(folder: Path, case: str) -> None:
    rows = list(bench_input.rows())
    async with input_flowengine.pipeline(str(folder), case).elements() as elements:
        batches = [await elements.__anext__() for _ in range(2)]
    for place in (0, bench_input.NUMBERS - 1):
        found = np.concatenate([batch[place] for batch in batches]).tolist()
        assert found == [rows[n % 700][0][place] for n in range(1024)]
    words = np.concatenate([batch[-1] for batch in batches]).tolist()
    assert words == [rows[n % 700][1][-1].encode() for n in range(1024)]


async def test_photographs_are_cropped_and_resized(folder: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow (the extra `image`) is not installed")
    bench_input.write_files(folder, ["images"])
    async with input_flowengine.pipeline(str(folder), "images").elements() as elements:
        pixels, labels = await elements.__anext__()
    assert pixels.shape == (32, 224, 224, 3)
    assert pixels.dtype == np.float32
    assert labels.tolist() == [n % 3 for n in range(32)]
    assert 0 <= pixels.min() < 0.1 < 0.9 < pixels.max() <= 1
    np.testing.assert_array_equal(pixels[0], pixels[3])
