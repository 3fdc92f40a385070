"""`flowengine serve`: a process that answers, drains and ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.serving import app
from flowengine.serving import server as running
from flowengine.serving.application import ServingApplication
from flowengine.serving.models.settings import RowBatching
from flowengine.serving.requests import RequestLimits
from tests.serving.clients import rows
from tests.serving.exports import export_factor, export_gate
from tests.serving.processes import PATIENCE, serving

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")


def test_a_model_answers_and_a_new_version_takes_its_place(tmp_path: Path) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    log = tmp_path / "access.log"
    with serving(tmp_path, "--poll", "0.05", "--access-log", str(log), "--batch", "8") as server:
        server.until("'m', version 1: AVAILABLE")
        assert server.ask("/v1/models/m:predict", rows(2.0)) == (200, {"predictions": [6.0]})
        assert server.ask("/v2/health/ready")[0] == 200
        export_factor(tmp_path / "m" / "2", 5.0)
        server.until("'m', version 2: AVAILABLE")
        assert server.ask("/v1/models/m:predict", rows(2.0)) == (200, {"predictions": [10.0]})
        server.until("'m', version 1: END")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [each for each in entries if each["path"] == "/v1/models/m:predict"]
    assert [(each["status"], each["version"], each["rows"]) for each in asked] == [(200, 1, 1), (200, 2, 1)]


def test_a_client_that_hangs_up_ends_its_step(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path) as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        connection.close()
        server.until_running(0)


def test_the_first_signal_drains(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path, "--drain", "0.5") as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        connection.close()


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    export_gate(tmp_path / "gate" / "1")
    with serving(tmp_path, "--drain", "1000") as server:
        server.until("'gate', version 1: AVAILABLE")
        connection = server.begin("/v1/models/gate:predict", rows(1.0))
        server.until_running(1)
        server.process.send_signal(signal.SIGTERM)
        server.until("draining")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
        connection.close()


def test_files_of_tensorflow_serving(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        export_factor(tmp_path / "deep" / "m" / str(number), number)
    models = tmp_path / "models.config"
    models.write_text(
        "model_config_list { config { name: 'multiply' base_path: '" + str(tmp_path / "deep" / "m") + "' "
        "model_platform: 'tensorflow' model_version_policy { specific { versions: 1 versions: 3 } } "
        "version_labels { key: 'stable' value: 1 } } }"
    )
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 128 } batch_timeout_micros { value: 0 }")
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true path: '/counted' }")
    options = (
        *("--model_config_file", str(models), "--batching_parameters_file", str(batching)),
        *("--monitoring_config_file", str(monitoring)),
    )
    with serving(None, *options) as server:
        server.until("'multiply', version 1: AVAILABLE")
        server.until("'multiply', version 3: AVAILABLE")
        assert server.ask("/v1/models/multiply:predict", rows(2.0)) == (200, {"predictions": [6.0]})
        stable = server.ask("/v1/models/multiply/labels/stable:predict", rows(2.0))
        assert stable == (200, {"predictions": [2.0]})
        assert ":tensorflow:serving:request_count" in server.ask("/counted")[1]


def test_the_first_signal_takes_readiness_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    export_factor(tmp_path / "m" / "1", 3.0)
    application = app(tmp_path)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self: self.handle_exit(signal.SIGTERM, None))
    running.run(application, host="127.0.0.1", port=0)
    assert application.manager.is_draining


def test_options_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_factor(tmp_path / "m" / "1", 3.0)
    given: list[tuple[ServingApplication, dict[str, Any]]] = []
    monkeypatch.setattr(running, "run", lambda application, **options: given.append((application, options)))
    numbers = ("--timeout", "3", "--max-body", "2", "--drain", "4", "--memory", "5", "--batch", "6")
    others = ("--port", "7", "--connections", "8", "--model-control", "explicit")
    assert main(["serve", str(tmp_path), *numbers, *others]) == 0
    ((application, options),) = given
    assert application.limits == RequestLimits(body_bytes=2 << 20, timeout_seconds=3.0)
    assert application.drain_seconds == 4.0
    manager = application.manager
    assert (manager.options.memory_bytes, manager.is_explicit) == (5 << 20, True)
    batching = manager.models["m"].settings.batching
    assert batching == RowBatching(max_rows=6, max_waiting_rows=96)
    assert (options["port"], options["limit_concurrency"]) == (7, 8)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give either MODELS, a folder, or --model_config_file"),
        (["nowhere"], "there is no folder"),
        (["."], "holds no model"),
        (["--model_config_file", "nowhere"], "'nowhere' cannot be read"),
        ([".", "--batching_parameters_file", "bad"], "bad:1:1"),
        ([".", "--sandbox", "--place", "*=CPU:0"], "leave placement options and --at out"),
    ],
)
def test_what_cannot_be_served(
    arguments: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad").write_text("no_such_field: 1")
    assert main(["serve", *arguments]) == failure.USAGE
    assert text in capsys.readouterr().err


def test_the_help_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["serve", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 60
