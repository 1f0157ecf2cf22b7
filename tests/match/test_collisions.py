"""Which skills compete for the same messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from prowess.catalog.store import SearchDocument
from prowess.match.collisions import find_collisions, sample_messages
from prowess.match.recommendation import Evidence, Recommendation


@dataclass
class Overlap:
    """Ranks by the share of the message's words that a description has; enough to see who competes."""

    documents: list[SearchDocument]

    def rank(
        self,
        message: str,
        *,
        limit: int = 10,
        tags: Collection[str] = (),  # noqa: ARG002
        context: str = "",  # noqa: ARG002
    ) -> list[Recommendation]:
        asked = _words(message)
        scored = [(document, asked & _words(document.description)) for document in self.documents]
        results = [_result(document, shared, len(shared) / max(1, len(asked))) for document, shared in scored]
        return sorted(results, key=lambda result: (-result.score, result.slug))[:limit]


def _words(text: str) -> set[str]:
    return set(text.lower().replace(".", " ").replace(",", " ").split())


def _result(document: SearchDocument, shared: set[str], score: float) -> Recommendation:
    return Recommendation(
        slug=document.slug, title=document.title, description=document.description, tags=(), scope="workspace",
        digest="", score=score, decision="offer" if score > 0.5 else "no",
        evidence=(Evidence(field="description", count=len(shared), terms=tuple(sorted(shared))),),
    )  # fmt: skip


def doc(slug: str, description: str, **fields) -> SearchDocument:
    return SearchDocument(slug=slug, title=description.partition(".")[0], description=description, **fields)


PDF_A = doc("pdf-reader", "Extract all tables, figures and totals from scanned yearly reports.")
PDF_B = doc("table-miner", "Extract all tables, figures and totals from scanned yearly reports quickly.")
POEM = doc("poet", "Compose rhyming verse about seasons.")


def test_skills_that_answer_the_same_messages_collide():
    documents = [POEM, PDF_B, PDF_A]
    [one] = find_collisions(Overlap(documents), documents)
    assert one.slugs == ("pdf-reader", "table-miner")
    assert one.similarity > 0.9
    assert {"extract", "figures"} <= set(one.words)


def test_skills_of_different_things_do_not_collide():
    documents = [POEM, PDF_A]
    assert find_collisions(Overlap(documents), documents) == []


def test_the_advice_names_words_that_only_one_has():
    documents = [PDF_A, doc("table-miner", "Extract all tables and totals from invoices and receipts quickly.")]
    [one] = find_collisions(Overlap(documents), documents, minimum=0.5)
    assert 'Add to pdf-reader: "Not for miner, invoices, receipts, quickly (use table-miner)."' in one.advice
    same = [PDF_A, doc("twin", PDF_A.description)]
    [twins] = find_collisions(Overlap(same), same)
    assert twins.similarity == 1
    assert "say the same" in twins.advice[0]


def test_nearly_the_same_descriptions_are_not_told_apart_by_their_names():
    documents = [PDF_A, PDF_B]
    [found] = find_collisions(Overlap(documents), documents)
    assert found.advice == ("Their descriptions say nearly the same: keep one, or say in each what only it does.",)


def test_no_part_of_a_compound_word_is_named_beside_it():
    documents = [doc("one", "Summarize videos."), doc("two", "Summarize videos of YouTube in LLaVA by topic.")]
    [found] = find_collisions(Overlap(documents), documents, minimum=0.5)
    assert found.advice[0] == 'Add to one: "Not for two, youtube, llava, topic (use two)."'


def test_only_pairs_with_the_skills_that_were_asked_about_are_given():
    documents = [PDF_A, PDF_B, POEM]
    ranker = Overlap(documents)
    assert find_collisions(ranker, documents, among={"poet"}) == []
    assert find_collisions(ranker, documents, among={"table-miner"}) == find_collisions(ranker, documents)


def test_a_skill_that_loses_all_its_messages_and_takes_none_counts_half():
    documents = [PDF_A, doc("odd-jobs", f"{PDF_A.description} Feed cats, water plants and polish shoes before winter.")]
    [one] = find_collisions(Overlap(documents), documents, minimum=0.5)
    assert 0.5 <= one.similarity < 1
    assert find_collisions(Overlap(documents), documents, minimum=1.0) == []


def test_the_order_of_the_skills_changes_nothing():
    documents = [PDF_A, PDF_B, POEM, doc("twin", PDF_A.description)]
    forwards = find_collisions(Overlap(documents), documents)
    assert forwards == find_collisions(Overlap(documents[::-1]), documents[::-1])
    assert len(forwards) == 3


def test_the_work_is_watched():
    seen = []
    documents = [PDF_A, POEM]
    find_collisions(Overlap(documents), documents, watch=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_what_a_skill_is_not_for_is_not_what_its_users_say():
    document = doc(
        "reader", "Reads scanned invoices and totals. Not for receipts of restaurants.", triggers=("read my invoice",)
    )
    asked = sample_messages(document)
    assert "read my invoice" in asked
    assert not any("receipts" in probe for probe in asked)


def test_a_skill_that_says_nothing_is_asked_for_by_its_name():
    assert sample_messages(SearchDocument(slug="tidy-desk")) == ["tidy desk"]
    assert sample_messages(SearchDocument(slug="home.tidy-desk")) == ["home tidy desk"]


def test_a_sentence_that_says_nothing_is_not_asked():
    assert sample_messages(doc("reader", "Reads scanned invoices and totals. Use this when you can.")) == [
        "Reads scanned invoices and totals."
    ]
