"""What a message asks for, apart from what was pasted into it."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.query import build_query
from prowess.match.ranking import rank
from prowess.match.request import Request, read_request, remove_invisible, unwrap

CODE = """```python
import os, sys

def main(argv):
    for path in argv[1:]:
        with open(path) as handle:
            print(os.path.basename(path), len(handle.read()))
    return 0
```"""
LOG = "\n".join(
    f"2025-11-0{day}T10:11:0{day}.100Z INFO [worker-{day}] request_id=7f{day}a9 status=200 took={day}ms"
    for day in range(1, 8)
)
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/app/worker.py", line 88, in <module>
    asyncio.run(main())
  File "/usr/lib/python3.12/asyncio/runners.py", line 194, in run
    return runner.run(main)
RuntimeError: This event loop is already running"""


def read(message: str, *, names: str = "") -> Request:
    """Read a message beside skills with these words in their names."""
    return read_request(message, names.split().__contains__)


@pytest.fixture(scope="module")
def skills() -> Index:
    return Index.build(
        [
            SearchDocument(slug="merge-pdfs", description="Merge several PDF files into one document."),
            SearchDocument(slug="python-cli", description="Write Python command-line tools that read files and paths."),
            SearchDocument(
                slug="log-search", description="Search the logs of workers for requests by status and time."
            ),
            SearchDocument(slug="docker-manager", description="Restart and manage Docker containers and images."),
        ]
    )


@pytest.mark.parametrize("pasted", [CODE, LOG])
@pytest.mark.parametrize("order", ["{}\n\n{}", "{1}\n\n{0}"])
def test_the_request_decides_whatever_is_pasted_beside_it(skills: Index, pasted: str, order: str):
    request = "combine these two pdf documents into a single one"
    (alone,) = rank(skills, request, limit=1)
    (found,) = rank(skills, order.format(request, pasted), limit=1)
    assert found.slug == alone.slug == "merge-pdfs"
    assert found.decision == alone.decision == "offer"
    assert found.signals["cosine"] == alone.signals["cosine"]


def test_words_of_pasted_code_are_searched_for_like_those_of_the_context(skills: Index):
    words = build_query(skills, f"please tidy up the report generator\n\n{CODE}")
    assert "python" not in words.words
    assert "" in words.meant.values()


def test_a_message_without_a_request_is_read_as_a_whole(skills: Index):
    assert "python" in build_query(skills, f"fix this\n{CODE}").words
    assert "python" in build_query(skills, CODE).words


def test_the_text_of_an_error_belongs_to_the_request():
    request = read(f"{TRACEBACK}\nhow do I do this properly")
    assert request.text.splitlines()[1:] == [
        "RuntimeError: This event loop is already running",
        "how do I do this properly",
    ]
    assert "asyncio.run(main())" in request.pasted


@pytest.mark.parametrize(
    "message",
    [
        "Please do three things:\n1. add a test for 3.12\n2. rename the module\n3. write the changelog\nuntil Friday",
        "Wir brauchen:\n  - eine Tabelle\n  - eine Zusammenfassung\n  - Diagramme\nbis morgen",
        "把这三个文件合并\n1. 报告.pdf\n2. 附件.pdf\n3. 封面.pdf\n谢谢",
        "call /v1/chat/completions until it answers, and/or use the CI/CD of HTML/CSS/JS",
        "calculate 2.3797**2.9197, and 5 ** 3",
    ],
)
def test_lists_and_plain_sentences_are_not_pasted_text(message: str):
    request = read(message)
    assert not request.pasted
    assert request.worded.split() == request.text.split()
    assert set(request.text.split()) >= {word for word in message.split() if len(word) > 1}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("see /Users/anna/acme/src/index.html", "see index.html"),
        (r"open C:\Users\anna\report.final.docx now", "open report.final.docx now"),
        ("retry 0e1a2f7c-77e0-4d4a-9c6e-2a0e1a7e0b11 please", "retry   please"),
        ("revert 9af1b2c3d4e5f60718293a4b5c6d7e8f", "revert  "),
        ("the facade is defaced", "the facade is defaced"),
        ("**merge** these", "merge these"),
        ("- merge these\n> and those", "merge these\nand those"),
        ("@agent, merge these", "merge these"),
        ("Hi there! merge these files. Thanks a lot in advance!", "merge these files."),
        ("hallo zusammen, PDF zusammenfügen bitte, danke schon mal!", "PDF zusammenfügen bitte,"),
        ("hi, merge these files thanks", "merge these files"),
        ("PDF zusammenfügen danke schon mal!", "PDF zusammenfügen"),
        ("Füge die Dateien zusammen. Vielen Dank, Anna", "Füge die Dateien zusammen."),
        ("design a thank you page for our shop", "design a thank you page for our shop"),
        ("please write a thank you", "please write a thank you"),
        ("how do I say thanks in Japanese", "how do I say thanks in Japanese"),
        ("hello world program in rust", "hello world program in rust"),
        ("hey there, thanks", "hey there, thanks"),
        ("thanks, that worked", "thanks, that worked"),
        ("history of the hierarchy", "history of the hierarchy"),
        ("MERGE THESE PDF FILES", "merge these pdf files"),
        ("merge PDF, CSV and JSON", "merge PDF, CSV and JSON"),
    ],
)
def test_what_an_encoder_stumbles_over_is_cut_down_to_what_it_says(message: str, text: str):
    assert read(message).text == text


