"""The body of a request, as it comes from a server on trio or on asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from flowengine.serving.requests import HttpRequest, RequestError, RequestLimits


async def received_body(request: HttpRequest, limits: RequestLimits) -> bytes:
    """Read the body of a request, as it was sent; on the event loop of the server.

    Raises RequestError if it is too large, too late, or encoded in an unknown way, ClientGone if the client
    hangs up before its end.
    """
    try:
        return await _within(limits.body_seconds, request.body, limits)  # type: ignore[no-any-return]
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {limits.body_seconds:g} s") from None


async def _within(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on either event loop; TimeoutError when the time is over."""
    import sniffio  # which trio brings along

    if sniffio.current_async_library() == "trio":
        try:
            with trio.fail_after(seconds):
                return await function(*args)
        except trio.TooSlowError:
            raise TimeoutError from None
    import asyncio

    async with asyncio.timeout(seconds):
        return await function(*args)


__all__ = ["received_body"]
