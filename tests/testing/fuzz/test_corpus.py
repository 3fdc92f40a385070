"""What damaged inputs once found: each ends as it should, now and later."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowengine.testing.fuzz.playing import play

_CORPUS_FOLDER = Path(__file__).parent / "corpus"
#: Inputs that once crashed, hung, held the loop, or took more than a step may: {kind-what: what they end in}.
_CORPUS = {
    "calls-absurd_window": "value",
    "calls-decompressed": "ResourceExhaustedError",
    "calls-doubled_text": "ResourceExhaustedError",
    "calls-exponential_pattern": "value",
    "calls-padded_number": "ResourceExhaustedError",
    "graphs-empty_and_large": "value",
    "graphs-exit_of_no_frame": "InvalidArgumentError",
    "graphs-large_constant": "ResourceExhaustedError",
    "images-frames_of_a_gif": "InvalidArgumentError",
    "records-damaged_third": "DataLossError",
}


@pytest.mark.parametrize("name", _CORPUS)
def test_what_was_found_stays_mended(name: str) -> None:
    data = (_CORPUS_FOLDER / f"{name}.bin").read_bytes()
    # A play has a second of the wall's time, which is little where the machine is busy.
    assert play(name.partition("-")[0], data) in (_CORPUS[name], "DeadlineExceededError")


def test_the_corpus_is_small_and_whole() -> None:
    assert {path.stem for path in _CORPUS_FOLDER.iterdir()} == set(_CORPUS)
    assert sum(path.stat().st_size for path in _CORPUS_FOLDER.iterdir()) < 5_000_000