@pytest.mark.parametrize(
    ("message", "request_text"),
    [
        ("<user_query>\nmerge these\n</user_query>", "merge these"),
        ('<attached_files><file path="a.py" /></attached_files><user_query>merge these</user_query>', "merge these"),
        ("<system-reminder>The todo list is empty.</system-reminder>\nmerge these", "merge these"),
        ("merge these\n<system-reminder>one</system-reminder> <ide_selection>two</ide_selection>", "merge these"),
        ("<task>merge these</task>", "merge these"),
        ("[Image #1] why is the button blue [Pasted text #2 +31 lines]", "why is the button blue"),
        ("put <nav> into <header>the page</header>", "put <nav> into <header>the page</header>"),
        ("why is <user-input>x</user-input> empty", "why is <user-input>x</user-input> empty"),
        ("<system-reminder>an element that does not end", "<system-reminder>an element that does not end"),
        ("see [1] and list[0]", "see [1] and list[0]"),
    ],
)
def test_what_an_agent_puts_around_a_message_does_not_count(message: str, request_text: str):
    assert unwrap(message).strip() == request_text


def test_small_talk_above_code_is_not_taken_for_a_vague_request(skills: Index):
    assert build_query(skills, f"hey there\n{CODE}").prior <= 0


def test_the_name_of_a_site_stands_for_its_address_if_a_skill_is_named_after_it():
    message = (
        "order this https://www.amazon.co.uk/dp/B0BSHF7WHW?th=1 (see https://docs.google.com/d/1x or www.acme.com/x)"
    )
    request = read(message, names="amazon google order")
    assert request.text == "order this amazon (see google or )"
    assert request.worded.split() == ["order", "this", "(see", "or", ")"]


def test_the_address_of_an_unrelated_site_changes_nothing(skills: Index):
    (plain,) = rank(skills, "put these scans together into one file", limit=1)
    for address in ("https://intranet.acme-corp.com/wiki/Runbook", "https://news.example.org/x?y=1", "www.images.com"):
        (found,) = rank(skills, f"put these scans together into one file {address}", limit=1)
        assert (found.slug, found.signals["cosine"]) == (plain.slug, plain.signals["cosine"])


def test_a_skill_for_a_site_is_found_by_an_address_there(skills: Index):
    (found,) = rank(skills, "start this again https://hub.docker.com/r/library/redis", limit=1)
    assert found.slug == "docker-manager"
    assert build_query(skills.updated([], ["docker-manager"]), "again https://docker.com/x").asked.split() == ["again"]


def test_an_address_alone_is_found_by_the_name_of_its_site():
    assert read("https://docker.io/library/redis").worded == "docker"
    assert read("http://localhost:8080/x").worded == "localhost"


def test_capitals_and_characters_that_nobody_sees_change_nothing(skills: Index):
    (plain,) = rank(skills, "restart the container of the web server", limit=1)
    for message in (
        "RESTART THE CONTAINER OF THE WEB SERVER",
        "re\u00adstart the con\u200btainer of the web\u2060 server\ufeff",
    ):
        (found,) = rank(skills, message, limit=1)
        assert (found.slug, found.score) == (plain.slug, plain.score)


def test_visible_text_is_kept():
    assert remove_invisible("naïve 漢字 👩‍💻") == "naïve 漢字 👩‍💻"
