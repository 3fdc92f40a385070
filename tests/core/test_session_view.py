"""Behaviour that all kinds of sessions have in common."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

import flowengine as fe


def test_a_plain_with_names_the_statement_to_use() -> None:
    elsewhere = fe.asyncio.Session()
    for session in (fe.Session(), fe.anyio.Session(), elsewhere):
        given: Any = session
        with pytest.raises(TypeError, match=r"use `async with`.*fe\.blocking\.Session"), given:
            pass
        with pytest.raises(TypeError, match="use `async with`"), ExitStack() as stack:
            stack.enter_context(given)
    asyncio.run(elsewhere.close())


async def test_an_asynchronous_with_of_a_blocking_session_names_the_statement_to_use() -> None:
    session: Any = fe.blocking.Session()
    with pytest.raises(TypeError, match="use `with`, not `async with`"):
        async with session:
            pass
    with pytest.raises(TypeError, match="use `with`, not `async with`"):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(session)
    session.close()
