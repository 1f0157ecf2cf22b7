"""The process answers hostile lines, ends with its parent, and has neither keys nor network."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .driver import FOLDER, Driver, model

PING = {"type": "ping"}


def test_the_manifest_lists_templates_optimizers_and_versions(sidecar: Driver):
    manifest = sidecar.result("manifest")

    assert manifest["dspy"] == sidecar.hello["dspy"]
    assert manifest["secrets_in_environment"] == []
    assert list(manifest["optimizers"]) == ["bootstrap_few_shot", "mipro_v2", "simba", "gepa"]
    for template in manifest["templates"].values():
        assert template["description"].endswith(".")
        assert "->" in template["signature"]
        assert template["predictors"]
    assert manifest["templates"]["react"]["options"]["max_iters"]["default"] == 6


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"\xff\xfe",
        b"\x00",
        b'{"id": 1, "type": "ping"',
        b"[" * 100_000,
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
        b'{"type": "execute"}',
        b'{"id": null, "type": "ping"}',
        b'{"id": {}, "type": "ping"}',
        b'{"id": true, "type": "ping"}',
        b'{"id": 1.5, "type": "ping"}',
        b'{"id": 1, "type": "crash"}',
        b'{"id": 1, "type": ["execute"]}',
        b'{"id": 1}',
        b'{"id": 1, "type": "execute"}',
        b'{"id": 1, "type": "optimize"}',
        b'{"type": "cancel"}',
        b'{"type": "cancel", "target": {}}',
        b'{"type": "cancel", "target": 12345}',
        b'{"reply": 99999, "value": 1}',
        b'{"reply": "x", "error": 5}',
        b'{"reply": null}',
        b'{"id": "' + b"x" * 1_000 + b'", "type": "ping"}',
    ],
)
def test_a_hostile_line_never_ends_the_process(sidecar: Driver, line):
    sidecar.write_line(line)
    number = sidecar.start("ping")

    while (message := sidecar.read())["id"] != number or not message["ok"]:
        assert message["error"]["type"] in {"InvalidMessage", "InvalidParams", "UnknownTemplate"}
    assert message["result"] == "pong"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)
KEYS = ["template_id", "state_blob", "params", "signature", "options", "training_data", "optimizer", "seed", "reply"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    type=st.sampled_from(["execute", "optimize", "manifest", "ping", "nothing"]),
    template_id=st.sampled_from(["predict", "react", "refine"]) | JSON,
    fields=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
)
def test_any_message_gets_an_answer(sidecar: Driver, type, template_id, fields):
    fields.pop("reply", None)
    answer = sidecar.request(type, {"llm": model(answer="x")}, **{"template_id": template_id, **fields})

    assert answer["ok"] or set(answer["error"]) == {"type", "message"}


def test_a_line_that_is_too_long_is_skipped(sidecar: Driver):
    sidecar.write_line(b'{"id": 1, "type": "ping", "x": "' + b"x" * (33 << 20) + b'"}')

    assert sidecar.read()["error"]["type"] == "InvalidMessage"
    assert sidecar.result("ping") == "pong"


def test_a_second_request_with_a_running_id_is_refused(sidecar: Driver):
    number = sidecar.start("execute", template_id="predict", params={"question": "x"})
    call = sidecar.read()
    sidecar.write({"id": number, "type": "manifest"})

    assert sidecar.read()["error"]["type"] == "InvalidMessage"
    sidecar.answer(call, {"llm": model(answer="x")})
    assert sidecar.read()["ok"]


def test_a_cancelled_execution_is_a_typed_error_and_makes_no_more_calls(sidecar: Driver):
    for template_id in ("predict", "best_of_n", "react", "multi_chain_comparison"):
        number = sidecar.start("execute", template_id=template_id, params={"question": "x"})
        call = sidecar.read()
        sidecar.write({"type": "cancel", "target": number})

        assert sidecar.read() == {
            "id": number,
            "ok": False,
            "error": {"type": "Cancelled", "message": "The request was stopped."},
        }
        sidecar.write({"reply": call["call"], "value": {"text": "too late"}})
    assert sidecar.result("ping") == "pong"


def test_the_process_ends_with_its_input_while_requests_wait(own_sidecar: Driver):
    assert own_sidecar.result("manifest")["secrets_in_environment"] == ["OPENAI_API_KEY"]
    own_sidecar.start("execute", template_id="predict", params={"question": "x"})
    assert own_sidecar.read()["kind"] == "llm"
    own_sidecar.start("optimize", template_id="predict", training_data=[{"question": "x", "answer": "y"}])
    assert own_sidecar.read()["kind"] == "llm"

    own_sidecar.process.stdin.close()

    assert own_sidecar.process.wait(timeout=30) == 0


def test_the_process_ends_in_the_middle_of_a_line_and_ignores_ctrl_c(own_sidecar: Driver):
    own_sidecar.process.send_signal(signal.SIGINT)
    assert own_sidecar.result("ping") == "pong"
    own_sidecar.process.stdin.write(b'{"id": 1, "type": ')
    own_sidecar.process.stdin.close()

    assert own_sidecar.process.wait(timeout=30) == 0


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_the_process_has_no_sockets_no_children_and_only_the_given_environment(sidecar: Driver):
    sidecar.result("execute", {"llm": model(answer="x")}, template_id="predict", params={"question": "x"})
    process = Path("/proc") / str(sidecar.hello["pid"])

    names = {entry.partition(b"=")[0] for entry in (process / "environ").read_bytes().split(b"\0") if entry}
    own = {name for name in names if name.startswith(b"_PYI") or name == b"LD_LIBRARY_PATH"}  # a binary sets them
    assert names - own == {b"PATH"}
    assert not [link for fd in (process / "fd").iterdir() if (link := os.readlink(fd)).startswith("socket:")]
    assert (process / "task" / process.name / "children").read_text() == ""


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="there is no /proc")
def test_the_process_cannot_write_to_files(sidecar: Driver):
    limits = (Path("/proc") / str(sidecar.hello["pid"]) / "limits").read_text()

    assert re.search(r"Max file size +0 +0 ", limits)


REFUSED = """
import os, pickle, socket, subprocess
from prowess_dspy import isolation
isolation.refuse_network_and_processes()
attempts = {
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "resolve": lambda: socket.getaddrinfo("localhost", 80),
    "bind": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "send": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    "run": lambda: subprocess.run(["true"]),
    "system": lambda: os.system("true"),
    "fork": os.fork,
    "unpickle": lambda: pickle.loads(pickle.dumps(print)),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except PermissionError:
        print(name)
"""


def test_connections_processes_and_pickles_are_refused(sidecar_python):
    script = f"import sys; sys.path.insert(0, {str(FOLDER.parent)!r})\n{REFUSED}"

    printed = subprocess.check_output([str(sidecar_python), "-I", "-c", script], text=True, timeout=60)

    assert printed.split() == ["connect", "resolve", "bind", "send", "run", "system", "fork", "unpickle"]


@pytest.mark.long
def test_a_row_that_takes_long_is_not_run_a_second_time(sidecar_python):
    script = (
        f"import sys; sys.path.insert(0, {str(FOLDER.parent)!r})\n"
        """
from prowess_dspy.adjustments import adjust_dspy
from dspy.utils.parallelizer import ParallelExecutor
before = ParallelExecutor(num_threads=2, max_errors=1).timeout
adjust_dspy()
print(before, ParallelExecutor(num_threads=2, max_errors=1).timeout)
"""
    )
    printed = subprocess.check_output([str(sidecar_python), "-I", "-c", script], text=True, timeout=60)

    assert printed.split() == ["120", "0"]


def test_packages_beside_the_folder_are_not_found_and_a_shutdown_ends_the_process(sidecar_python, tmp_path):
    """The folder lies in the site-packages of Prowess, whose packages must not shadow those of the sidecar."""
    package = tmp_path / "site-packages" / "prowess_dspy"
    shutil.copytree(FOLDER, package)
    for name in ("dspy", "orjson", "litellm"):
        (package.parent / f"{name}.py").write_text(f"raise SystemExit('the wrong {name}')")

    driver = Driver(None, command=[str(sidecar_python), "-I", str(package)])
    driver.write({"type": "shutdown"})
    driver.close()

    assert driver.hello["protocol"] == 1
    assert driver.process.returncode == 0


def test_prints_of_libraries_do_not_reach_the_protocol(sidecar: Driver):
    # BestOfN prints an attempt that fails to standard output.
    answers = {"llm": lambda _payload: {"text": "not the fields"}}

    assert sidecar.error("execute", answers, template_id="best_of_n", params={"question": "x"}) == "InvalidOutput"
    assert sidecar.result("ping") == "pong"


def test_the_page_lists_every_template_optimizer_option_and_type(sidecar: Driver):
    manifest = sidecar.result("manifest")
    page = (FOLDER.parents[1] / "docs" / "dspy-templates.md").read_text()

    for kind in ("templates", "optimizers"):
        for name, entry in manifest[kind].items():
            assert f"| `{name}` |" in page
            assert f"`{entry.get('signature', name)}`" in page
            for option, described in entry["options"].items():
                assert f"`{option}`" in page
                assert str(described["default"]) in page or option == "criteria"
    for name in manifest["types"]:
        assert f"`{name}`" in page or name.startswith("list")
