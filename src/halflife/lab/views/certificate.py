"""The page of a certificate, to read and to print: what it says, and nothing that it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from halflife.errors import visible
from halflife.lab.views.page import table_html, write_page
from halflife.lab.views.policy import odds_words
from halflife.lab.views.report import opening_html
from halflife.lab.views.text import three_figures
from halflife.numerics.forms import JsonObject

ROUNDING = 1e-9
"""What a risk may lie above a promise by rounding alone, relatively."""


def write_certificate_page(certificate: JsonObject, path: Path) -> None:
    """Write the page of a certificate."""
    content = certificate["certificate"]
    title = f"Certificate: {visible(content['population']['id'])}"
    write_page(path, title, "\n".join(_sections(title, content, certificate.get("signature"))), plots=False)


def _sections(title: str, content: JsonObject, signature: JsonObject | None) -> Iterator[str]:
    population, period = content["population"], content["period"]
    yield opening_html(
        title,
        "What was published about these people in a period, under which promise, and how exposed one of them is by it. First "
        "what is <em>not</em> protected.",
        {
            "From": _plain_time(period["from"]),
            "To": _plain_time(period["to"]),
            "Zone": period["zone"],
            "People": f"{population['size']:,}",
            "Made": _plain_time(content["made"]),
            "Signed": "yes" if signature else "no",
        },
    )
    yield "<h2>What is not protected</h2>" + _list(content["not_protected"], "open")
    for i, promise in enumerate(content["promises"]):
        yield from _promise(promise, earlier=i > 0)
    yield from _amendments(content.get("amendments", []))
    yield from _restores(content.get("restores", []))
    yield from _skipped(content.get("skipped", {}))
    yield from _classically(content["classically"])
    yield "<h2>What was published</h2>"
    for part in content["published"]:
        yield from _stream(part)
    yield from _binding(content, signature)


def _amendments(found: Sequence[JsonObject]) -> Iterator[str]:
    """What was amended, when, by whom and why."""
    if not found:
        return
    yield "<h2>Amendments</h2>"
    yield "<p>Changes of what the ledger is held to, each in force from the step that is named on, the oldest first.</p>"
    for a in found:
        steps = ", ".join(f"{name} from step {step:,} on" for name, step in a["from_steps"].items())
        weaker = ["The promise protects less than before."] if a["weakens"] else []
        yield f"<h3>{escape(_plain_time(a['at']))}: {escape(visible(a['reason']))}</h3>"
        yield _list(map(visible, [*a["changes"], *weaker, f"recorded by {a['by']}; in force: {steps}"]))


def _restores(found: Sequence[JsonObject]) -> Iterator[str]:
    """Which steps the ledger has lost."""
    if not found:
        return
    yield "<h2>Lost steps</h2>"
    yield table_html(
        "The ledger was restored from an older copy. These steps were published, or may have been; they count in "
        "every risk above, and "
        "are never published again",
        ("Recorded", "Why, and who says so", "Steps"),
        [
            (
                _plain_time(r["at"]),
                f"{visible(r['reason'])} ({visible(r['by'])})",
                visible(", ".join(f"{name} {low:,} to {high:,}" for name, (low, high) in r["passed_over"].items())),
            )
            for r in found
        ],
    )


def _skipped(found: JsonObject) -> Iterator[str]:
    """Which steps were never published."""
    if not found:
        return
    yield "<h2>Skipped steps</h2>"
    yield table_html(
        "The source of these steps was out of reach when they were closed: nothing was read, drawn, charged or published for "
        "them, nor ever will be",
        ("Stream", "Steps"),
        [
            (visible(name), ", ".join(f"{low:,} to {high:,}" if high > low else f"{low:,}" for low, high in runs))
            for name, runs in found.items()
        ],
    )


def _promise(promise: JsonObject, earlier: bool = False) -> Iterator[str]:
    notion, risk = promise["notion"], promise["risk"]
    rest = ", ".join(f"{key} = {_short(value)}" for key, value in notion.items() if key != "name")
    which = "A promise of before" if earlier else "The promise"
    yield f'<h2>{which}: {escape(str(notion["name"]))}<span class="parameters">{escape(rest)}</span></h2>'
    yield f"<p>{escape(promise['summary'])}</p>" + _list(promise["in_other_words"])
    rows = [
        ("promised at most", risk["limit"]),
        ("largest in the period", risk["largest"]),
        ("at its end", risk["risk"]),
        ("worst from then on, if nothing more is published", risk["peak"]),
    ]
    yield table_html(
        "Risk under the promise, in nats, and by which factor it may change odds about a person",
        ("", "Risk (nats)", "Odds change by at most"),
        [(name, three_figures(x), odds_words(x)) for name, x in rows],
    )
    if earlier and risk["largest_used"] > 1 + ROUNDING:
        passed = (
            f"what was published since it was amended has brought the risk to {three_figures(risk['largest'])} nats"
        )
        more = (
            f"It allowed {three_figures(risk['limit'])} nats while it held: {passed}, {risk['largest_used']:.0%} of it."
        )
        yield _list([more], "open")
    else:
        yield f"<p>At most {risk['largest_used']:.1%} of the promise was in use at any step of the period.</p>"
    yield "<h3>What it leans on</h3>"
    yield _list(f"{a['assumes']} {_say_check(a['checked'])}".strip() for a in promise["assumptions"])


def _say_check(checked: object) -> str:
    return "" if checked is None else f"Checked: {_short(checked)}"


def _classically(rows: Sequence[JsonObject]) -> Iterator[str]:
    yield "<h2>Read classically, with nothing forgotten</h2>"
    if all("loss" in row for row in rows):
        at = f", at δ = {rows[0]['delta']:g}" if rows and "delta" in rows[0] else ""
        lines = [
            (row["within"], *(("unbounded", "-") if isinstance(row["loss"], str) else _loss(row["loss"])))
            for row in rows
        ]
        yield table_html(
            f"Total loss of all that was released up to the end of the period, about data within{at}",
            ("Data within", "Loss (nats)", "Odds change by at most"), lines,
        )  # fmt: skip
        return
    yield _list(
        f"{row['within']}: {row['why']}" if "why" in row
        else f"{row['within']}: " + ", ".join(f"{key} {_short(value)}" for key, value in row.items() if key != "within")
        for row in rows
    )  # fmt: skip


def _loss(loss: float) -> tuple[str, str]:
    return three_figures(loss), odds_words(loss)


def _stream(part: JsonObject) -> Iterator[str]:
    unit = f" {part['unit']}" if part["unit"] else ""
    again = ", published again from corrected data" if part.get("vintage") else ""
    yield f"<h3>{escape(visible(part['stream']))}: {escape(part['statistic'])}{again}</h3>"
    if part["steps"]:
        skipped = f", and {part['not_published']:,} were not published" if part["not_published"] else ""
        each = f"{part['numbers']:,} number{'s' if part['numbers'] != 1 else ''} each"
        stretch = f"from {_plain_time(part['from'])} to {_plain_time(part['to'])}{skipped}"
        band, repeated = part.get("error_band"), part.get("without_band", 0)
        bands = "" if band is None else f"{three_figures(band['least'])} to {three_figures(band['largest'])}{unit}"
        said = f" Half-width of the 95 % bands {bands}." if bands else ""
        said += (
            f" {repeated:,} of the steps have no band: they repeat the output before them, or a filter made them."
            if repeated
            else ""
        )
        noise = f" {part['plan']['noise'].capitalize()} noise." if part["plan"]["noise"] else ""
        text = f"{part['steps']:,} steps of {each}, {stretch}.{noise}{said}"
        yield f"<p>{escape(visible(text))}</p>"
    else:
        yield "<p>Nothing was published of it in the period.</p>"
    tail = part["plan"]["tail"]
    yield _list([*part["hidden"], *([] if tail in part["hidden"] else [f"Why it holds for ever: {tail}"])])


def _binding(content: JsonObject, signature: JsonObject | None) -> Iterator[str]:
    """What ties the certificate to a ledger, to outputs and to a key."""
    ledger, software = content["ledger"], content["software"]
    lines = [
        ("Newest hash of the ledger", ledger["head"]),
        ("First hash of the ledger: of the facts that it is held to", ledger["begun"]),
        ("Entries", f"{ledger['entries']:,}"),
        ("Newest committed", _plain_time(ledger["committed"])),
        *((f"SHA-256 of the rows of {visible(p['stream'])}", p["sha256"]) for p in content["published"] if p["steps"]),
        ("Software", ", ".join(f"{name} {number}" for name, number in software.items())),
    ]
    if signature:
        lines += [("Signed with", signature["algorithm"]), ("Public key", signature["public_key"])]
        lines += [("Signature", signature["value"])]
    items = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td style="text-align: left">{escape(str(value))}</td></tr>'
        for name, value in lines
    )
    yield "<h2>How to check it</h2>"
    yield (
        "<p>The certificate is the JSON file that this page was made with. <code>halflife verify certificate.json --policy "
        "policy.yaml</code> works all of it out again from the ledger; with <code>--output stream=file</code> it compares an "
        "output with it, for which no ledger is needed.</p>"
    )
    yield f'<table style="overflow-wrap: anywhere">{items}</table>'


def _list(texts: Iterator[str] | Sequence[str] | Any, look: str = "") -> str:
    items = "".join(f"<li>{escape(visible(str(text)))}</li>" for text in texts)
    return f"<ul{f' class={look!r}' if look else ''}>{items}</ul>" if items else ""


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}…"


def _plain_time(text: str) -> str:
    """A moment as people read it.

    >>> _plain_time("2026-01-31T13:30:00+00:00")
    '2026-01-31 13:30 (+00:00)'
    """
    date, rest = text.split("T", 1)
    return f"{date} {rest[:5]} ({rest[-6:]})"
