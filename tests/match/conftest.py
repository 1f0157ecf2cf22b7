"""Skills to match against: an office of fourteen, different enough for a person to tell apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.match.ranking import rank
from prowess.match.recommendation import Recommendation

OFFICE = (
    SearchDocument(
        slug="invoice-reader",
        title="Invoice Reader",
        description=(
            "Extracts totals, VAT and due dates from supplier invoices in PDF. Use when someone forwards a bill. "
            "Not for writing quotations or payslips. Also converts currencies."
        ),
        tags=("Finance", "pdf"),
        triggers=("what do we owe this supplier", "read this bill"),
    ),
    SearchDocument(
        slug="quotation-writer",
        title="Quotation Writer",
        description="Drafts quotations for customers with prices, discounts and delivery terms.",
        tags=("finance", "writing"),
    ),
    SearchDocument(
        slug="changelog-writer",
        title="Changelog Writer",
        description="Writes release notes from merged pull requests, grouped by what users notice.",
        tags=("git", "writing"),
    ),
    SearchDocument(
        slug="meeting-minutes",
        title="Meeting Minutes",
        description="Turns the transcript of a meeting into minutes with decisions and action items.",
        tags=("writing",),
    ),
    SearchDocument(
        slug="sql-tuner",
        title="SQL Tuner",
        description="Explains slow database queries and proposes indexes, with the query plan as evidence.",
        tags=("database",),
        keywords=("postgresql", "vacuum", "deadlock"),
    ),
    SearchDocument(
        slug="key-rotation",
        title="Key Rotation",
        description="Renews credentials of services before they expire and tells their owners.",
        tags=("security",),
        patterns=(r"rotate (?:the )?(?:api )?keys?", r"\bCVE-\d{4}-\d{4,7}\b"),
    ),
    SearchDocument(
        slug="consistency-checker",
        title="Consistency Checker",
        description="Compares the chapters of a manuscript and lists statements that cannot both be true.",
        tags=("analysis",),
        triggers=("are there any contradictions", "does the timeline add up"),
    ),
    SearchDocument(
        slug="greenhouse-keeper",
        title="Greenhouse Keeper",
        description="Plans watering and ventilation of a greenhouse from its sensors.",
        tags=("garden",),
        body=(
            "# Keeping\n\nRead the hygrometer each morning. The hygrometer must agree with the misting nozzles.\n\n"
            "```sh\nflumoxscript --hygrometer\n```\n\nWhitefly is fought with encarsia wasps; encarsia needs warmth.\n"
        ),
    ),
    SearchDocument(
        slug="vacation-planner",
        title="Vacation Planner",
        description="Plans the leave days of a team so that somebody is always on duty.",
        tags=("people",),
    ),
    SearchDocument(
        slug="accessibility-audit",
        title="Accessibility Audit",
        description="Checks web pages for contrast, keyboard use and screen readers, and ranks what to fix.",
        tags=("web", "analysis"),
    ),
    SearchDocument(
        slug="vertragspruefung",
        title="Vertragsprüfung",
        description="Prüft Mietverträge auf unwirksame Klauseln und erklärt die Kündigung einer Wohnung.",
        tags=("recht",),
    ),
    SearchDocument(
        slug="fapiao-helper",
        title="发票助手",
        description="整理增值税发票,核对金额并生成报销单。",
        tags=("中文",),
    ),
    SearchDocument(
        slug="keigo-coach",
        title="敬語コーチ",
        description="ビジネスメールの敬語を確認し、丁寧な表現に直します。",
        tags=("日本語",),
    ),
    SearchDocument(
        slug="resume-helper-ko",
        title="이력서 도우미",
        description="이력서와 자기소개서를 검토하고 문장을 다듬습니다.",
        tags=("한국어",),
    ),
    SearchDocument(
        slug="cafe-menu", title="Café Menu", description="Composes the menu of a café with crème brûlée and pâté."
    ),
    SearchDocument(
        slug="silent-one", title="Silent Invoices", description="  ", tags=("Finance",), body="Invoices, totals."
    ),
)


def with_digest(document: SearchDocument) -> SearchDocument:
    """The document with a digest that is another one for other content, as a store gives it."""
    return replace(document, digest=hashlib.sha256(repr(replace(document, digest="")).encode()).hexdigest())


@pytest.fixture(scope="session")
def office() -> tuple[SearchDocument, ...]:
    """The skills of the office; `silent-one` has no description."""
    return tuple(map(with_digest, OFFICE))


@pytest.fixture(scope="session")
def index(office: tuple[SearchDocument, ...]) -> Index:
    """The index of the office."""
    return Index.build(office)


@pytest.fixture(scope="session")
def matcher(index: Index) -> Matcher:
    """A matcher over the office."""
    return Matcher.of(index)


@pytest.fixture(scope="session")
def digested() -> Callable[[SearchDocument], SearchDocument]:
    """`with_digest`, for tests."""
    return with_digest


@pytest.fixture(scope="session")
def first(index: Index) -> Callable[..., Recommendation]:
    """The best skill for a message, whatever is decided about it."""

    def best(message: str, **asked: object) -> Recommendation:
        return rank(index, message, **{"limit": 5, **asked})[0]

    return best
