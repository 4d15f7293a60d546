"""What papers share: tables that no cell breaks, and files that name the folder that cannot be written."""

from __future__ import annotations

import pytest

from halflife import InvalidInput
from halflife.lab.views.page import table_html
from halflife.papers.figures import markdown, write_files


def test_a_bar_in_a_cell_does_not_end_it():
    lines = markdown(("|ρ|", "b"), [("1|2", "3")]).splitlines()
    assert lines == [r"| \|ρ\| | b |", "| --- | --- |", r"| 1\|2 | 3 |"]


def test_cells_of_a_page_are_text_and_names_are_html_only_if_asked():
    lines = [("<b>x</b>", "<i>1</i>")]
    plain, linked = table_html("a < b", ("h",) * 2, lines), table_html("a < b", ("h",) * 2, lines, html_names=True)
    assert "<b>x</b>" not in plain
    assert "<b>x</b>" in linked
    for text in (plain, linked):
        assert "&lt;i&gt;1&lt;/i&gt;" in text
        assert "<caption><span>a &lt; b</span></caption>" in text
    styled = table_html("c", ("h", "i"), lines, ["color: red", "color: blue"], named=True)
    assert styled.count('style="color: red"') == styled.count('style="color: blue"') == 2
    assert '<table class="named">' in styled


def test_files_are_returned_in_the_order_of_writing_and_a_bad_folder_is_named(tmp_path):
    written = write_files(tmp_path / "new", "x", "T", "<p>body</p>", {"a.md": "text"})
    assert [p.name for p in written] == ["report.html", "a.md"]
    assert "(reproduce x). The numbers are in the files" in written[0].read_text(encoding="utf-8")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another folder"):
        write_files(tmp_path / "file" / "out", "x", "T", "", {})
