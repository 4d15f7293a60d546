"""What is registered is found by its name; what is not is refused with the names that are."""

from __future__ import annotations

import pytest

from halflife import Classical, InvalidInput, Notion, WEvent


@pytest.mark.parametrize("method", ["thight", "", None, 3, ["tight"]])
def test_an_unknown_plan_is_refused_with_those_that_the_notion_has(method):
    for notion in (Classical(1.0), WEvent(1.0, 3)):
        with pytest.raises(InvalidInput, match=f"unknown plan for {notion.name}.*Known: constant.*tight"):
            notion.plan(method=method)


def test_the_nearest_name_is_suggested():
    with pytest.raises(InvalidInput, match="did you mean 'tight'"):
        Classical(1.0).plan(method="thight")
    with pytest.raises(InvalidInput, match="unknown notion 'classic': did you mean 'classical'"):
        Notion.from_dict({"name": "classic", "epsilon": 1.0})
