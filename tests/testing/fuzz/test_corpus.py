"""Damaged inputs that once exposed a bug: each ends as it should, now and later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.fuzz.campaign import Child

_CORPUS_FOLDER = Path(__file__).parent / "corpus"
#: A step has so much of the wall's time, as the machine may be busy; each of these ends in less than one.
_SECONDS = 60.0
#: Inputs that once crashed, hung, held the loop, or took more than a step may: {kind-what: what they end in}.
_CORPUS = {
    "calls-absurd_window": "value",
    "calls-body_of_another_loop": "InvalidArgumentError",
    "calls-classes_without_boxes": "value",
    "calls-codes_of_another_type": "InvalidArgumentError",
    "calls-compressed_element": "ResourceExhaustedError",
    "calls-decompressed": "ResourceExhaustedError",
    "calls-doubled_text": "ResourceExhaustedError",
    "calls-elements_of_another_type": "InvalidArgumentError",
    "calls-empty_matrices_factored": "value",
    "calls-empty_matrices_inverted": "value",
    "calls-empty_matrices_multiplied": "value",
    "calls-exponential_pattern": "value",
    "calls-kernels_of_nothing": "value",
    "calls-many_rounds": "ResourceExhaustedError",
    "calls-no_rows_of_many_columns": "ResourceExhaustedError",
    "calls-padded_number": "ResourceExhaustedError",
    "calls-rows_of_nothing_as_window": "InvalidArgumentError",
    "calls-rows_of_nothing_filled": "InvalidArgumentError",
    "calls-rows_of_nothing_printed": "value",
    "calls-rows_of_nothing_reshaped": "InvalidArgumentError",
    "calls-rows_of_nothing_resized": "InvalidArgumentError",
    "calls-spectra_of_nothing": "value",
    "graphs-empty_and_large": "value",
    "graphs-exit_of_no_frame": "InvalidArgumentError",
    "graphs-large_constant": "ResourceExhaustedError",
    "images-frames_of_a_gif": "InvalidArgumentError",
    "images-large_bmp": "InvalidArgumentError",
    "images-large_png": "InvalidArgumentError",
    "records-damaged_third": "DataLossError",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """{kind-what: what it ended in}: played in processes under limits, one a kind."""
    found: dict[str, str] = {}
    for kind in sorted({name.partition("-")[0] for name in _CORPUS}):
        folder = tmp_path_factory.mktemp(kind)
        given = folder / "given"
        given.mkdir()
        names = [name for name in _CORPUS if name.startswith(f"{kind}-")]
        for name in names:
            (given / f"{name}-0").write_bytes((_CORPUS_FOLDER / f"{name}.bin").read_bytes())
        seeds = ["--seeds", f"0:{len(names)}", "--seconds", str(_SECONDS)]
        child = Child([kind, *seeds, "--bases", str(given), "--as-they-are"], folder)
        try:
            for told in child.told(2 * _SECONDS):
                if "outcome" in told:
                    found[told["group"]] = told.get("finding", told["outcome"])
        except TimeoutError:
            pass  # who has no outcome hangs
        finally:
            child.end()
    return found


@pytest.mark.parametrize("name", _CORPUS)
def test_what_was_found_stays_mended(name: str, ended: dict[str, str]) -> None:
    assert ended.get(name, "hang or crash") == _CORPUS[name]


def test_the_corpus_is_small_and_whole() -> None:
    assert {path.stem for path in _CORPUS_FOLDER.iterdir()} == set(_CORPUS)
    assert sum(path.stat().st_size for path in _CORPUS_FOLDER.iterdir()) < 5_000_000
