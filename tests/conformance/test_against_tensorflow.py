"""The comparison with TensorFlow, of which these tests need none: its cases, its verdicts, its player."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flowengine.ir.wire import bytes_field
from tests.conformance import against_tensorflow
from tests.conformance.against_tensorflow import (
    Outcome,
    Report,
    compare,
    compare_anew,
    difference,
    outcome,
    play,
    read_results,
    table,
)
from tests.conformance.free_choices import settled
from tests.conformance.node_cases import ENOUGH, NodeCase, cases, derived, differs
from tests.conformance.unlike_tensorflow import UNLIKE, reason
from tests.oprecords.found import RECORDS
from tests.oprecords.record import OpRecord, sample

#: Plays the part of TensorFlow: the third case ends it, all others are answered by their number.
_PLAYER = """
import json, os, sys
import numpy as np
folder, first = sys.argv[1], int(sys.argv[2])
cases = json.load(open(os.path.join(folder, "cases.json")))
with open(os.path.join(folder, "answers.jsonl"), "a") as out:
    for number in range(first, len(cases)):
        if number == 2:
            os._exit(3)
        np.save(os.path.join(folder, f"out{number}.npy"), np.float32(number))
        value = {"npy": f"out{number}.npy", "dtype": "float32"}
        out.write(json.dumps({"case": number, "values": [value]}) + "\\n")
        out.flush()
"""


def _record(op: str) -> OpRecord:
    return next(record for record in RECORDS if record.op == op)


def _case(op: str = "Neg", **changes: Any) -> NodeCase:
    given: dict[str, Any] = {
        "op": op,
        "why": "sample",
        "graph": b"",
        "refusal": "",
        "setup": (),
        "fetches": ("node:0",),
        "targets": ("node",),
        "variables": (),
        "tolerance": 1.0,
        "drawn": False,
    }
    return NodeCase(**{**given, **changes})


def test_an_op_has_cases_of_every_type_and_enough_bad_ones() -> None:
    record = _record("MatMul")
    made = cases(record)
    good = [case for case in made if case.why.startswith("sample")]
    assert len(good) >= len(list(record.combinations()))
    assert len(made) - len(good) >= ENOUGH
    assert {case.op for case in made} == {"MatMul"}
    assert cases(record) == made


def test_what_is_derived_changes_one_input() -> None:
    definition = _record("MatMul").definition
    given = sample([[1.0, 2.0]], [[3.0], [4.0]])
    found = dict(derived(definition, given))
    assert found["a a dimension less"].inputs[0].tolist() == [1.0, 2.0]
    assert found["b empty"].inputs[1].shape == (0, 1)
    assert np.isnan(found["b not a number"].inputs[1]).all()
    for each in found.values():
        same = [np.array_equal(each.inputs[i], given.inputs[i]) for i in range(2)]
        assert sum(same) == 1


def test_variables_and_handles_are_left_as_they_are() -> None:
    record = _record("AssignAdd")
    assert all(why.startswith("value") for why, _ in derived(record.definition, record.samples[0]))
    case = cases(record)[0]
    assert case.setup
    assert case.variables


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (np.float32(1), np.float32(1 + 1e-6), ""),
        (np.float32(1), np.float32(1.1), "1.0, not 1.1"),
        (np.float32(np.nan), np.float32(np.nan), ""),
        (np.int32(1), np.int64(1), "int32, not int64"),
        (np.zeros(2), np.zeros(3), "shape [2], not [3]"),
        (np.array([b"a"], object), np.array([b"a"], object), ""),
        (np.array([b"a"], object), np.array([b"b"], object), "not"),
        (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1.01), ""),
    ],
)
def test_values_are_compared_by_their_type(got: Any, want: Any, words: str) -> None:
    found = differs(got, want, 1.0, False)
    assert found == words if not words else words in found


def test_of_random_values_the_shape_counts() -> None:
    assert not differs(np.zeros(2), np.ones(2), 1.0, True)
    assert differs(np.zeros(2), np.ones(3), 1.0, True)


def test_one_that_agrees_is_enough() -> None:
    ours, other = Outcome((np.float32(1),)), Outcome((np.float32(2),))
    assert difference(_case(), ours, [other, ours]) == ""
    assert difference(_case(), ours, [other]) == "output 0: 1.0, not 2.0"
    assert difference(_case(), ours, [Outcome(error="nothing")]) is None
    refused = Outcome(error="InvalidArgumentError", message="said\n so not\n")
    assert difference(_case(), refused, [refused]) == ""
    assert difference(_case(), ours, [refused]) == "a value, not InvalidArgumentError (said)"


def test_words_with_a_reason_are_told_before_others() -> None:
    ours, refused = Outcome((np.float32(1),)), Outcome(error="InternalError")
    scaled = Outcome((np.float32(2),))
    case = _case("QuantizedConv2DAndRelu")
    for theirs in ([refused, scaled], [scaled, refused]):
        assert difference(case, ours, theirs) == "output 0: 1.0, not 2.0"
    assert difference(_case(), ours, [refused, scaled]) == "a value, not InternalError ()"


def test_an_empty_kernel_is_nothing_to_compare_with(tmp_path: Path) -> None:
    answer = {"error": "InternalError", "message": "Missing 0-th output from {{node node}}"}
    assert outcome(answer, tmp_path).error == "nothing"


def test_answers_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1.5], np.float32))
    values = [{"npy": "a.npy", "dtype": "bfloat16"}, {"bytes": ["YQ=="], "shape": [1]}]
    found = outcome({"values": values}, tmp_path)
    assert found.values[0].dtype == ml_dtypes.bfloat16
    assert found.values[1].tolist() == [b"a"]
    assert outcome({"error": "import", "message": "rank"}, tmp_path).error == "InvalidArgumentError"
    missing = {"error": "NotFoundError", "message": "No OpKernel was registered to support"}
    assert outcome(missing, tmp_path).error == "nothing"


def test_a_player_that_ends_goes_on_behind_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = tmp_path / "player.py"
    player.write_text(_PLAYER, encoding="utf-8")
    monkeypatch.setattr(against_tensorflow, "PLAYER", player)
    (tmp_path / "cases.json").write_text(json.dumps([{}] * 5), encoding="utf-8")
    answers = play(sys.executable, tmp_path, 5)
    assert [answer.get("error", "") for answer in answers] == ["", "", "gone", "", ""]


async def test_ops_are_compared_here_and_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The player says 0 to the first case and 1 to the second; both nodes give 0."""
    player = tmp_path / "player.py"
    player.write_text(_PLAYER, encoding="utf-8")
    monkeypatch.setattr(against_tensorflow, "PLAYER", player)
    record = OpRecord("Neg", [sample(0.0), sample(0.0)], dtypes={"T": ("float32",)})
    chosen = cases(record)[:2]
    (report,) = await compare(chosen, [sys.executable], tmp_path)
    assert report.compared == 2
    assert report.differences == ["sample T=float32: output 0: -0.0, not 1.0"]


