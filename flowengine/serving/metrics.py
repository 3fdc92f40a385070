"""The counters of a server, for Prometheus; names as TensorFlow Serving's where it has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from flowengine.core.errors import NotFoundError
from flowengine.serving.models.manager import ModelManager
from flowengine.serving.models.versions import ServedVersion, VersionState

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: Upper ends of the classes of latencies, in seconds.
_LATENCIES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class ServerMetrics:
    """The counters of a server; without the package prometheus-client it counts nothing.

    manager   the models, whose states and queues are read when the metrics are asked for
    """

    def __init__(self, manager: ModelManager) -> None:
        self._manager = manager
        try:
            import prometheus_client
        except ImportError:
            self._registry: Any = None
            return
        self._registry = registry = prometheus_client.CollectorRegistry()
        self._requests: dict[tuple[str, str], int] = {}
        self._loads: dict[tuple[str, str], int] = {}
        self._latency = prometheus_client.Histogram(
            "flowengine_serving_request_seconds",
            "The time from the beginning of a request to its answer",
            ["model_name", "method"],
            buckets=_LATENCIES,
            registry=registry,
        )
        self._rows = prometheus_client.Histogram(
            "flowengine_serving_request_rows",
            "The rows of a request",
            ["model_name"],
            buckets=_ROWS,
            registry=registry,
        )
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return the figures of the models at this moment, for Prometheus' own registry."""
        from prometheus_client.metrics_core import Metric

        counted = Metric(":tensorflow:serving:request_count", "The number of requests", "counter")
        for (named, status), count in self._requests.items():
            counted.add_sample(counted.name, {"model_name": named, "status": status}, count)
        loads = Metric(":tensorflow:cc:saved_model:load_attempt_count", "The number of loads", "counter")
        for (path, status), count in self._loads.items():
            loads.add_sample(loads.name, {"model_path": path, "status": status}, count)
        states = Metric("flowengine_serving_version_state", "The state of each version", "gauge")
        waiting = Metric("flowengine_serving_waiting_rows", "Rows that wait or are computed", "gauge")
        running = Metric("flowengine_serving_running_requests", "Requests that have not ended", "gauge")
        memory = Metric("flowengine_serving_estimated_bytes", "Memory of a version, estimated", "gauge")
        for name, model in self._manager.models.items():
            for version in model.versions.values():
                labels = {"model_name": name, "version": str(version.number)}
                states.add_sample(states.name, labels, version.state.value)
                if version.state in (VersionState.AVAILABLE, VersionState.UNLOADING):
                    waiting.add_sample(waiting.name, labels, version.waiting_rows)
                    running.add_sample(running.name, labels, version.requests)
                    memory.add_sample(memory.name, labels, version.estimated_bytes)
        return [counted, loads, states, waiting, running, memory]

    def request(self, model: str, method: str, status: str, seconds: float, rows: int | None) -> None:
        """Count one request: its model, what it asked for, the name of its outcome, and its rows."""
        if self._registry is None:
            return
        key = (model, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        self._latency.labels(model, method).observe(seconds)
        if rows is not None:
            self._rows.labels(model).observe(rows)

    def loaded(self, model: str, version: ServedVersion) -> None:
        """Count a version that was loaded, or failed to be."""
        if self._registry is not None and version.state in (VersionState.AVAILABLE, VersionState.END):
            if version.state is VersionState.END and version.error is None:
                return
            key = (str(version.folder), "success" if version.error is None else "fail")
            self._loads[key] = self._loads.get(key, 0) + 1

    def text(self) -> bytes:
        """Write all metrics in Prometheus' text format; NotFoundError without its package."""
        if self._registry is None:
            raise NotFoundError("metrics need a package: pip install prometheus-client")
        import prometheus_client

        return bytes(prometheus_client.generate_latest(self._registry))


__all__ = ["ServerMetrics"]
