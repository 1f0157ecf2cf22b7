"""What a skill says it needs outside the sandbox: what counts, what is refused, and how far a run reaches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu import cpu_limit

from prowess.errors import Invalid
from prowess.run.selection import select_artifacts
from prowess.skill.declarations import parse_request, parse_slots, request_url
from prowess.skill.form_info import FormName
from prowess.skill.forms import read_package, write_package
from prowess.skill.kinds import (
    Artifact,
    CliCommand,
    CodeTemplate,
    Function,
    HttpCall,
    Instructions,
    Kind,
    PromptTemplate,
    Script,
)
from prowess.skill.model import Skill
from prowess.skill.needs import (
    MAX_NEED_VALUES,
    NEED_FIELDS,
    NEED_FORMATS,
    Needs,
    measure_reach,
    parse_need,
    read_inline_requirements,
    read_needs,
)
from prowess.skill.package import File, Package
from prowess.skill.profiles.permissions import describe_needs
from prowess.skill.validate import validate

EXECUTE = Function(name="execute", content="def execute(args, ctx):\n    return 1\n")
NEEDS = {
    "runtime": "native",
    "hosts": ["api.example.com", "*.example.org"],
    "env": ["EXAMPLE_KEY"],
    "roots": ["notes", "rw:out"],
    "requirements": ["numpy>=2,<3"],
    "binaries": ["git"],
}


def skill(*artifacts: Artifact, form: FormName = "native", **extra: Any) -> Skill:
    return Skill(slug="s", title="S", description="d", artifacts=artifacts or (EXECUTE,), extra=extra, form=form)


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("hosts", "API.Example.com", "api.example.com"),
        ("hosts", "api.example.com:443", "api.example.com"),
        ("hosts", "api.example.com:8443", "api.example.com:8443"),
        ("hosts", "*.example.com", "*.example.com"),
        ("hosts", "api.example.com.", "api.example.com"),
        ("hosts", "bücher.example", "xn--bcher-kva.example"),
        ("hosts", "localhost", "localhost"),
        ("hosts", "192.0.2.1", "192.0.2.1"),
        ("env", "_KEY2", "_KEY2"),
        ("roots", "ro:notes", "notes"),
        ("roots", "rw: out/", "rw:out"),
        ("roots", "./a//b", "a/b"),
        ("roots", ".", "."),
        ("roots", "/srv/data", "/srv/data"),
        ("requirements", "numpy", "numpy"),
        ("requirements", "Pillow[heif] >= 10, != 11.0", "Pillow[heif] >= 10, != 11.0"),
        ("requirements", "tomli (>=2)", "tomli (>=2)"),
        ("requirements", "tomli; python_version < '3.11'", "tomli; python_version < '3.11'"),
        ("binaries", "g++", "g++"),
    ],
)
def test_a_need_is_read_in_one_way(name: str, written: str, read: str) -> None:
    assert parse_need(name, [written]) == ((read,), [])
    assert parse_need(name, [read]) == ((read,), [])


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *(("hosts", text) for text in ("https://a.example", "a.example/path", "user@a.example", "*", "*.com", "*.*.example.com")),
        *(("hosts", text) for text in ("a.*.example", "-a.example", "a..example", "a.example:0", "a.example:99999", "[::1]")),
        *(("hosts", text) for text in ("127.1", "0x7f.0.0.1", "2130706433", "127.0.0.01", "*.0.0.1", "a b.example", "a\n.example")),
        *(("hosts", text) for text in ("{{ host }}", "a.example\u202e", "a" * 64 + ".example")),
        *(("env", text) for text in ("1KEY", "A-B", "A=B", "A B", "PA\nTH", "K" * 129, "Ä")),
        *(("roots", text) for text in ("..", "a/../../b", "~", "~/notes", "rw:", "//server/share", "a\\b", "a\0b", "a\u202eb")),
        *(("requirements", text) for text in ("numpy @ https://evil.example/x.whl", "-r other.txt", "--index-url=x", "./local")),
        *(("requirements", text) for text in ("git+https://evil.example/x", "a b", "numpy>=", "numpy==1;x\n-r y", "# numpy")),
        *(("binaries", text) for text in ("/bin/sh", "../sh", "-c", "sh -c", "a;b", "")),
        *((name, value) for name in NEED_FORMATS for value in (None, 1, True, [], {}, ["x"], "", "x" * 301)),
    ],
)  # fmt: skip
def test_what_could_mean_something_else_is_no_need(name: str, written: Any) -> None:
    assert parse_need(name, [written]) == ((), [written])


def test_one_text_stands_for_a_list() -> None:
    assert parse_need("hosts", "a.example, b.example\nc.example")[0] == ("a.example", "b.example", "c.example")
    assert parse_need("requirements", "numpy>=2,<3\npandas\n") == (("numpy>=2,<3", "pandas"), [])
    assert parse_need("env", {"KEY": "value"}) == ((), [{"KEY": "value"}])


def test_only_so_many_values_count() -> None:
    read, unread = parse_need("hosts", [f"h{n}.example" for n in range(MAX_NEED_VALUES + 5)])
    assert (len(read), len(unread)) == (MAX_NEED_VALUES, 5)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(NEED_FIELDS), json_values), st.text(), st.text())
def test_whatever_a_skill_writes_gives_needs_that_can_be_shown(said: dict[str, Any], handler: str, code: str) -> None:
    artifacts = (
        HttpCall(name="a", handler=handler),
        CliCommand(name="b", handler=handler),
        Function(name="c", content=f"# /// script\n# {code}\n# ///\n"),
    )
    needs = read_needs(skill(*artifacts, **said))
    for name in NEED_FORMATS:
        assert all(NEED_FORMATS[name].read(value) == value for value in getattr(needs, name))
    assert all(line.isprintable() for line in describe_needs(needs, ("function",)))


def test_all_that_is_declared_is_read() -> None:
    found = read_needs(skill(**NEEDS))
    assert {**found.as_json()} == NEEDS
    assert read_needs(skill()) == Needs()


def test_a_form_without_these_fields_asks_for_nothing() -> None:
    assert read_needs(skill(form="agentskills", **NEEDS)).as_json() == {}


@pytest.mark.parametrize("runtime", ["Native", "docker", 1, ["native"], None])
def test_only_one_word_asks_for_the_native_runtime(runtime: Any) -> None:
    assert read_needs(skill(runtime=runtime)).runtime == "wasm"


@pytest.mark.parametrize(
    ("handler", "hosts"),
    [
        ("GET https://api.example.com/v1/{{ id }}", ("api.example.com",)),
        ("https://api.example.com:8443/", ("api.example.com:8443",)),
        ("POST https://{{ host }}/", ()),
        ("GET https://user:pass@api.example.com/", ()),
        ("GET https://[bad/", ()),
        ("", ()),
    ],
)
def test_the_host_of_a_declared_request_is_one_of_its_needs(handler: str, hosts: tuple[str, ...]) -> None:
    assert read_needs(skill(HttpCall(name="call", handler=handler))).hosts == hosts


@pytest.mark.parametrize(
    ("handler", "binaries"), [("git log -1", ("git",)), ("/bin/sh -c x", ()), ("'unclosed", ()), ("", ())]
)
def test_the_program_of_a_declared_command_is_one_of_its_needs(handler: str, binaries: tuple[str, ...]) -> None:
    assert read_needs(skill(CliCommand(name="run", handler=handler))).binaries == binaries


# --- packages that a file names itself

BLOCK = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "numpy>=2",\n#\n#   "rich",\n# ]\n# ///\n'


def test_the_block_of_a_function_names_packages() -> None:
    function = Function(name="execute", content=f"#!/usr/bin/env python\n{BLOCK}\ndef execute(args, ctx): ...\n")
    assert read_needs(skill(function, requirements=["attrs", "rich"])).requirements == ("attrs", "rich", "numpy>=2")
    assert read_needs(skill(function.model_copy(update={"language": "typescript"}))).requirements == ()


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import numpy",
        BLOCK.replace("# ///\n", "\n"),
        BLOCK + BLOCK,
        BLOCK.replace("# ///", "    # ///"),
        BLOCK.replace("numpy>=2", "numpy>=2\\u"),
        "# /// script\nx = 1\n# ///\n",
        "# /// other\n# dependencies = ['numpy']\n# ///\n",
        "# /// script\n# " + "x" * 20_000 + "\n# ///\n",
        "# /// script\n# a = " + "[" * 5_000 + "\n# ///\n",
        "# /// script\n# a = " + "9" * 5_000 + "\n# ///\n",
    ],
)
def test_what_is_no_block_names_none(code: str) -> None:
    assert read_inline_requirements(code) is None


def test_a_block_may_hold_the_line_that_ends_one() -> None:
    block = "# /// script\n# dependencies = ['a']\n# x = '''\n# ///\n# '''\n# ///\n"
    assert read_inline_requirements(block) == ["a"]


@pytest.mark.parametrize(
    ("frontmatter", "needs"),
    [
        (
            'metadata: {"openclaw": {"requires": {"env": ["KEY", "no-name"], "bins": ["curl"]}, "primaryEnv": "KEY"}}',
            {"env": ["KEY"], "binaries": ["curl"]},
        ),
        ("metadata:\n  clawdbot:\n    requires:\n      bins: [{name: jq}]", {"binaries": ["jq"]}),
        ("required_environment_variables:\n  - name: KEY\n    prompt: Key\n  - OTHER", {"env": ["KEY", "OTHER"]}),
        ("prerequisites: {env_vars: [KEY], commands: [git]}", {"env": ["KEY"], "binaries": ["git"]}),
        ("metadata: {openclaw: [1], moltbot: {requires: {env: 3}}}\nprerequisites: none", {}),
    ],
)
def test_what_a_skill_declares_for_openclaw_or_hermes_are_its_needs(frontmatter: str, needs: dict[str, Any]) -> None:
    document = f"---\nname: s\ndescription: d\n{frontmatter}\n---\n"
    read = read_package(Package.of_texts("s", {"SKILL.md": document}))
    assert read.skill is not None
    assert read_needs(read.skill).as_json() == needs
    sidecar = {"SKILL.md": document, "agents/prowess.yaml": "env: [OWN]\n"}
    native = read_package(Package.of_texts("s", sidecar)).skill
    assert native is not None
    assert read_needs(native).as_json() == {**needs, "env": ["OWN", *needs.get("env", [])]}


# --- how far a run reaches


@pytest.mark.parametrize(
    ("made", "artifacts", "reach"),
    [
        (skill(), (), ""),
        (skill(hosts=["a.example"]), (), "outside"),
        (skill(env=["KEY"]), (), "outside"),
        (skill(roots=["notes"]), (), "outside"),
        (skill(hosts=["https://a.example"]), (), ""),
        (skill(requirements=["numpy"]), (), ""),
        (skill(runtime="native"), (), "machine"),
        (skill(CodeTemplate(name="c"), runtime="native", hosts=["a.example"]), (), ""),
        (skill(HttpCall(name="call", handler="?")), (), "outside"),
        (skill(CliCommand(name="run", handler="git")), (), "machine"),
        (skill(Script(name="a.sh", path="scripts/a.sh"), Instructions(name="i")), (), ""),
        (skill(Script(name="a.sh", path="scripts/a.sh"), Instructions(name="i")), ("i",), ""),
        (skill(Script(name="a.sh", path="scripts/a.sh"), Instructions(name="i")), ("a.sh",), "machine"),
        (skill(Script(name="a.sh", path="scripts/a.sh"), form="agentskills"), ("a.sh",), "machine"),
        (skill(PromptTemplate(name="p"), EXECUTE, runtime="native"), ("p",), ""),
        (skill(PromptTemplate(name="p"), EXECUTE, runtime="native"), ("execute",), "machine"),
    ],
)
def test_how_far_a_run_reaches(made: Skill, artifacts: tuple[str, ...], reach: str) -> None:
    assert measure_reach(made, artifacts) == reach


@pytest.mark.parametrize("name", ["execute", "Execute", " execute", "EXECUTE!", "no such one"])
def test_no_other_spelling_of_a_name_reaches_less_far(name: str) -> None:
    assert measure_reach(skill(PromptTemplate(name="p"), EXECUTE, runtime="native"), (name,)) == "machine"


def test_what_stands_in_for_an_artifact_counts_as_well() -> None:
    chain = (
        PromptTemplate(name="p", fallback="q"),
        PromptTemplate(name="q", fallback="a.sh"),
        Script(name="a.sh", path="scripts/a.sh", fallback="p"),
    )
    assert measure_reach(skill(*chain), ("p",)) == "machine"
    assert measure_reach(skill(*chain)) == "machine"


@pytest.mark.parametrize("fallback", ["a.sh", "A_SH", "scripts/a.sh", "tools/b.py"])
def test_a_script_that_is_a_fallback_counts_however_it_is_named(fallback: str) -> None:
    manifest = tuple(File(path=path, content=b"").entry for path in ("scripts/a.sh", "tools/b.py"))
    one = skill(
        PromptTemplate(name="p", fallback=fallback), PromptTemplate(name="q"), Script(name="a.sh", path="scripts/a.sh")
    )
    one = one.model_copy(update={"manifest": manifest})
    assert [artifact.kind for artifact in select_artifacts(one, [fallback])] == ["script"]
    assert (measure_reach(one, ("p",)), measure_reach(one), measure_reach(one, ("q",))) == ("machine", "machine", "")


# --- forms

MANIFEST = {"id": "s", "name": "S", "description": "d", "version": "1.0.0", **NEEDS}
SIDECAR = "\n".join(f"{name}: {json.dumps(value)}" for name, value in NEEDS.items())
PACKAGES: dict[str, dict[str, str]] = {
    "devai": {"skill.json": json.dumps(MANIFEST), "execute.py": EXECUTE.content},
    "agentlayerrules": {
        "s.yaml": f"skill_id: s\nversion: 1.0.0\ntitle: S\ndescription: d\n{SIDECAR}\n"
        "implementation: {type: cli_command, handler: git}\n"
    },
    "native": {
        "SKILL.md": "---\nname: s\ndescription: d\n---\n\nDo it.\n",
        "agents/prowess.yaml": SIDECAR + "\n",
        "execute.py": EXECUTE.content,
    },
}


@pytest.mark.parametrize("form", PACKAGES)
def test_every_form_that_has_needs_reads_them_without_a_word(form: str) -> None:
    reading = read_package(Package.of_texts("s", PACKAGES[form]))
    assert reading.form == form
    assert reading.skill
    assert read_needs(reading.skill).as_json() == NEEDS
    assert [problem.code for problem in reading.problems if problem.severity != "info"] == []
    assert "unknown-field" not in {problem.code for problem in reading.problems}


@pytest.mark.parametrize("target", PACKAGES)
@pytest.mark.parametrize("source", PACKAGES)
def test_needs_come_along_to_another_form_and_a_change_of_them_back(source: Any, target: Any) -> None:
    made = Package.of_texts("s", PACKAGES[source])
    skill = read_package(made).skill
    assert skill
    there = write_package(skill, made, target)
    moved = read_package(there.package).skill
    assert moved
    assert read_needs(moved).as_json() == NEEDS
    changed = moved.model_copy(update={"extra": {**moved.extra, "hosts": ["other.example"]}})
    back = read_package(write_package(changed, there.package, source).package).skill
    assert back
    assert read_needs(back).hosts == ("other.example",)


def test_the_sidecar_of_a_skill_from_another_form_says_its_needs_where_people_look() -> None:
    made = Package.of_texts("s", PACKAGES["devai"])
    skill = read_package(made).skill
    assert skill
    native = write_package(skill, made, "native").package
    assert b"\nhosts:" in b"\n" + next(file.content for file in native.files if file.path == "agents/prowess.yaml")


def test_the_sidecar_counts_more_than_the_frontmatter() -> None:
    files = {**PACKAGES["native"], "SKILL.md": "---\nname: s\ndescription: d\nhosts: [evil.example]\n---\n\nDo it.\n"}
    skill = read_package(Package.of_texts("s", files)).skill
    assert skill
    assert read_needs(skill).hosts == ("api.example.com", "*.example.org")


# --- problems and requests


def test_a_need_that_cannot_be_read_is_a_warning_that_says_what_it_takes() -> None:
    manifest = {**MANIFEST, "hosts": ["https://a.example", "b.example"], "env": {"A": "b"}, "runtime": "docker"}
    package = Package.of_texts("s", {"skill.json": json.dumps(manifest), "execute.py": EXECUTE.content})
    report = validate(package)
    found = [problem for problem in report.problems if problem.code == "need-invalid"]
    assert report.ok
    assert sorted(str(problem.field) for problem in found) == ["env", "hosts", "runtime"]
    assert all(problem.severity == "warning" and problem.hint.startswith("Use ") for problem in found)


def test_a_plain_skill_may_have_such_keys_for_somebody_else() -> None:
    package = Package.of_texts(
        "s", {"SKILL.md": "---\nname: s\ndescription: d\nenv: {A: b}\nruntime: node\n---\n\nDo it.\n"}
    )
    assert "need-invalid" not in {problem.code for problem in validate(package).problems}


def test_what_a_skill_needs_is_told_in_words() -> None:
    report = validate(Package.of_texts("s", PACKAGES["devai"]))
    told = [problem.message for problem in report.problems if problem.code == "asks-for"]
    assert "The skill asks to connect to api.example.com, *.example.org." in told
    assert "The skill asks to read environment variables: EXAMPLE_KEY." in told
    assert "The skill asks to read files in notes." in told
    assert "The skill asks to read and write files in out." in told
    assert any("outside the sandbox" in line for line in told)
    assert any("numpy>=2,<3" in line for line in told)


def test_no_host_is_left_out_of_what_a_person_is_shown() -> None:
    hosts = tuple(f"{'a' * 60}.{'b' * 60}.{'c' * 60}.h{number}.example" for number in range(MAX_NEED_VALUES))
    lines = describe_needs(Needs(hosts=hosts), ())
    assert all(len(line) < 1_300 for line in lines)
    assert all(any(host in line for line in lines) for host in hosts)


@pytest.mark.parametrize(
    ("tools", "kinds", "told"),
    [
        (("Read", "skill_notes", "skill_mail"), ("function",), ["to run other skills: skill_notes, skill_mail"]),
        (("skill_notes", "run_skill"), ("code_template",), ["to run other skills: any"]),
        (("skill_*",), ("function",), ["to run other skills: any"]),
        (("skill_notes", "run_skill"), ("instructions", "script"), []),
        (("Read",), ("function",), []),
    ],
)
def test_a_person_is_shown_which_other_skills_the_code_runs(
    tools: tuple[str, ...], kinds: tuple[Kind, ...], told: list[str]
) -> None:
    assert list(describe_needs(Needs(allowed_tools=tools), kinds)) == told


def test_a_person_is_shown_that_code_with_hosts_can_send_them_what_is_in_the_workspace() -> None:
    pages = "to read the pages of the workspace and ask models, which it can send to these hosts"
    assert describe_needs(Needs(hosts=("a.example",)), ("function",)) == ("to connect to a.example", pages)
    assert describe_needs(Needs(hosts=("a.example",)), ("http_call",)) == ("to connect to a.example",)


def test_the_host_that_is_declared_is_the_one_that_is_asked():
    call = HttpCall(name="call", handler="GET https://asked.example/x", metadata={"url": "https://shown.example/"})
    assert read_needs(skill(call)).hosts == ("asked.example",)
    assert parse_request(call).url == "https://asked.example/x"


@pytest.mark.parametrize("text", ["{{" * 40_000, "GET a" + " " * 40_000 + "b", " " * 40_000])
def test_a_long_request_is_read_in_no_time(text: str):
    with cpu_limit(5):
        assert request_url(HttpCall(name="ask", handler=text)) == text.removeprefix("GET ").strip()
        assert "".join(map(str, parse_slots(text))) == text


def test_the_first_braces_that_are_not_a_slot_are_named():
    with pytest.raises(Invalid, match=r"'{{ b c }}' is not a valid placeholder"):
        parse_slots("{{ a }} }} {{ b c }} {{ d e }}")
