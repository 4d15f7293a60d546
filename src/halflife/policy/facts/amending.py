"""What an amendment may change, and what it needs for that: by which fact it is, before anything is worked out.

members   the population's size and tables: who belongs to it, to which group and with which weight, from a step on
units     the table that says whose each id is: it must be declared that every id belongs to whom it did
columns   where person, time and value stand in the data: their meaning must be declared to be the same
end       a stream's last step, where its plan depends on it
added, ended, losses      a stream that is new or gone; shares and the promise: what every step may lose
"""

from __future__ import annotations

from halflife.errors import InvalidInput
from halflife.notions.base import Notion
from halflife.parsing.documents import Where

MEMBERS = (
    ("population", "size"),
    ("stream", "groups", "table"),
    ("stream", "groups", "sizes"),
    ("stream", "statistic", "weights", "sha256"),
    ("stream", "worth"),
)
NEW_LEDGER = "it is what the whole ledger rests on, and cannot be amended: undo the change"
NEW_STREAM = "what a stream publishes cannot change under its name: let it end, and add another stream under a new name"


def classify_change(where: Where) -> str:
    """Return which kind of amendment a changed fact needs; refuse what no amendment may change.

    >>> classify_change(("population", "size")), classify_change(("stream:power", "share"))
    ('members', 'losses')
    >>> classify_change(("stream:power", "statistic", "clip"))
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: what a stream publishes cannot change under its name: let it end, and add another stream under \
a new name
    """
    part, *keys = map(str, where)
    place = ("stream" if part.startswith("stream:") else part, *keys)
    if place in MEMBERS:
        return "members"
    if place == ("population", "units"):
        return "units"
    if place[:1] == ("promise",) or place == ("stream", "share"):
        return "losses"
    if place == ("population", "person") or place[:2] == ("stream", "source"):
        return "columns"
    if place == ("stream", "last"):
        return "end"
    raise InvalidInput(NEW_STREAM if place[0] == "stream" else NEW_LEDGER)


def refuse_unproved(kind: str, notion: Notion, adds_up: bool) -> None:
    """Refuse an amendment of a kind under a promise for which nobody has shown that it keeps it."""
    if kind in ("members", "units", "ended") and notion.shares_draws:
        raise InvalidInput(
            f"under {notion.name} one noise is used in every period: the difference of two values with the same noise shows "
            "what those who came or left add up to. Let the streams end, and begin a ledger for the new "
            "population"
        )
    if kind in ("added", "losses", "end") and not adds_up:
        raise InvalidInput(
            f"no plan of {notion.name} is proved to go on from a history of other losses: shares, streams and the promise stay "
            "as they are. Amended can be who belongs to the population, columns, and what ends"
        )
    if kind in ("added", "losses", "end") and not notion.adaptive:
        raise InvalidInput(
            "with a delta losses must be fixed before anything is seen, and whoever amends them has seen what was published: no "
            "bound on such a choice is proved here, so shares, streams and the promise stay as they are. Streams may end"
        )
