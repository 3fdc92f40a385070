"""SentencePiece models: texts into pieces and back, by the `sentencepiece` package of the extra `text`.

Pieces are numbers or strings. All texts are bytes, and offsets count bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.wire import fields

#: Fields of the library's messages: a text has pieces, and each piece has these.
_PIECES: Final = 2
_PIECE, _ID, _BEGIN, _END = 1, 2, 4, 5

#: The ids of pieces, or the pieces themselves.
Pieces: TypeAlias = Sequence[int] | Sequence[bytes]


class SentencePieceModel:
    """A model, loaded.

    Its methods may be called from several threads at once.
    """

    __slots__ = ("__weakref__", "_processor", "container", "name")

    def __init__(self, content: bytes, name: str = "", *, container: str = "") -> None:
        """Load a model from the content of its file.

        Raises InvalidArgumentError if it is no model, and FailedPreconditionError without the package.
        """
        self.name = name
        self.container = container
        if not content:
            raise InvalidArgumentError("the SentencePiece model is empty: set the model's content")
        try:
            self._processor = _library().SentencePieceProcessor(model_proto=content)
        except (RuntimeError, ValueError, OSError) as error:
            raise InvalidArgumentError(
                f"these {len(content)} bytes are no SentencePiece model: {error}"
            ) from error

    @property
    def size(self) -> int:
        """How many pieces the model has."""
        return int(self._processor.get_piece_size())

    @property
    def pad_id(self) -> int:
        """The id of the piece that fills rows; -1 if the model has none."""
        return int(self._processor.pad_id())

    def encode(self, text: bytes, kind: type, nbest_size: int = 0, alpha: float = 0.0) -> Pieces:
        """Return the pieces of a text: ids for the kind `int`, strings for `bytes`.

        nbest_size   0 or 1 for the best division; else one is drawn, of so many or, below 0, of all
        alpha        how sharply drawing prefers the best ones; for BPE, the chance that a merge is left out

        Raises InvalidArgumentError for more divisions than the library can search.
        """
        found = self._encoded(text, int if kind is int else str, nbest_size, alpha)
        return found if kind is int else _bytes_of(found)

    def encode_with_offsets(
        self, text: bytes, kind: type, nbest_size: int = 0, alpha: float = 0.0
    ) -> list[tuple[Any, int, int]]:
        """Return (piece, begin, end) for each piece of a text: it stands for these bytes of the text."""
        message = self._encoded(text, "serialized_proto", nbest_size, alpha)
        found = []
        for number, _, content in fields(message):
            if number == _PIECES:
                piece = {field: value for field, _, value in fields(content)}
                value = piece.get(_ID, 0) if kind is int else bytes(piece.get(_PIECE, b""))
                found.append((value, piece.get(_BEGIN, 0), piece.get(_END, 0)))
        return found

    def _encoded(self, text: bytes, out_type: Any, nbest_size: int, alpha: float) -> Any:
        if nbest_size in (0, 1):
            return _checked(self._processor.encode, text, out_type=out_type)
        return _checked(
            self._processor.encode,
            text,
            out_type=out_type,
            enable_sampling=True,
            nbest_size=nbest_size,
            alpha=alpha,
        )

    def nbest(self, text: bytes, kind: type, count: int) -> list[Pieces]:
        """Return the pieces of the best divisions of a text, at most so many.

        Raises InvalidArgumentError for a model that knows only the best one, as BPE.
        """
        found = _checked(
            self._processor.nbest_encode, text, nbest_size=count, out_type=int if kind is int else str
        )
        return list(found) if kind is int else [_bytes_of(pieces) for pieces in found]

    def decode(self, pieces: Pieces) -> bytes:
        """Return the text of pieces; InvalidArgumentError for an id that the model lacks."""
        if not pieces:
            return b""
        if isinstance(pieces[0], int):
            for each in pieces:
                self._check_id(int(each))
        text = _checked(self._processor.decode, list(pieces))
        return text if isinstance(text, bytes) else _utf8(text)

    def beginning(self, kind: type) -> Any:
        """Return the mark of the beginning of a text; InvalidArgumentError if the model has none."""
        return self._mark("bos_id", self._processor.bos_id(), kind)

    def end(self, kind: type) -> Any:
        """Return the mark of the end of a text; InvalidArgumentError if the model has none."""
        return self._mark("eos_id", self._processor.eos_id(), kind)

    def _mark(self, name: str, number: int, kind: type) -> Any:
        if number < 0:
            raise InvalidArgumentError(f"the model has no such mark: its {name} is not defined")
        return number if kind is int else self.piece(number)

    def piece(self, number: int) -> bytes:
        """Return the piece of an id; InvalidArgumentError for an id that the model lacks."""
        self._check_id(number)
        return _utf8(self._processor.id_to_piece(number))

    def number(self, piece: bytes) -> int:
        """Return the id of a piece: that of the unknown piece if the model lacks it."""
        return int(self._processor.piece_to_id(piece))

    def is_unknown(self, number: int) -> bool:
        """Whether an id stands for all that the model does not know."""
        self._check_id(number)
        return bool(self._processor.is_unknown(number))

    def is_control(self, number: int) -> bool:
        """Whether a piece is a mark, and stands for no text."""
        self._check_id(number)
        return bool(self._processor.is_control(number))

    def is_unused(self, number: int) -> bool:
        """Whether a piece is never used."""
        self._check_id(number)
        return bool(self._processor.is_unused(number))

    def _check_id(self, number: int) -> None:
        if not 0 <= number < self.size:
            raise InvalidArgumentError(f"id {number} is not in [0, {self.size}), the ids of the model")


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise FailedPreconditionError(
            "SentencePiece models need the package sentencepiece: pip install 'sentencepiece>=0.2.2'"
        ) from None
    return sentencepiece


def _checked(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call the library; its errors become InvalidArgumentError."""
    try:
        return function(*args, **keywords)
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidArgumentError(f"SentencePiece: {error}") from error


def _utf8(text: str | bytes) -> bytes:
    """Return the bytes of a piece; newer versions of the library give strings."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def _bytes_of(pieces: Sequence[str | bytes]) -> list[bytes]:
    return [_utf8(each) for each in pieces]


__all__ = ["Pieces", "SentencePieceModel"]
