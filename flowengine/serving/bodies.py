"""The body of a request, as it comes from a server on trio or on asyncio."""

from __future__ import annotations

from typing import Final

from flowengine.serving.encodings import expanding
from flowengine.serving.event_loops import within
from flowengine.serving.long_texts import TextThread
from flowengine.serving.requests import HttpRequest, RequestError, RequestLimits

#: Bytes of a compressed body take as long as so many bytes of JSON, because of what they expand to.
_EXPANDS_TO: Final = 32


async def received_body(request: HttpRequest, limits: RequestLimits) -> bytes:
    """Read the body of a request, as it was sent; on the event loop of the server.

    Raises RequestError if it is too large, too late, or encoded in an unknown way, ClientGone if the client
    hangs up before its end.
    """
    try:
        return await within(limits.body_seconds, request.body, limits)
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {limits.body_seconds:g} s") from None


async def expanded_body(request: HttpRequest, sent: bytes, texts: TextThread, limits: RequestLimits) -> bytes:
    """Return the body of a request without its compression; in the trio program.

    Raises RequestError if it is too large then, InvalidArgumentError if it is not compressed as it says.
    """
    if not request.encoding:
        return sent
    return await texts.finish(expanding(sent, request.encoding, limits), _EXPANDS_TO * len(sent))


__all__ = ["expanded_body", "received_body"]
