"""No two modules of the policy need each other, not even for a type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from source_copy import SOURCE


def module_name(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imported(file: Path, known: set[str]) -> Iterator[str]:
    """Every module that a file imports, wherever it does: at the top, for types alone, or inside a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known
            yield from inside
            if len(inside) < len(node.names) and node.module in known:
                yield node.module


def import_graph(root: Path, package: str) -> dict[str, set[str]]:
    files = {module_name(f, root): f for f in (root / package.replace(".", "/")).rglob("*.py")}
    return {name: set(imported(file, set(files))) - {name} for name, file in files.items()}


def test_no_module_of_the_policy_needs_one_that_needs_it():
    graph = import_graph(SOURCE, "halflife.policy")
    assert len(graph) > 15
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("halflife.policy.model") < order.index("halflife.policy.promises.base")
    assert order.index("halflife.policy.promises") < order.index("halflife.policy.streams")
    assert not any("TYPE_CHECKING" in f.read_text() for f in (SOURCE / "halflife" / "policy").rglob("*.py"))


@pytest.mark.parametrize("how", [
    "from room import b",
    "from room.b import x",
    "import room.b",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.b import x",
    "def late():\n    from room.b import x",
])  # fmt: skip
def test_a_cycle_is_found_however_it_is_hidden(tmp_path, how):
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "a.py").write_text(how)
    (room / "b.py").write_text("")
    assert list(TopologicalSorter(import_graph(tmp_path, "room")).static_order())
    (room / "b.py").write_text("from room.a import y")
    with pytest.raises(CycleError):
        list(TopologicalSorter(import_graph(tmp_path, "room")).static_order())
