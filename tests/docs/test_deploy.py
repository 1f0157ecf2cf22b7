"""The files of `deploy/` start the server with options, settings and paths that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from prowess.interfaces.cli.main import COMMANDS, load_command
from prowess.interfaces.rest.health import PUBLIC_PATHS
from prowess.run.allowance import DEFAULT_SECONDS
from prowess.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if path.is_file())
PORT = "7717"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a systemd unit, each with its values in order."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if re.match(r"\w+=", line):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def docker(instruction: str) -> list[str]:
    """The words of an instruction of the Dockerfile that is written as JSON."""
    return json.loads(re.findall(rf"^{instruction} (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[-1])


POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
COMMAND_LINES = {
    "systemd": shlex.split(unit("prowess.service")["ExecStart"][0])[1:],
    "docker": docker("CMD"),
    "compose": [
        word.replace("${DOMAIN:?set it in .env}", "example.com") for word in COMPOSE["services"]["prowess"]["command"]
    ],
    "kubernetes": CONTAINER["args"],
}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_a_command_line_is_one_that_serve_accepts(name: str) -> None:
    command, *arguments = COMMAND_LINES[name]

    assert command == "serve"
    context = load_command("serve").make_context("serve", list(arguments))
    assert str(context.params["port"]) == PORT
    assert not context.params["database"], "a password on the command line is visible to other processes"


def test_the_backup_unit_runs_a_command_that_exists() -> None:
    script = shlex.split(unit("prowess-backup.service")["ExecStart"][0])[-1]
    words = shlex.split(script.replace("$(date +%%a)", "Mon"))[1:]

    assert words[0].endswith("/prowess")
    assert words[1] in COMMANDS
    context = load_command(words[1]).make_context(words[1], words[2:])
    assert context.params["replace"] is True


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_every_variable_is_a_setting(path: Path) -> None:
    known = {f"PROWESS_{item.name.upper()}" for item in fields(Settings)}

    assert set(re.findall(r"\bPROWESS_[A-Z_]+[A-Z]\b", path.read_text())) <= known


def test_every_extra_and_every_copied_file_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    texts = [dockerfile, *(page.read_text() for page in (ROOT / "docs/deploy").glob("*.md"))]

    extras = [found for text in texts for found in re.findall(r"(?:prowess|\$1|\.)\[([\w,]+)\]", text)]
    assert extras
    for name in ",".join(extras).split(","):
        assert name in project["optional-dependencies"]
    for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_every_file_is_named_in_the_documentation(path: Path) -> None:
    pages = "\n".join(page.read_text() for page in (ROOT / "docs/deploy").glob("*.md"))

    assert f"deploy/{path.name}" in pages


def test_every_page_that_a_file_names_exists() -> None:
    for path in FILES:
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
            assert (ROOT / page).exists(), (path.name, page)


def test_the_probes_ask_paths_that_need_no_token() -> None:
    probes = {name: CONTAINER[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert set(probes.values()) <= set(PUBLIC_PATHS)
    # A server that restarts because its database is away helps nobody.
    assert probes["livenessProbe"] == "/healthz"
    assert probes["readinessProbe"] == "/readyz"
    check = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", (DEPLOY / "Dockerfile").read_text())
    assert check is not None
    assert (check[1], check[2] in PUBLIC_PATHS) == (PORT, True)


def test_the_proxies_pass_on_to_the_port_and_do_not_buffer() -> None:
    nginx, caddy = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "Caddyfile").read_text()

    assert re.findall(r"server [\d.]+:(\d+)", nginx) == [PORT, PORT]
    assert "proxy_buffering off;" in nginx
    assert "proxy_set_header Host $host;" in nginx
    assert "non_idempotent" not in nginx
    # `http2 on;` is an unknown directive in the nginx of Debian 12 and Ubuntu 24.04.
    assert "listen 443 ssl http2;" in nginx
    assert f"port {PORT}" in caddy
    assert "flush_interval -1" in caddy
    assert nginx.count("{") == nginx.count("}")
    assert caddy.count("{") == caddy.count("}")
    assert MANIFESTS["Ingress"]["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"


def test_the_proxies_wait_longer_than_a_run_may_take() -> None:
    found = re.search(r"proxy_read_timeout (\d+)h;", (DEPLOY / "nginx.conf").read_text())
    annotations = MANIFESTS["Ingress"]["metadata"]["annotations"]

    assert found is not None
    assert int(found[1]) * 3600 > DEFAULT_SECONDS
    assert int(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"]) > DEFAULT_SECONDS


def test_there_are_two_replicas_and_one_stays_while_machines_are_serviced() -> None:
    assert MANIFESTS["Deployment"]["spec"]["replicas"] == 2
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    assert COMPOSE["services"]["prowess"]["deploy"]["replicas"] == 2


def test_the_parts_of_the_manifest_fit_together() -> None:
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert [port["name"] for port in CONTAINER["ports"]] == ["http"]
    assert str(CONTAINER["ports"][0]["containerPort"]) == PORT
    backend = MANIFESTS["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": MANIFESTS["Service"]["metadata"]["name"], "port": {"name": "http"}}
    volumes = {volume["name"] for volume in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes
    home = next(item["value"] for item in CONTAINER["env"] if item["name"] == "PROWESS_HOME")
    assert home in {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert f"PROWESS_HOME={home}" in (DEPLOY / "Dockerfile").read_text()


def test_containers_have_no_more_rights_than_they_need() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["automountServiceAccountToken"] is False
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    service = COMPOSE["services"]["prowess"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    user = re.findall(r"^USER (\d+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert user == [str(POD["securityContext"]["runAsUser"])]


def test_no_file_contains_a_secret() -> None:
    for name, value in values(COMPOSE):
        if re.search(r"PASSWORD|SECRET|KEY|DATABASE_URL", str(name)):
            assert "${" in value, name
    assert "Secret" not in MANIFESTS


def values(part: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield from values(value, key)
    elif isinstance(part, list):
        for value in part:
            yield from values(value, name)
    else:
        yield name, str(part)


def test_the_unit_is_hardened() -> None:
    found = unit("prowess.service")

    assert found["User"] == ["prowess"]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
    home = re.search(r"PROWESS_HOME=(\S+)", found["Environment"][0])
    assert home is not None
    assert home[1] == f"/var/lib/{found['StateDirectory'][0]}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for path in DEPLOY.glob("prowess*.[st][ei][rm]*"):
        # The program that it starts is not installed here.
        text = path.read_text().replace("/opt/prowess/bin/prowess", "/bin/true")
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *sorted(tmp_path.iterdir())], capture_output=True, text=True, check=False
    )

    complaints = [line for line in done.stderr.splitlines() if "prowess" in line]
    assert complaints == []
