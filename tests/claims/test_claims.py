"""docs/papers-and-errata.md says what the code claims: every result of the papers, where it is, and which tests hold it."""

from __future__ import annotations

import re

import pytest

from claims import citations
from claims.citations import ROOT, cited_in, citing_tests, claims, paper_of, results_in
from claims.inventory import PAPERS, SWELLFISH
from claims.page import PAGE, labels, update

TESTLESS = ("slip", "not built")
"""A misprint that changes nothing, and what is stated and used nowhere, need no test."""


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date(page):
    assert update(page) == page, "run: PYTHONPATH=tests python -m claims"


def test_every_result_of_the_papers_is_claimed_and_held_by_a_test():
    claimed, tests = {(claim.paper, claim.result) for claim in claims()}, citing_tests()
    wanted = {(paper.name, result) for paper in PAPERS for result in paper.results if result not in paper.no_code}
    assert wanted - claimed == set(), "no docstring claims these"
    assert {key for key in wanted if key not in tests} == set(), "no test cites these"
    assert claimed - wanted == set(), "claimed, and not among the paper's results, or said to need no code"


def test_the_results_are_those_of_the_papers(data_folder):
    """Every number that stands at the head of a line in the papers' text, and no other."""
    folder = data_folder.parent / "papers"
    if not folder.exists():
        pytest.skip("the papers' text is not here")
    for paper in PAPERS:
        text = (folder / f"{paper.name.lower()}.txt").read_text(encoding="utf-8", errors="replace")
        heads = re.findall(
            r"^(?:<\|[^|]*\|>)?[#* ]*(Definition|Theorem|Proposition|Corollary|Lemma|Algorithm|Remark|Example|Assumption"
            r"|Fig\.|Figure|TABLE) ([0-9]+|[IVX]+)\b",
            text,
            re.M,
        )
        found = {f"{ {'Fig.': 'Figure', 'TABLE': 'Table'}.get(kind, kind) } {number}" for kind, number in heads}
        assert found == set(paper.results), paper.name


def test_every_label_of_theory_has_a_test_unless_it_is_a_slip(page):
    known = labels()
    assert len(known) == len(re.findall(r"^### (?:[A-Z]\d|§)", (ROOT / "docs" / "theory.md").read_text(), re.M))
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    for label, heading, status in known:
        section = theory.split(f"### {label} {heading}")[1].split("\n### ")[0]
        assert citations.tests_of_a_label(label) or any(word in section.split("\n\n")[1] for word in TESTLESS), label
        assert f"[{label}](theory.md#" in page, (label, status)


def test_every_test_file_and_name_of_the_page_exists(page):
    """`test_…` is a test; `a/b.py` is a file of the source, and `name` after it is in that file."""
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"^def (test_\w+)", tests, re.M))
    assert set(re.findall(r"`(test_\w+)`", page)) - known == set()
    for path, names in re.findall(r"`((?:\w+/)*\w+\.py)`((?:, `[\w.]+`(?!\.py))*)", page):
        places = [ROOT / "src" / "halflife" / path, ROOT / path]
        places += [*(ROOT / "src" / "halflife" / "audit").rglob(path)]
        found = [place for place in places if place.exists()]
        assert found, path
        for name in re.findall(r"`([\w.]+)`", names):
            if not name.endswith(".py"):
                assert re.search(rf"\b{name.split('.')[-1]}\b", found[0].read_text()), (path, name)


# How claims and citations are read ----------------------------------------------------------------------------------


def test_lists_and_ranges_are_written_out_and_a_singular_goes_no_further():
    text = "Definitions 7, 8 and 16, Tables II and III; by Theorem 1, 4 homes; Figures 2–4, Corollary 16, Theorem 1.5"
    assert results_in(text) == [
        *(f"Definition {n}" for n in (7, 8, 16)), "Table II", "Table III", "Theorem 1",
        *(f"Figure {n}" for n in (2, 3, 4)), "Corollary 16",
    ]  # fmt: skip


def test_a_claim_means_the_paper_that_it_names_or_else_its_folders():
    inside = ROOT / "notions" / "w_event.py"
    assert paper_of(inside.relative_to(ROOT), "Theorem 2") is SWELLFISH
    assert paper_of(inside.relative_to(ROOT), "Theorem 5 of the discounted paper").name == "discounted"
    assert paper_of(inside.relative_to(ROOT).with_name("composition.py"), "Theorem 5") is None
    cited = cited_in(inside.relative_to(ROOT), "Holds Theorem 2; Definition 4 of the discounted paper. And Theorem 10.")
    assert list(cited) == [("Swellfish", "Theorem 2"), ("discounted", "Definition 4"), ("Swellfish", "Theorem 10")]


def test_a_claim_that_is_taken_away_is_missed(monkeypatch):
    monkeypatch.setattr(citations, "docstrings", lambda path: iter([("f", "b (Theorem 5; paper) and (T1; ours)")]))
    inside = ROOT / "src" / "halflife" / "notions" / "classical.py"
    monkeypatch.setattr(type(ROOT), "rglob", lambda self, pattern: [inside])
    assert [(c.paper, c.result, c.where, c.status) for c in citations.claims.__wrapped__()] == [
        ("discounted", "Theorem 5", "`notions/classical.py`, `f`", "paper")
    ]