def test_the_table_says_which_ops_differ_and_the_share() -> None:
    said = table([Report("A", 2), Report("B", 2, 0, ["sample: why"]), Report("C")])
    assert "B: 1 of 2 cases differ\n    sample: why" in said
    assert "nothing to compare with: C" in said
    assert "1 of 2 ops agree (50.0%), 3 of 4 cases" in said


def test_a_case_with_a_reason_is_told_apart() -> None:
    assert reason("TileGrad", "sample T=float32", "a value, not InvalidArgumentError (words)")
    assert reason("CTCLoss", "sample T=float64", "output 0: 1.0, not 2.0")
    assert not reason("CTCLoss", "inputs empty T=float32", "a value, not InvalidArgumentError (words)")
    assert not reason("MatMul", "sample T=float32", "output 0: 1.0, not 2.0")
    said = table([Report("TileGrad", 5, 5), Report("CTCLoss", 9, 2)])
    assert "nothing to compare with: TileGrad" in said
    assert "CTCLoss: 2 of 9 cases aside: TensorFlow computes float64 in float32;" in said
    assert said.endswith("7 of 7 cases; 1 of the ops have 2 cases aside that differ for a reason")


def test_every_reason_is_of_an_op_with_a_record() -> None:
    assert not UNLIKE.keys() - {record.op for record in RECORDS}


def test_a_run_goes_on_where_one_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [_record(op) for op in ("Neg", "Abs", "Sign")]
    asked: list[str] = []

    async def compared(chosen: list[NodeCase], pythons: Any, folder: Path) -> list[Report]:
        ops = list(dict.fromkeys(case.op for case in chosen))
        asked.extend(ops)
        return [Report(op, 3, 1, ["why"]) for op in ops]

    monkeypatch.setattr(against_tensorflow, "compare", compared)
    path = tmp_path / "results.jsonl"
    assert [each.op for each in compare_anew(records[:2], ["python"], path)] == ["Neg", "Abs"]
    assert compare_anew(records, ["python"], path) == [Report(r.op, 3, 1, ["why"]) for r in records]
    assert asked == ["Neg", "Abs", "Sign"]
    assert read_results(path).keys() == {"Neg", "Abs", "Sign"}


def test_what_an_op_leaves_open_is_no_difference() -> None:
    a = np.random.default_rng(5).normal(size=(2, 4, 3)) + 1j
    u, s, vh = np.linalg.svd(a)
    v = np.conj(np.swapaxes(vh, -1, -2))
    turned = np.exp(1j * np.arange(3))
    other = np.concatenate([u[..., :3] * turned, -u[..., 3:]], -1)
    for first, second in zip(settled("Svd", [s, u, v]), settled("Svd", [s, other, v * turned]), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-12)
    wrong = settled("Svd", [s, u, v * turned])
    assert not np.allclose(wrong[2], settled("Svd", [s, u, v])[2])

    e, w = np.linalg.eig(a[:, :3])
    order = np.array([2, 0, 1])
    for first, second in zip(
        settled("Eig", [e, w]), settled("Eig", [e[:, order], -w[..., order]]), strict=True
    ):
        np.testing.assert_allclose(first, second, atol=1e-12)
    assert settled("MatMul", [e]) == [e]


def test_of_encoded_images_the_pixels_are_compared() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow (the extra `image`) is not installed")
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)

    def encoded(shown: Any, level: int) -> bytes:
        buffer = io.BytesIO()
        image.fromarray(shown).save(buffer, "PNG", compress_level=level)
        return buffer.getvalue()

    def summary(shown: Any, level: int) -> bytes:
        sizes = b"\x08\x04\x10\x04\x18\x03"
        picture = sizes + bytes_field(4, encoded(shown, level))
        return bytes_field(1, bytes_field(1, b"t/image") + bytes_field(4, picture))

    for op, made in (("EncodeJpegVariableQuality", encoded), ("ImageSummary", summary)):
        (first,), (same,), (other,) = (
            settled(op, [made(shown, level)]) for shown, level in ((pixels, 9), (pixels, 0), (pixels + 1, 9))
        )
        assert first.tolist() == same.tolist()
        assert first.tolist() != other.tolist()


def test_an_unknown_op_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        against_tensorflow.main(["--python", "python", "--ops", "NoSuchOp"])
    assert "NoSuchOp" in capsys.readouterr().err
