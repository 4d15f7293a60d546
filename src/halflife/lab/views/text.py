"""Numbers, parameters and tables as text, for pages and terminals."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from halflife.notions import Notion

if TYPE_CHECKING:
    from rich.table import Table

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "alpha": "α", "beta": "β"}


def describe_parameters(notion: Notion) -> str:
    """Return a notion's parameters as a reader would write them.

    >>> from halflife import WEvent
    >>> describe_parameters(WEvent(1.0, 48))
    'ε = 1, w = 48, δ = 0'
    """
    return _describe(notion.reference())


def describe_promise(reference: Mapping[str, object]) -> str:
    """Return a notion and its parameters, from its `reference`.

    >>> from halflife import WEvent
    >>> describe_promise(WEvent(1.0, 48).reference())
    'w-event (ε = 1, w = 48, δ = 0)'
    """
    return f"{reference['name']} ({_describe(reference)})"


def _describe(reference: Mapping[str, object]) -> str:
    items = ((k, v) for k, v in reference.items() if k != "name" and v is not None)
    return ", ".join(f"{_SYMBOLS.get(k, k.replace('_', ' '))} = {_short(v)}" for k, v in items)


def _short(value: object) -> str:
    """A parameter in a few characters: what has parts gives its name, or how many there are."""
    if isinstance(value, float):
        return f"{value:.6g}".replace("e-0", "e-")
    if isinstance(value, Mapping) and "secrets" in value:
        return f"{value['secrets']:,} secrets of {value['households']:,} households"
    if isinstance(value, Mapping):
        return str(value.get("name", f"{len(value)} settings"))
    return f"{len(value)} items" if isinstance(value, list | tuple) else str(value)


def three_figures(x: float) -> str:
    """Return a number with three significant figures and no exponent, for tables.

    >>> three_figures(0.80049), three_figures(3859.1), three_figures(100.0), three_figures(0.0)
    ('0.800', '3,860', '100', '0')
    """
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    rounded = float(f"{x:.2e}")
    places = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    title: str | None = None,
    no_wrap: bool = False,
) -> Table:
    """Return rows as a table for a terminal; an empty row is a line between those around it.

    left     which columns are aligned to the left
    no_wrap  never break a cell into lines
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i in left else "right", no_wrap=no_wrap)
    for row in rows:
        if row:
            table.add_row(*row)
        else:
            table.add_section()
    return table
