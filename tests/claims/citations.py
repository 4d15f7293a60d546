"""Who claims a result, and which tests cite it: read off docstrings and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from claims.inventory import PAPERS, Paper

ROOT = Path(__file__).resolve().parents[2]
STATUSES = ("paper", "corrected", "ours", "refused", "recomputed")
"""As printed; mended; replaced by ours; implemented only to refuse it; a figure or table computed again."""

KINDS = {
    "Definition": "Definitions", "Theorem": "Theorems", "Proposition": "Propositions", "Corollary": "Corollaries",
    "Lemma": "Lemmas", "Algorithm": "Algorithms", "Remark": "Remarks", "Example": "Examples", "Assumption": "Assumptions",
    "Figure": "Figures", "Table": "Tables",
}  # fmt: skip
SINGULAR = {word: kind for kind, many in KINDS.items() for word in (kind, many)}
NUMBER = r"(?:\d+|[IVX]+)(?![\w.]*\d)"
LISTED = re.compile(rf"\b({'|'.join(SINGULAR)}) ({NUMBER}(?:(?:, | and |, and | to |–){NUMBER})*)")
CLAIM = re.compile(rf"\(([^()]*?\b(?:{'|'.join(SINGULAR)}) [^();]*); ((?:{'|'.join(STATUSES)})\b[^()]*)\)")
IN_A_NAME = re.compile(rf"({'|'.join(kind.lower() for kind in KINDS)})_(\d+)")


class Claim(NamedTuple):
    """A docstring that says where a result of a paper lives: the place in the source, and its status."""

    paper: str
    result: str
    where: str
    status: str


def results_in(text: str) -> list[str]:
    """Return the results that a text cites by number: "Theorems 8 to 10" are three; "Theorem 1, 4 homes" is one.

    >>> results_in("Definitions 7, 8 and 16, Tables II and III, by Theorem 1, 4 homes, Figures 2–4")
    ['Definition 7', 'Definition 8', 'Definition 16', 'Table II', 'Table III', 'Theorem 1', 'Figure 2', 'Figure 3', 'Figure 4']
    """
    found: list[str] = []
    for word, listed in LISTED.findall(text):
        parts = re.split(r", and |, | and ", listed)
        for part in parts if word != SINGULAR[word] else parts[:1]:
            first, *last = re.split(r" to |–", part)
            numbers = range(int(first), int(last[0]) + 1) if last and first.isdigit() else [first]
            found += [f"{SINGULAR[word]} {number}" for number in numbers]
    return found


def paper_of(path: Path, text: str) -> Paper | None:
    """Return the paper that a text in a file means: the one that it names, or that its folder or file is about."""
    named = [paper for paper in PAPERS if re.search(rf"\b{paper.name} paper", text, re.I)]
    if named:
        return named[0] if len(named) == 1 else None
    words = [*path.parts[:-1], path.stem.removeprefix("test_")]
    about = [paper for paper in PAPERS if any(room in words for room in paper.rooms)]
    return about[0] if len(about) == 1 else None


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each thing in a file, and its docstring in one line."""

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield name, " ".join((ast.get_docstring(node) or "").split())
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                yield from walk(child, f"{name}.{child.name}".strip("."))
            elif isinstance(child, ast.stmt):  # expressions define nothing
                yield from walk(child, name)

    yield from ((name, text) for name, text in walk(ast.parse(path.read_text(encoding="utf-8")), "") if text)


@cache
def claims() -> list[Claim]:
    """Return every claim of the source, file by file. A claim about no paper of ours is an error."""
    found = {}
    for path in sorted((ROOT / "src" / "halflife").rglob("*.py")):
        inside = path.relative_to(ROOT / "src" / "halflife")
        for name, text in docstrings(path):
            for cited, status in CLAIM.findall(text):
                paper = paper_of(inside, cited)
                if paper is None:
                    raise ValueError(f"{inside}, {name or 'module'}: of which paper is ({cited}; {status})?")
                where = f"`{inside}`" + (f", `{name}`" if name else "")
                for result in results_in(cited):
                    found[Claim(paper.name, result, where, status)] = None
    return list(found)


def cited_in(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yield (paper, result) for each result that a text cites, clause by clause, as each clause may name its paper."""
    for clause in re.split(r"[.;:()](?=\s|$)|\(", text):
        if LISTED.search(clause) and (paper := paper_of(path, clause)) is not None:
            yield from ((paper.name, result) for result in results_in(clause))


@cache
def tests() -> list[tuple[Path, str, str]]:
    """Return every test function: its file within tests/, its name, and its text in one line."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name == "claims":  # they are about citations, and hold none
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                body = " ".join(" ".join(lines[node.lineno : node.end_lineno]).split())
                found.append((path.relative_to(ROOT / "tests"), node.name, body))
    return found


@cache
def citing_tests() -> dict[tuple[str, str], list[str]]:
    """Return the tests that cite each (paper, result): those that have it in their name first, then by docstring and comment."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for path, name, body in tests():
        paper = paper_of(path, body)
        named = [(paper.name, f"{kind.capitalize()} {n}") for kind, n in IN_A_NAME.findall(name) if paper]
        for key in [*named, *cited_in(path, body)]:
            found.setdefault(key, {}).setdefault(name, key not in named)
    return {key: sorted(names, key=lambda name: names[name]) for key, names in found.items()}


@cache
def tests_of_a_label(label: str) -> list[str]:
    """Return the tests that cite a label of docs/theory.md: those that have it in their name first."""
    cites = re.compile(rf"(?<![\w-]){re.escape(label)}(?!\w)")
    found = {}
    for path, name, body in tests():
        in_name = f"_{label.lower()}_" in f"{name}_"
        if path.name != "test_theory.py" and (in_name or cites.search(body)):
            found[name] = not in_name
    return sorted(found, key=lambda name: found[name])
