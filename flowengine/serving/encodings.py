"""Bodies that are compressed, gzip or deflate: expanded and compressed in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.serving.requests import RequestLimits, too_large

#: {encoding: what zlib calls it}
_WINDOWS: Final = {"gzip": 31, "deflate": 15}
#: Bytes that are expanded or compressed at a time: less than a millisecond.
_EXPANDED: Final = 1 << 16
_COMPRESSED: Final = 1 << 14
#: Answers of fewer bytes are sent as they are, and zlib's level of the others: its fastest.
_SIZE_MIN: Final = 1024
_LEVEL: Final = 1


def expanding(body: bytes, encoding: str, limits: RequestLimits) -> Pieces[bytes]:
    """Expand a body, as far as the limit.

    Raises RequestError beyond it, InvalidArgumentError for a body that is not encoded so, or goes on
    behind its stream.
    """
    if not encoding:
        return body
    expander = zlib.decompressobj(wbits=_WINDOWS[encoding])
    found, size, place, view = [], 0, 0, memoryview(body)
    rest: bytes | memoryview = b""
    try:
        while not expander.eof:
            if not rest:
                # A part: zlib copies the rest of what it is given at each call.
                rest = view[place : place + _EXPANDED]
                place += len(rest)
            piece = expander.decompress(rest, _EXPANDED)
            rest = expander.unconsumed_tail
            if not (piece or rest or expander.eof) and place == len(body):
                raise InvalidArgumentError(f"the body is no whole {encoding} stream")
            size += len(piece)
            if size > limits.body_bytes:
                raise too_large(limits)
            found.append(piece)
            yield
    except zlib.error:
        raise InvalidArgumentError(
            f"the body is no {encoding} stream, though its Content-Encoding says so"
        ) from None
    if expander.unused_data or place < len(body):
        raise InvalidArgumentError(f"bytes follow the {encoding} stream of the body: send one stream")
    return b"".join(found)


def compressing(pieces: Iterable[bytes], encoding: str) -> Pieces[list[bytes]]:
    """Compress the pieces of a body."""
    compressor = zlib.compressobj(_LEVEL, wbits=_WINDOWS[encoding])
    found = []
    for each in pieces:
        view = memoryview(each)
        for begin in range(0, len(view), _COMPRESSED):
            found.append(compressor.compress(view[begin : begin + _COMPRESSED]))
            yield
    found.append(compressor.flush())
    return [each for each in found if each]


def accepted_encoding(given: bytes | None, size: int) -> str:
    """Return the encoding in which to send an answer of so many bytes, "" for as it is.

    given   the header Accept-Encoding, which may weigh its encodings; gzip is taken where both are as good

    >>> from flowengine.serving.encodings import accepted_encoding
    >>> accepted_encoding(b"deflate;q=0.5, gzip;q=0", 10_000)
    'deflate'
    """
    if given is None or size < _SIZE_MIN:
        return ""
    weights: dict[str, float] = {}
    for each in given.decode("latin-1").lower().split(","):
        name, *parameters = [part.strip() for part in each.split(";")]
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            weights[name] = float(weight)
        except ValueError:
            weights[name] = 0.0
    best = max(_WINDOWS, key=lambda name: weights.get(name, 0.0))
    return best if weights.get(best, 0.0) > 0 else ""


__all__ = ["accepted_encoding", "compressing", "expanding"]
