"""The scripts of the shipped packs, run as an agent would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from prowess.engine.places import PACKS

LINT = PACKS / "backend/scripts/lint.sh"
LINKS = PACKS / "docs/scripts/check-links.sh"
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]

pytestmark = pytest.mark.skipif(not SHELLS, reason="there is no POSIX shell here")


def run(script: Path, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        [script, *arguments], cwd=folder, env=plain, capture_output=True, text=True, check=False, timeout=60
    )


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


def tool(folder: Path, name: str, status: int) -> None:
    """A tool of a project that tells how it was called and ends with a status."""
    write(folder, f".venv/bin/{name}", f'#!/bin/sh\necho "{name} $*"\nexit {status}\n')
    (folder / f".venv/bin/{name}").chmod(0o755)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", [LINT, LINKS])
def test_a_script_is_sound_for_every_shell(shell: str, script: Path) -> None:
    assert subprocess.run([shell, "-n", script], check=False).returncode == 0
    assert "\nset -eu\n" in script.read_text()


@pytest.mark.parametrize("script", [LINT, LINKS])
def test_a_script_explains_itself_and_refuses_what_it_does_not_know(script: Path, tmp_path: Path) -> None:
    helped = run(script, "--help", folder=tmp_path)
    assert (helped.returncode, helped.stdout.startswith("usage: ")) == (0, True)
    assert run(script, "--nonsense", folder=tmp_path).returncode == 2
    nowhere = run(script, "nowhere", folder=tmp_path)
    assert nowhere.returncode == 2
    assert "'nowhere'" in nowhere.stderr


@pytest.mark.parametrize(
    ("ruff", "checker", "status"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (2, 0, 2), (1, 3, 2), (0, 2, 2)]
)
def test_lint_ends_with_what_the_tools_found(tmp_path: Path, ruff: int, checker: int, status: int) -> None:
    tool(tmp_path, "ruff", ruff)
    tool(tmp_path, "pyright", checker)
    write(tmp_path, "a file.py", "x = 1\n")
    ran = run(LINT, "a file.py", folder=tmp_path)
    assert ran.returncode == status
    assert "ruff check -- a file.py" in ran.stdout
    assert "ruff format --check -- a file.py" in ran.stdout
    assert "pyright a file.py" in ran.stdout


@pytest.mark.parametrize(
    ("there", "missing", "status"), [("ruff", "pyright", 3), ("pyright", "ruff", 3), ("", "ruff", 3)]
)
def test_lint_says_what_is_missing_and_runs_the_rest(tmp_path: Path, there: str, missing: str, status: int) -> None:
    if there:
        tool(tmp_path, there, 0)
    ran = run(LINT, folder=tmp_path, PATH=str(tmp_path))
    assert ran.returncode == status
    assert f"{missing} is not installed" in ran.stderr
    assert (f"{there} " in ran.stdout) == bool(there)


def test_lint_prefers_a_finding_over_a_missing_tool(tmp_path: Path) -> None:
    tool(tmp_path, "ruff", 1)
    assert run(LINT, folder=tmp_path, PATH=str(tmp_path)).returncode == 1


def test_lint_takes_the_tools_of_the_active_environment_first(tmp_path: Path) -> None:
    tool(tmp_path, "ruff", 0)
    tool(tmp_path, "pyright", 0)
    tool(tmp_path / "active", "ruff", 1)
    ran = run(LINT, folder=tmp_path, VIRTUAL_ENV=str(tmp_path / "active/.venv"))
    assert ran.returncode == 1


PAGE = """\
---
see: [frontmatter](gone.md)
---
# Hello, `code_x` & more!
[fine](sub/b.md) [part](sub/b.md#second-part) [own](#hello-code_x--more) [top](#) [root](/sub/b.md)
[space](<with space/c.md>) [coded](with%20space/c.md) [round](sub/p(1).md "title") [![image](i.png)](sub/b.md)
[folder](sub/inner#inside) [twice](sub/b.md#same-1) [set](sub/b.md#set-text) [id](sub/b.md?plain=1#my-id)
[letters](sub/b.md#über-uns) [source](code.py#L10) [web](https://example.com/gone.md) [mail](mailto:a@example.com)
`[code](gone.md)` ``[c`](gone.md)`` <!-- [comment](gone.md) -->
<!--
[comment](gone.md)
-->
```text
[code](gone.md)
```
~~~
```
[code](gone.md)
~~~
[^1]: A footnote, no link to gone.md
[reference]: sub/b.md "title"
"""
OTHER = '# B\r\n## Second part ##\n## Über uns\n## Same\n## Same\nSet text\n---\n<a id="my-id"></a>\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write(tmp_path, "a.md", PAGE)
    write(tmp_path, "sub/b.md", OTHER)
    write(tmp_path, "sub/inner/README.md", "# Inside\n")
    for path in ("with space/c.md", "sub/p(1).md", "i.png", "code.py"):
        write(tmp_path, path, "")
    return tmp_path


def test_links_that_lead_somewhere_pass(site: Path) -> None:
    ran = run(LINKS, folder=site)
    assert ran.stdout == "check-links.sh: 17 links in 5 files, 0 broken\n"
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[x](gone.md)", "gone.md: file not found"),
        ("![x](gone.png)", "gone.png: file not found"),
        ("[x]: sub/gone.md", "sub/gone.md: file not found"),
        ("[x](../a.md)", "../a.md: file not found"),
        ("[x](sub/b.md#third-part)", "sub/b.md#third-part: no heading has this anchor"),
        ("[x](#nothing)", "#nothing: no heading has this anchor"),
        ("[x](sub/b.md#same-2)", "sub/b.md#same-2: no heading has this anchor"),
        ("[x](sub/inner#outside)", "sub/inner#outside: no heading has this anchor"),
        ("`code` [x](gone.md) `code`", "gone.md: file not found"),
        ("<!-- a --> [x](gone.md)", "gone.md: file not found"),
        ("> * [x](gone.md)", "gone.md: file not found"),
        ("[x]($(touch run).md)", "$(touch: file not found"),
        ("[x](-n)", "-n: file not found"),
    ],
)
def test_a_link_that_leads_nowhere_is_told_with_its_line(site: Path, link: str, why: str) -> None:
    write(site, "bad.md", f"# Bad\n\n{link}\n")
    ran = run(LINKS, "bad.md", folder=site)
    assert ran.stdout.splitlines()[:-1] == [f"bad.md:3: {why}"]
    assert ran.returncode == 1
    assert not (site / "run").exists()


def test_slashes_are_relative_to_the_root_that_is_given(site: Path) -> None:
    write(site, "sub/c.md", "[x](/b.md)\n")
    assert run(LINKS, "sub/c.md", folder=site).returncode == 1
    assert run(LINKS, "--root", "sub", "sub/c.md", folder=site).returncode == 0


def test_odd_names_are_no_options(tmp_path: Path) -> None:
    write(tmp_path, "-n.md", "# N\n[x](#n) [y](-n.md#n)\n")
    write(tmp_path, "a b/-c.md", "# C\n[x](#c)\n")
    ran = run(LINKS, "--", "-n.md", "a b", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_links_of_the_packs_lead_somewhere() -> None:
    ran = run(LINKS, str(PACKS), folder=PACKS)
    assert ran.returncode == 0, ran.stdout


def test_nothing_is_left_behind(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    run(LINKS, folder=site, TMPDIR=str(scratch))
    assert os.listdir(scratch) == []
