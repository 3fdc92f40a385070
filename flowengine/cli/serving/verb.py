"""`flowengine serve`: the models of a folder, or of a configuration file, behind HTTP."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import Any, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.placement import config_of, placement_options
from flowengine.cli.tasks.clusterfile import target_at
from flowengine.core.errors import OpError

HELP: Final = """\
Serve the models of MODELS by TensorFlow Serving's REST and the Open Inference Protocol.

MODELS is a folder of models, each a folder with one folder a version (digits/1/saved_model.pb), or one such
model. New versions are loaded beside those that answer; older ones end with their last request.

  flowengine serve models/ --port 8501
  curl -d '{"instances": [[5.1, 3.5, 1.4, 0.2]]}' http://127.0.0.1:8501/v1/models/iris:predict

The first SIGTERM or SIGINT drains, a second one ends at once.
"""


@click.command("serve", help=HELP)
@click.argument("models", type=click.Path(), metavar="MODELS", required=False)
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen at this address."
)
@click.option(
    "--port",
    "--rest_api_port",
    default=8501,
    show_default=True,
    metavar="N",
    type=int,
    help="Listen at this port.",
)
@click.option(
    "--batch",
    "max_rows",
    type=click.IntRange(1),
    metavar="N",
    help="Compute up to N rows of requests together.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Answer within S seconds, or fail.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Let requests go on for S seconds at the end.",
)
@click.option(
    "--max-body",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MB",
    help="Refuse larger bodies.",
)
@click.option(
    "--connections", type=click.IntRange(1), metavar="N", help="Refuse more than N connections (503)."
)
@click.option(
    "--memory",
    type=click.IntRange(1),
    metavar="MB",
    help="Bound the models' memory, as estimated by their files.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Look for new versions every S seconds; 0: once.",
)
@click.option(
    "--model-control",
    type=click.Choice(["poll", "explicit"]),
    default="poll",
    show_default=True,
    help="Load models as they are found, or when clients ask for it.",
)
@click.option("--access-log", metavar="FILE", help="Write requests as lines of JSON; - for standard output.")
@click.option(
    "--at",
    metavar="PLACE",
    envvar="FLOWENGINE_TARGET",
    help="Run the steps at a task of a cluster, as for `run`.",
)
@click.option("--sandbox", is_flag=True, help="Run each version in a process of its own, in a sandbox.")
@click.option(
    "--model_config_file",
    "--model-config-file",
    metavar="FILE",
    help="Take models, policies and labels from this file.",
)
@click.option(
    "--batching_parameters_file",
    "--batching-parameters-file",
    metavar="FILE",
    help="Batch as this file says.",
)
@click.option(
    "--monitoring_config_file",
    "--monitoring-config-file",
    metavar="FILE",
    help="Take the path of the metrics from this file.",
)
@click.option(
    "--certificate", type=click.Path(exists=True), metavar="FILE", help="Serve TLS with this certificate."
)
@click.option("--key", type=click.Path(exists=True), metavar="FILE", help="The certificate's private key.")
@placement_options
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(**options: Any) -> None:
    if importlib.util.find_spec("uvicorn") is None:
        raise CommandError("serving needs uvicorn: pip install uvicorn prometheus-client", USAGE)
    from flowengine.serving.server import run

    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        application, log = _application(options)
    except OpError as error:
        raise CommandError(error.message, USAGE) from None
    try:
        host = f"[{options['host']}]" if ":" in options["host"] else options["host"]
        scheme = "http" if options["certificate"] is None else "https"
        logging.getLogger("flowengine.serving").info(
            "models at %s://%s:%d/v1/models/NAME: %s",
            *(scheme, host, options["port"], ", ".join(application.manager.models)),
        )
        run(
            application,
            host=options["host"],
            port=options["port"],
            limit_concurrency=options["connections"],
            ssl_certfile=options["certificate"],
            ssl_keyfile=options["key"],
        )
    finally:
        if log is not None:
            log.close()


def _application(options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the application that the options ask for, and the file of its access log."""
    from flowengine.core.config import Config
    from flowengine.serving.application import METRICS_PATH, ServingApplication, json_lines
    from flowengine.serving.models.manager import LoadingOptions, ModelManager
    from flowengine.serving.models.settings import (
        RowBatching,
        models_in,
        read_batching,
        read_models,
        read_monitoring,
    )
    from flowengine.serving.requests import RequestLimits

    batching = None
    if options["batching_parameters_file"] is not None:
        batching = read_batching(options["batching_parameters_file"])
    elif options["max_rows"] is not None:
        batching = RowBatching(max_rows=options["max_rows"], max_waiting_rows=16 * options["max_rows"])
    file = options["model_config_file"]
    if (file is None) == (options["models"] is None):
        raise CommandError("give either MODELS, a folder, or --model_config_file", USAGE)

    def models() -> Any:
        return models_in(options["models"], batching) if file is None else read_models(file, batching)

    config = config_of(options["device_counts"], options["places"], options["soft"])
    target = target_at(options["at"] or "")
    if options["sandbox"]:
        if config is not None or target:
            raise CommandError(
                "--sandbox runs each version on the processor: leave placement options and --at out", USAGE
            )
        config = Config.sandbox(
            memory_bytes=(options["memory"] or 1024) << 20, seconds=options["timeout"] or 60.0
        )
    is_explicit = options["model_control"] == "explicit"
    memory = None if options["memory"] is None else options["memory"] << 20
    manager = ModelManager(
        models(),
        LoadingOptions(config=config, target=target, memory_bytes=memory),
        poll_seconds=options["poll"] or None,
        reread=models if options["poll"] or is_explicit else None,
        explicit=is_explicit,
    )
    path = METRICS_PATH
    monitoring = options["monitoring_config_file"]
    log = None
    if options["access_log"] is not None:
        log = click.open_file(options["access_log"], "a")
    application = ServingApplication(
        manager,
        limits=RequestLimits(body_bytes=options["max_body"] << 20, timeout_seconds=options["timeout"]),
        drain_seconds=options["drain"],
        metrics_path=path if monitoring is None else read_monitoring(monitoring),
        access_log=None if log is None else json_lines(log.write),
    )
    return application, log


__all__ = ["command"]
