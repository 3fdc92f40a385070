"""Pieces of texts by SentencePiece models.

Values are those of TensorFlow Text 2.21 and 1.15, and of tf_sentencepiece 0.1.90 in TensorFlow 1.15, for
models that are written by hand.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from tests.kernels.sentencepiece_models import BPE, model

sentencepiece: Any = pytest.importorskip("sentencepiece", reason="the extra `text` is not installed")

MODEL: Final = model()
TEXTS: Final = [
    b"the hot fox",
    b"",
    "Straße  東京 q".encode(),
    b"\xff\xfe fox",
    b"  ox  ",
]
IDS: Final = [[10, 20, 7, 11, 6], [], [20, 0, 12, 0, 8, 14, 20, 9, 0, 20, 18], [20, 0, 11, 6], [20, 6]]
#: Ids that have no piece come back as this mark of the library's.
_UNKNOWN: Final = " ⁇ "
DECODED: Final = [
    "the hot fox",
    "",
    f"{_UNKNOWN}t{_UNKNOWN}ße 東{_UNKNOWN} q",
    f"{_UNKNOWN} fox",
    "ox",
]
REVERSED: Final = [
    "ox fhot  the",
    "",
    f"q {_UNKNOWN}東 eß{_UNKNOWN}t{_UNKNOWN} ",
    f"ox f{_UNKNOWN} ",
    "ox ",
]
PIECES: Final = [
    ["▁the", "▁", "hot", "▁f", "ox"],
    [],
    ["▁", "S", "t", "ra", "ß", "e", "▁", "東", "京", "▁", "q"],
    ["▁", "\ufffd\ufffd", "▁f", "ox"],
    ["▁", "ox"],
]
#: The places of all pieces, marks included, of `TEXTS`.
BEGINS: Final = [
    0,
    0,
    3,
    4,
    7,
    9,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    2,
    4,
    6,
    7,
    9,
    12,
    15,
    16,
    0,
    0,
    0,
    0,
    2,
    4,
    0,
    0,
    2,
    2,
    0,
]
ENDS: Final = [
    0,
    3,
    4,
    7,
    9,
    11,
    0,
    0,
    0,
    0,
    0,
    1,
    2,
    4,
    6,
    7,
    9,
    12,
    15,
    16,
    17,
    0,
    0,
    0,
    2,
    4,
    6,
    0,
    0,
    2,
    4,
    0,
]


def _bytes(texts: list[str]) -> list[bytes]:
    return [each.encode() for each in texts]


def _run(build: Callable[[fe.Graph], Any], **config: Any) -> Any:
    graph = fe.Graph()
    fetches = build(graph)
    with fe.blocking.Session(graph, **config) as session:
        return session.run(fetches)


def _tokenize(
    texts: list[bytes] = TEXTS,
    content: bytes = MODEL,
    op: str = "SentencepieceTokenizeOp",
    *,
    size: Any = 0,
    alpha: Any = 0.0,
    bos: Any = False,
    eos: Any = False,
    reverse: Any = False,
    **attrs: Any,
) -> list[Any]:
    def build(graph: fe.Graph) -> list[fe.Tensor]:
        handle = graph.ops.SentencepieceOp(model=content)
        listed = np.array(texts, object)
        sizes, alphas = np.array(size, np.int32), np.array(alpha, np.float32)
        return list(getattr(graph.ops, op)(handle, listed, sizes, alphas, bos, eos, reverse, **attrs))

    return [each.tolist() for each in _run(build)]


def _detokenize(values: Any, splits: list[int], content: bytes = MODEL, **marks: bool) -> Any:
    def build(graph: fe.Graph) -> fe.Tensor:
        handle = graph.ops.SentencepieceOp(model=content)
        flags = [marks.get(name, False) for name in ("bos", "eos", "reverse")]
        return graph.ops.SentencepieceDetokenizeOp(handle, values, np.array(splits), *flags)

    return _run(build).tolist()


def _splits(rows: list[Any], marks: int = 0) -> list[int]:
    return [0, *np.cumsum([len(row) + marks for row in rows]).tolist()]


def test_texts_become_rows_of_ids() -> None:
    values, splits = _tokenize()
    assert values == functools.reduce(operator.iadd, IDS, [])
    assert splits == _splits(IDS)


def test_marks_go_around_the_pieces_and_change_places_where_all_is_reversed() -> None:
    values, splits = _tokenize(bos=True, eos=True, reverse=True, out_type=fe.dtypes.string)
    assert values == [each.encode() for row in PIECES for each in ("</s>", *row[::-1], "<s>")]
    assert splits == _splits(PIECES, marks=2)


def test_offsets_count_bytes_and_are_zero_for_marks() -> None:
    values, splits, begins, ends = _tokenize(
        op="SentencepieceTokenizeWithOffsetsOp", bos=True, eos=True, out_type=fe.dtypes.string
    )
    assert values == [each.encode() for row in PIECES for each in ("<s>", *row, "</s>")]
    assert splits == _splits(PIECES, marks=2)
    assert (begins, ends) == (BEGINS, ENDS)
    backwards = _tokenize(op="SentencepieceTokenizeWithOffsetsOp", bos=True, eos=True, reverse=True)
    assert backwards[0][:7] == [2, *IDS[0][::-1], 1]
    assert backwards[2][:7] == BEGINS[:7][::-1]
    assert backwards[3][:7] == ENDS[:7][::-1]


def test_what_has_no_piece_is_divided_into_bytes_by_a_model_with_pieces_for_them() -> None:
    values, splits, begins, ends = _tokenize(
        ["Zß q京".encode()],
        model(byte_pieces=True, pad=True),
        "SentencepieceTokenizeWithOffsetsOp",
        out_type=fe.dtypes.string,
    )
    assert values == _bytes(["▁", "<0x5A>", "ß", "▁", "q", "<0xE4>", "<0xBA>", "<0xAC>"])
    assert (splits, begins, ends) == ([0, 8], [0, 0, 1, 3, 4, 5, 5, 5], [0, 1, 3, 4, 5, 5, 5, 8])
    content = model(byte_pieces=True, pad=True)
    assert _detokenize(np.array([21, 62, 232, 152, 6], np.int32), [0, 5], content) == [b"zzz(\xd2\x82ox"]


def test_the_best_divisions_of_all_texts_follow_each_other() -> None:
    values, splits = _tokenize([b"the fox", b""], size=3, bos=True, return_nbest=True)
    assert values == [1, 10, 11, 6, 1, 10, 20, 4, 1, 20, 3, 11, 6, 1]
    assert splits == [0, 4, 8, 13, 14]


def test_ids_and_pieces_become_texts() -> None:
    values, splits = np.array(functools.reduce(operator.iadd, IDS, []), np.int32), _splits(IDS)
    assert _detokenize(values, splits) == _bytes(DECODED)
    assert _detokenize(values, splits, bos=True, eos=True, reverse=True) == _bytes(REVERSED)
    pieces = np.array([each.encode() for row in PIECES for each in row], object)
    assert _detokenize(pieces, splits) == _bytes(
        ["the hot fox", "", "Straße 東京 q", "\ufffd\ufffd fox", "ox"]
    )
    assert _detokenize(np.zeros(0, np.int32), [0]) == []
    assert _detokenize(np.array([3, 4, 5], np.int32), [1, 3]) == [b"foxth"]


def test_ids_pieces_and_their_number() -> None:
    def build(graph: fe.Graph) -> list[fe.Tensor]:
        ops = graph.ops
        handle = ops.SentencepieceOp(model=MODEL)
        return [
            ops.SentencepieceVocabSizeOp(handle),
            ops.SentencepieceIdToStringOp(handle, np.array([0, 1, 10, 3], np.int32)),
            ops.SentencepieceStringToIdOp(handle, np.array([b"the", b"nope", b"</s>"], object)),
        ]

    size, pieces, ids = _run(build)
    assert size == 22
    assert pieces.tolist() == _bytes(["<unk>", "<s>", "▁the", "the"])
    assert ids.tolist() == [3, 0, 2]


# The nodes of tf_sentencepiece name their model.


def _node(op: str, *inputs: Any, content: bytes = MODEL, **attrs: Any) -> Any:
    attrs = attrs if "model_file" in attrs else {"model_proto": content, **attrs}

    def build(graph: fe.Graph) -> Any:
        found = getattr(graph.ops, op)(*inputs, **attrs)
        return list(found) if isinstance(found, tuple) else found

    return _run(build)


def _encode(op: str, texts: list[bytes], size: Any = 0, alpha: Any = 0.0, **attrs: Any) -> list[Any]:
    arguments = np.array(texts, object), np.array(size, np.int32), np.array(alpha, np.float32)
    return [each.tolist() for each in _node(op, *arguments, **attrs)]


def test_rows_are_padded() -> None:
    values, lengths = _encode("SentencepieceEncodeDense", TEXTS)
    assert values == [[*row, *[0] * (11 - len(row))] for row in IDS]
    assert lengths == [5, 0, 11, 4, 2]
    padded = model(pad=True)
    assert _encode("SentencepieceEncodeDense", TEXTS[3:], content=padded) == [
        [[20, 0, 11, 6], [20, 6, 22, 22]],
        [4, 2],
    ]
    assert _encode(
        "SentencepieceEncodeDense",
        TEXTS[:2],
        content=padded,
        reverse=True,
        add_bos=True,
        add_eos=True,
        out_type=fe.dtypes.string,
    ) == [
        [_bytes(["<s>", *PIECES[0][::-1], "</s>"]), _bytes(["<s>", "</s>", *["<pad>"] * 5])],
        [7, 2],
    ]
    assert _encode("SentencepieceEncodeDense", []) == [[], []]


def test_rows_as_a_sparse_matrix() -> None:
    assert _encode("SentencepieceEncodeSparse", [*TEXTS[:2], TEXTS[4]], add_eos=True) == [
        [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [1, 0], [2, 0], [2, 1], [2, 2]],
        [*IDS[0], 2, 2, *IDS[4], 2],
        [3, 6],
    ]
    assert _encode("SentencepieceEncodeSparse", [b""]) == [[], [], [1, 0]]


def test_padded_rows_become_texts() -> None:
    ids = np.array([[*row, *[0] * (11 - len(row))] for row in IDS], np.int32)
    lengths = np.array([len(row) for row in IDS], np.int32)
    assert _node("SentencepieceDecode", ids, lengths).tolist() == _bytes(DECODED)
    assert _node("SentencepieceDecode", ids, lengths, reverse=True).tolist() == _bytes(REVERSED)
    with pytest.raises(InvalidArgumentError, match=r"12 is not in \[0, 11\]"):
        _node("SentencepieceDecode", ids, lengths + 1)


def test_ids_pieces_and_their_types() -> None:
    ids = np.array([[0, 1], [3, 21]], np.int32)
    found = [_node("SentencepieceGetPieceType", ids, piece_type=kind).tolist() for kind in range(3)]
    assert found == [
        [[True, False], [False, False]],
        [[False, True], [False, False]],
        [[False, False], [False, True]],
    ]
    with pytest.raises(InvalidArgumentError, match=r"0 \(unknown\), 1 \(control\) or 2 \(unused\), not 3"):
        _node("SentencepieceGetPieceType", ids, piece_type=3)
    pieces = _node("SentencepieceIdToPiece", np.array([[0, 1], [10, 500]], np.int32)).tolist()
    assert pieces == [[b"<unk>", b"<s>"], ["▁the".encode(), b""]]
    assert _node("SentencepiecePieceToId", np.array([b"the", b"nope", b"</s>"], object)).tolist() == [3, 0, 2]
    assert _node("SentencepieceGetPieceSize") == 22


def test_a_session_reads_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(MODEL)
    graph = fe.Graph()
    size = graph.ops.SentencepieceGetPieceSize(model_file=str(path))
    with fe.blocking.Session(graph) as session:
        assert session.run(size) == 22
        path.write_bytes(model(pad=True))
        assert session.run(size) == 22
    with fe.blocking.Session(graph) as session:
        assert session.run(size) == 23
    path.unlink()
    with fe.blocking.Session(graph) as session, pytest.raises(NotFoundError, match=str(path)):
        session.run(size)
    with (
        fe.blocking.Session(graph, config=fe.Config(file_access="none")) as session,
        pytest.raises(PermissionDeniedError, match="file_access"),
    ):
        session.run(size)


# Drawing.


def test_drawing_gives_a_division_of_the_text() -> None:
    text = b"the hot fox the fox"
    drawn = {
        tuple(_tokenize([text], size=size, alpha=0.1, out_type=fe.dtypes.string)[0]) for size in [-1, 8] * 12
    }
    assert len(drawn) > 1
    assert {b"".join(pieces) for pieces in drawn} == {"▁the▁hot▁fox▁the▁fox".encode()}
    best = _tokenize([text], out_type=fe.dtypes.string)[0]
    assert _tokenize([text], size=4, alpha=1e4, out_type=fe.dtypes.string)[0] == best
    assert _tokenize([text], size=1, alpha=0.0, out_type=fe.dtypes.string)[0] == best


def test_a_text_has_its_own_number_of_divisions_where_a_vector_is_given() -> None:
    values, _ = _encode("SentencepieceEncodeDense", [b"ox"] * 2, size=[0, 1], alpha=[0.0, 0.1])
    assert values == [[20, 6]] * 2
    with pytest.raises(InvalidArgumentError, match="must be equal"):
        _encode("SentencepieceEncodeDense", [b"ox"] * 2, size=[0])


# The library itself.


@given(st.text(alphabet="thefoxqu \u3000ßS東京▁\n", max_size=30))
def test_pieces_are_those_of_the_library(text: str) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=MODEL)
    values, _, begins, ends = _tokenize([text.encode()], op="SentencepieceTokenizeWithOffsetsOp")
    assert values == processor.encode(text)
    assert _tokenize([text.encode()])[0] == values
    assert begins[1:] == ends[:-1]
    assert _detokenize(np.array(values, np.int32), [0, len(values)]) == [
        (processor.decode(values) or "").encode()
    ]


# Refusals.


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "the SentencePiece model is empty"), (b"junk", "these 4 bytes are no SentencePiece model")],
)
def test_no_model(content: bytes, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        _tokenize(content=content)


def test_both_or_neither_of_file_and_content() -> None:
    for attrs in ({"model_file": "x", "model_proto": MODEL}, {"model_file": ""}):
        with pytest.raises(InvalidArgumentError, match="either `model_file` or `model_proto`"):
            _node("SentencepieceGetPieceSize", **attrs)


@pytest.mark.parametrize(("mark", "name"), [("bos", "bos_id"), ("eos", "eos_id")])
def test_a_mark_that_the_model_lacks(mark: str, name: str) -> None:
    asked: dict[str, Any] = {mark: True}
    with pytest.raises(InvalidArgumentError, match=f"its {name} is not defined"):
        _tokenize(content=model(marks=False), **asked)
    with pytest.raises(InvalidArgumentError, match=f"its {name} is not defined"):
        _encode("SentencepieceEncodeDense", [b""], content=model(marks=False), **{f"add_{mark}": True})


def test_ids_and_splits_that_do_not_fit() -> None:
    for number in (22, -1):
        with pytest.raises(InvalidArgumentError, match=rf"id {number} is not in \[0, 22\)"):
            _detokenize(np.array([3, number], np.int32), [0, 2])
    for splits in ([0, 9], [0, 2, 1], [-1, 2]):
        with pytest.raises(InvalidArgumentError, match="must ascend within the 2 values"):
            _detokenize(np.array([3, 4], np.int32), splits)


def test_divisions_that_the_library_cannot_search() -> None:
    with pytest.raises(InvalidArgumentError, match="512"):
        _tokenize([b"ox"], size=600, alpha=0.1)
    with pytest.raises(InvalidArgumentError, match="NBestEncode is not available"):
        _tokenize([b"ox"], model(BPE), size=2, return_nbest=True)
    with pytest.raises(InvalidArgumentError, match="nbest_size must be at least 1 with return_nbest, not 0"):
        _tokenize([b"ox"], return_nbest=True)


def test_without_the_package_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(FailedPreconditionError, match="pip install 'sentencepiece"):
        _tokenize()


async def test_two_graphs_that_share_resources_keep_their_models() -> None:
    resources = fe.ResourceManager()
    sizes = []
    for content in (MODEL, model(pad=True)):
        graph = fe.Graph()
        size = graph.ops.SentencepieceVocabSizeOp(graph.ops.SentencepieceOp(model=content))
        async with fe.Session(graph, resources=resources) as session:
            sizes.append(int(await session.run(size)))
    assert sizes == [22, 23]
