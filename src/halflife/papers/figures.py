"""What the reproductions of papers share: panels of figures, tables, the data files, and what is written.

A panel is numbers: an axis, and curves over it. Plots, files and tests share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.lab.data import LONDON, data_folder, named_folder
from halflife.lab.views.page import DASHES, PALETTE, Figure, figure_html, layout, load_plotly, write_page
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

AUSGRID_HOMES, YEAR_SLOTS = 300, 17_520
SOLID, DASH, DOT, DASHDOT = range(4)


class Curve(NamedTuple):
    """One line of a panel; `colour` and `dash` are places in the page's palettes, `marks` draws points and no line."""

    name: str
    y: Floats
    colour: int = 0
    dash: int = SOLID
    marks: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of a figure.

    name   such as "4a";  said  what is drawn, for those who do not see it, and the caption
    x      what all curves are over;  y_most  where the axis of values ends, None for all of them
    """

    name: str
    title: str
    said: str
    x_title: str
    y_title: str
    x: Floats
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    y_most: float | None = None

    def __getitem__(self, name: str) -> Floats:
        for curve in self.curves:
            if curve.name == name:
                return curve.y
        raise unknown(f"curve of figure {self.name}", name, [curve.name for curve in self.curves])

    def to_json(self) -> JsonObject:
        """Return the numbers as JSON can hold them: null where a curve has none, "inf" where it has no bound."""
        return {
            "title": self.title, "x": self.x_title, "y": self.y_title, "at": plain(self.x),
            "curves": {curve.name: plain(curve.y) for curve in self.curves},
        }  # fmt: skip


def plain(values: Floats) -> list[float | str | None]:
    """Return numbers as JSON can hold them.

    >>> plain(np.array([1.0, math.nan, math.inf]))
    [1.0, None, 'inf']
    """
    return [None if math.isnan(v) else "inf" if v == math.inf else v for v in values.tolist()]


# Plots --------------------------------------------------------------------------------------------------------------


def plot(panel: Panel) -> Figure:
    """Draw a panel."""
    axis = {"type": "log" if panel.log_x else "linear", "title": {"text": panel.x_title, "font": {"size": 13}}}
    figure = load_plotly().Figure(layout=layout(panel.y_title, **axis, hoverformat=".3~g", zeroline=False))
    if panel.log_x:
        figure.update_xaxes(tickformat="~g", dtick="D2" if _span(panel.x) < 300 else 1)
    for curve in panel.curves:
        _draw(figure, panel, curve)
    if panel.log_y:
        drawn = np.concatenate([curve.y for curve in panel.curves])
        figure.update_yaxes(type="log", tickformat="~g", dtick="D2" if _span(drawn[drawn > 0]) < 50 else 1)
    elif panel.y_most is not None:
        figure.update_yaxes(range=[0, panel.y_most])
    else:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _span(values: Any) -> float:
    return float(np.nanmax(values) / np.nanmin(values))


def _draw(figure: Figure, panel: Panel, curve: Curve) -> None:
    colours = PALETTE[curve.colour]
    style = {"color": colours[0], "width": 2.5, "dash": DASHES[curve.dash]}
    # Marks take the line's colour, which the page's script changes with the reader's setting.
    figure.add_scatter(
        x=panel.x, y=curve.y, name=escape(curve.name, quote=False), mode="markers" if curve.marks else "lines",
        line=style, marker={"size": 8, "symbol": "circle-open", "line": {"width": 2}},
        meta={"colours": colours}, hovertemplate="%{y:.4~g}",
    )  # fmt: skip


def panels_html(panels: Sequence[Panel]) -> str:
    """Return panels as HTML, each with its heading, its plot and what is drawn in words."""
    parts = []
    for panel in panels:
        title = panel.title[0].upper() + panel.title[1:]
        heading = f"Figure {panel.name}: {panel.title}" if panel.name[0].isdigit() else title
        name = "plot-" + "".join(c for c in panel.name if c.isalnum())
        drawn = figure_html(name, plot(panel), f"{heading}. {panel.said}", panel.said)
        parts.append(f"<h3>{escape(heading)}</h3>{drawn}")
    return "".join(parts)


# Tables -------------------------------------------------------------------------------------------------------------


class Erratum(NamedTuple):
    """One erratum: what it is about, what the paper gives, what is true, and how the truth was found."""

    name: str
    about: str
    printed: str
    computed: str
    how: str


ERRATA_HEADS = ("erratum", "about", "paper", "computed", "how")


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    r"""Return a table in Markdown, in which the bars of |ρ| end no cell.

    >>> print(markdown(("a", "|ρ|"), [("1", "2")]))
    | a | \|ρ\| |
    | --- | --- |
    | 1 | 2 |
    """
    rows = (heads, ["---"] * len(heads), *lines)
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |" for cells in rows)


# The data -----------------------------------------------------------------------------------------------------------


def find_data(folder: Path | None, needed: Sequence[str]) -> Path | None:
    """Return the folder with the real data: the one given, else $HALFLIFE_DATA, else ../shared/data if it is there."""
    named, chosen = named_folder(folder), data_folder(folder)
    missing = [name for name in needed if not (chosen / name).is_file()]
    if not missing:
        return chosen
    if named is not None:
        raise InvalidInput(
            f"{named} holds no {' and no '.join(missing)}: give another folder, or none for generated homes"
        )
    return None


def read_london(folder: Path, least_readings: int, most_homes: int | None = None) -> Floats:
    """Return the readings of London's homes with at least so many in 2013, the first so many by id, NaN where one is missing.

    Row i, column t: the kWh of home i in half hour t of the year.
    """
    import duckdb

    with duckdb.connect() as database:
        rows = database.execute(
            "WITH chosen AS (SELECT lclid FROM read_parquet(?) GROUP BY lclid HAVING count(*) >= ? ORDER BY lclid LIMIT ?) "
            "SELECT dense_rank() OVER (ORDER BY lclid) - 1 AS home, "
            "(epoch(ts) - epoch(TIMESTAMP '2013-01-01')) / 1800 AS slot, kwh "
            "FROM read_parquet(?) WHERE lclid IN (SELECT lclid FROM chosen)",
            [str(folder / LONDON), least_readings, most_homes, str(folder / LONDON)],
        ).fetchnumpy()  # fmt: skip
    homes = np.full((int(rows["home"].max()) + 1, YEAR_SLOTS), np.nan)
    homes[rows["home"].astype(np.int64), np.rint(rows["slot"]).astype(np.int64)] = rows["kwh"]
    return homes


# A paper as a whole -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced, and everything that a command needs to do so.

    files          data files that the real source is made of;  where_to_get  what to say if they are not there
    real_source    folder → the real data;  generated_source  seed → generated homes in its place
    reproduce      (source, seed, progress) → all that was computed
    write_all      (what was computed, folder) → the files that were written, the report first
    print_summary  (what was computed, console): print a table and what must be known beside it
    """

    files: tuple[str, ...]
    where_to_get: str
    real_source: Callable[[Path], Any]
    generated_source: Callable[[int], Any]
    reproduce: Callable[[Any, int, Progress], Any]
    write_all: Callable[[Any, Path], list[Path]]
    print_summary: Callable[[Any, Console], None]

    def find_data(self, folder: Path | None) -> Path | None:
        """Return the folder with the paper's data, None if it has to be generated; see `find_data`."""
        return find_data(folder, self.files)

    def run(self, data: Path | None, out: Path, seed: int, progress: Progress) -> tuple[Any, list[Path]]:
        """Compute everything from the real data, or from generated homes, and write it; return both."""
        progress("reading" if data else "simulating the homes", 0, 1)
        source = self.generated_source(seed) if data is None else self.real_source(data)
        found = self.reproduce(source, seed, progress)
        progress("writing the report", 0, 1)
        return found, self.write_all(found, out)


def write_files(
    folder: Path,
    name: str,
    title: str,
    body: str,
    texts: Mapping[str, str],
    tables: Mapping[str, pa.Table] | None = None,
) -> list[Path]:
    """Write report.html, text files and Parquet files into a folder; return their paths in this order.

    name   of the paper, as `halflife reproduce` has it
    """
    import pyarrow.parquet as pq

    footer = f" (reproduce {name}). The numbers are in the files beside this page."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_page(folder / "report.html", title, body, footer)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        for file, table in (tables or {}).items():
            pq.write_table(table, folder / file)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    return [folder / file for file in ("report.html", *texts, *(tables or {}))]
