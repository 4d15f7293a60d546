"""The tables of `docs/papers-and-errata.md`, from what the source claims and the tests cite."""

from __future__ import annotations

import re
from collections.abc import Iterator

from claims.citations import ROOT, Claim, citing_tests, claims, tests_of_a_label
from claims.inventory import PAPERS, Paper

PAGE = ROOT / "docs" / "papers-and-errata.md"
THEORY = ROOT / "docs" / "theory.md"
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.S)
LABELLED = re.compile(r"^### ((?:[A-Z]\d{1,2}[a-z]?|§\d+)) (.+)\n\n\*\*Status:\*\* (.+?)(?:\.(?:\s|$)|;)", re.M)
SHOWN = 2
"""How many tests a row names."""


def update(page: str) -> str:
    """Return the page with its tables written anew; what stands between them is left alone."""
    tables = {"results": "\n".join(result_tables()), "labels": "\n".join(label_table())}
    return BLOCK.sub(lambda block: f"{block[1]}{tables[block[2]]}\n{block[3]}", page)


def result_tables() -> Iterator[str]:
    """Yield a table for each paper: every result that it numbers, where it is, its tests and its status."""
    claimed, tests = claims(), citing_tests()
    for paper in PAPERS:
        yield f"### {paper.title}\n"
        yield "| result | about | where | tests | status |\n| --- | --- | --- | --- | --- |"
        for result, about in paper.results.items():
            mine = [claim for claim in claimed if (claim.paper, claim.result) == (paper.name, result)]
            yield _row(paper, result, about, mine, tests.get((paper.name, result), []))
        yield ""


def _row(paper: Paper, result: str, about: str, mine: list[Claim], tests: list[str]) -> str:
    if result in paper.no_code:
        return f"| {result} | {about} | – | – | {paper.no_code[result]} |"
    where = "; ".join(dict.fromkeys(claim.where for claim in mine))
    status = "; ".join(dict.fromkeys(claim.status for claim in mine))
    return f"| {result} | {about} | {where} | {_name(tests)} | {status} |"


def _name(tests: list[str]) -> str:
    more = f" and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
    return ", ".join(f"`{test}`" for test in tests[:SHOWN]) + more


def labels() -> list[tuple[str, str, str]]:
    """Return (label, heading, status) of every labelled result of docs/theory.md."""
    return LABELLED.findall(THEORY.read_text(encoding="utf-8"))


def label_table() -> Iterator[str]:
    """Yield a table of the labelled results: errata, findings and results of our own, with the tests that cite each."""
    yield "| label | what | status | tests |\n| --- | --- | --- | --- |"
    for label, heading, status in labels():
        anchor = "section-3" if label.startswith("§") else label.lower()
        yield f"| [{label}](theory.md#{anchor}) | {heading} | {' '.join(status.split())} | {_name(tests_of_a_label(label))} |"
