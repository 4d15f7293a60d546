"""docs/theory.md: every label that code and pages cite has one heading there, and its figures are recomputed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "theory.md"
LABEL = re.compile(r"(?<![\w.-])(?:[A-Z]\d{1,2}[a-z]?|§\d+)(?![\w]|\.\d)")
"""T4a, D1 or §3: a capital and a number. Not VI-A5 (a section), D2.3 (a report) or S_1 (a step)."""
NOT_LABELS = {
    "L1",  # norms, and the sensitivities by them
    "L2",
    "H0",  # a load profile of the VDEW
    "P1a",  # plots of P1
    "P1b",
    "V32",  # 32 bytes, to NumPy
    "T00",  # times of day: 2026-01-01T00:30
    "T03",
    "T05",
    "T09",
    "T23",
}
KINDS = {
    "Theorem": "Theorem", "Theorems": "Theorem", "Corollary": "Corollary", "Corollaries": "Corollary",
    "Proposition": "Proposition", "Propositions": "Proposition", "Prop.": "Proposition", "Lemma": "Lemma",
    "Lemmas": "Lemma", "Definition": "Definition", "Definitions": "Definition", "Algorithm": "Algorithm",
    "Algorithms": "Algorithm", "Problem": "Problem", "Remark": "Remark", "Example": "Example", "eq.": "eq.", "Eq.": "eq.",
}  # fmt: skip
MANY = {"Theorems", "Corollaries", "Propositions", "Lemmas", "Definitions", "Algorithms"}
NUMBERED = re.compile(
    rf"\b({'|'.join(map(re.escape, KINDS))})\s+(\d+[a-d]?(?![\w.]\d)(?:(?:,\s|\sand\s|,\sand\s|\sto\s|–)\d+[a-d]?)*)"
)


def cited_in():
    """Every file that may cite a result, but for the page itself and this test."""
    folders = [("src", "*.py"), ("tests", "*.py"), ("bench", "*.py"), ("examples", "*.*"), ("docs", "*.md")]
    files = [path for folder, names in folders for path in sorted((ROOT / folder).rglob(names))]
    files += sorted(ROOT.glob("*.md"))
    text = {".py", ".md", ".yaml"}
    return [path for path in files if path.suffix in text and path not in (PAGE, Path(__file__).resolve())]


def labels_of(text):
    return set(LABEL.findall(text)) - NOT_LABELS


def numbers_of(text):
    """(kind, number) of each result that is cited by its number in a paper; lists and ranges are written out.

    "Theorems 8 to 11" are four of them. After a word in the singular only a range goes on: "by Theorem 1, 4 homes" is one.
    """
    found = set()
    for word, listed in NUMBERED.findall(text):
        parts = re.split(r",\sand\s|,\s|\sand\s", listed)
        for part in parts if word in MANY else parts[:1]:
            first, *last = re.split(r"–|\sto\s", part)
            both = (first, last[0]) if last and first.isdigit() and last[0].isdigit() else None
            names = [str(n) for n in range(int(both[0]), int(both[1]) + 1)] if both else [first]
            found |= {(KINDS[word], name) for name in names}
    return found


@cache
def by_place(find):
    """What `find` gives for each file, as result → files."""
    places = defaultdict(list)
    for path in cited_in():
        for result in find(path.read_text(encoding="utf-8")):
            places[result].append(str(path.relative_to(ROOT)))
    return places


def headings(page):
    """The text of every heading, outside code."""
    return re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.S), re.M)


def labels_with_a_heading(page):
    """Labels with a heading of the third level: one says what the label means."""
    found = re.findall(r"^### (\S+) \S", re.sub(r"```.*?```", "", page, flags=re.S), re.M)
    return [label for label in found if LABEL.fullmatch(label)]


def without_a_heading(page):
    known = set(labels_with_a_heading(page))
    return {label: places for label, places in by_place(labels_of).items() if label not in known}


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_labels_are_told_from_what_looks_like_them():
    text = "Erratum S1, (T4a; ours), A1–A9 and D2: S_1, VI-A5, D2.3, L1, T00:30, BD2, w_K1, H0 and `P1a`. §3"
    assert labels_of(text) == {"S1", "T4a", "A1", "A9", "D2", "§3"}


def test_numbers_are_read_as_they_are_written():
    text = "Theorems 8 to 11, Definitions 7, 8 and 16; by Theorem 1, 4 homes; Prop. 3 (Eq. 39a), eq. 81–83, Lemma\n7, eq. 4.5"
    assert numbers_of(text) == {
        *(("Theorem", n) for n in ("1", "8", "9", "10", "11")),
        *(("Definition", n) for n in ("7", "8", "16")),
        *(("eq.", n) for n in ("39a", "81", "82", "83")),
        ("Proposition", "3"),
        ("Lemma", "7"),
    }


def test_something_is_looked_at():
    places = by_place(labels_of)
    assert {"A1", "C1", "D1", "P1", "S1", "T1", "T4a"} <= set(places)
    assert any(path.startswith("src/") for path in places["T1"])
    assert any(path.startswith("docs/") for path in places["D1"])


def test_every_label_has_a_heading(page):
    assert without_a_heading(page) == {}, "a heading in docs/theory.md, or, if it is no label, an entry in NOT_LABELS"


def test_a_heading_that_is_gone_is_missed(page):
    for label in labels_with_a_heading(page):
        cited = label in by_place(labels_of)
        assert (label in without_a_heading(page.replace(f"### {label} ", "### "))) == cited


def test_no_heading_comes_twice(page):
    assert [text for text, times in Counter(headings(page)).items() if times > 1] == []
    assert [label for label, times in Counter(labels_with_a_heading(page)).items() if times > 1] == []


def test_every_number_of_a_paper_is_in_a_table(page):
    """A result that code or pages cite as Theorem 8 or eq. 55 is in the first column of one of the tables."""
    known = set().union(*(numbers_of(cell) for cell in re.findall(r"^\| ([^|]*) \|", page, re.M)))
    assert {result: places for result, places in by_place(numbers_of).items() if result not in known} == {}


def test_every_label_has_an_anchor_and_every_link_leads_to_one(page):
    anchors = re.findall(r'^<a id="([^"]+)"></a>$', page, re.M)
    assert [name for name, times in Counter(anchors).items() if times > 1] == []
    for label in labels_with_a_heading(page):
        anchor = label.lower().replace("§", "section-")
        assert f'<a id="{anchor}"></a>\n\n### {label} ' in page
        assert f"[{label}](#{anchor})" in page, "in the contents"
    titles = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings(page)}
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= titles | set(anchors)


def test_the_figures_of_the_page_are_recomputed(page):
    names = {"__name__": "theory"}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, str(PAGE), "exec"), names)
