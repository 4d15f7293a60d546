"""There is one way to noise: nothing but the draws of `mechanisms/` calls a sampler, so all that is drawn was charged first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "halflife"
SAMPLERS = {"draw", "draw_many", "_sampler", "SimulatedNoise"}
RELEASE, SIMULATED = "mechanisms/release_draw.py", ("mechanisms/simulated_draw.py", "mechanisms/lane_draw.py")
MAY = {"noise.py", RELEASE, *SIMULATED}


def find_samplers(text: str) -> set[str]:
    """The samplers of `halflife.noise` that a module names, by whatever name it imports them."""
    tree = ast.parse(text)
    modules, found = {"halflife.noise"}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "halflife":
            modules |= {a.asname or a.name for a in node.names if a.name == "noise"}
        if isinstance(node, ast.Import):
            modules |= {a.asname for a in node.names if a.name == "halflife.noise" and a.asname}
        if isinstance(node, ast.ImportFrom) and node.module == "halflife.noise":
            found |= {a.name for a in node.names if a.name in SAMPLERS or a.name == "*"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SAMPLERS and ast.unparse(node.value) in modules:
            found.add(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and ast.unparse(node.args[0]) in modules:
            found.add("getattr")
    return found


def test_only_the_draw_calls_a_sampler():
    files = {str(f.relative_to(SOURCE)): f.read_text() for f in SOURCE.rglob("*.py")}
    assert set(files) >= MAY
    assert find_samplers(files[RELEASE]) == {"draw_many"}  # no seed can reach it
    assert all(find_samplers(files[name]) == {"SimulatedNoise"} for name in SIMULATED)
    found = {name: samplers for name, text in files.items() if name not in MAY and (samplers := find_samplers(text))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "from halflife import noise\nnoise.draw(c)",
        "from halflife import noise as grade\n[grade.draw_many(x) for x in y]",
        "from halflife.noise import by_loss, draw as d",
        "from halflife.noise import *",
        "import halflife.noise\nf = halflife.noise._sampler",
        "import halflife.noise as n\nn.SimulatedNoise(1)",
        "from halflife import noise\ngetattr(noise, 'draw')(c)",
    ],
)
def test_every_other_way_would_be_seen(text):
    assert find_samplers(text)


def test_what_only_calibrates_is_free():
    assert not find_samplers("from halflife import noise\nnoise.by_loss(1.0, 1.0)\ndraw(None, 1.0, loss=0.1)")
