"""The files of the page about deployment: schemas, options that exist, times that fit together."""

from __future__ import annotations

import importlib.util
import re
import shlex
from typing import Any

import click
import pytest

from flowengine.cli.serving.verb import command
from tests.docs.transcripts import ROOT

PAGE = (ROOT / "docs" / "deployment.md").read_text()


def block(language: str) -> str:
    """The only block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def manifests() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="reading the manifest needs PyYAML: `make examples` has it")
    return list(yaml.safe_load_all(block("yaml")))


def check_options(words: list[str]) -> None:
    """Parse the arguments of `flowengine serve` as the command does."""
    with click.Context(command) as context:
        command.parse_args(context, [*words])


def test_the_manifest_has_kubernetes_schemas() -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate is not in this environment: `make examples` has it")
    import kubernetes_validate

    kinds = set()
    for each in manifests():
        kubernetes_validate.validate(each, "1.31", strict=True)
        kinds.add(each["kind"])
    assert kinds == {"Deployment", "Service", "PodDisruptionBudget"}
    wrong = manifests()[0]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessProbes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


def test_the_pod_has_time_to_drain() -> None:
    pod = manifests()[0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    check_options(["/models", *container["args"]])
    drain = float(container["args"][container["args"].index("--drain") + 1])
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > drain + pause
    memory = int(container["args"][container["args"].index("--memory") + 1])
    assert container["resources"]["limits"]["memory"] == "2Gi"
    assert memory < 2048
    paths = {container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert paths == {"/v2/health/live", "/v2/health/ready"}


def test_the_unit_and_the_image_start_the_server() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", block("ini"), re.MULTILINE)
    program, verb, *words = shlex.split(line)
    assert (program.rpartition("/")[2], verb) == ("flowengine", "serve")
    check_options(words)
    stop = float(re.findall(r"^TimeoutStopSec=(\d+)$", block("ini"), re.MULTILINE)[0])
    assert stop > float(words[words.index("--drain") + 1])
    (entry,) = re.findall(r"^ENTRYPOINT \[(.*)\]$", block("dockerfile"), re.MULTILINE)
    check_options([word.strip().strip('"') for word in entry.split(",")][2:])
