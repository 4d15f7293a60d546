"""The JSON Schema of certificates, for programs that read them: `docs/certificate.schema.json` holds it.

Run as a program it prints the schema.
"""

from __future__ import annotations

import json

from halflife.numerics.forms import JsonObject
from halflife.publisher.certificate.content import FORMAT

TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"type": "array", "items": TEXT}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
NUMBER: JsonObject = {"type": "number"}
LOSS: JsonObject = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "unbounded"}]}
TIME: JsonObject = {"type": "string", "format": "date-time"}
HASH: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def make_object(about: str, optional: tuple[str, ...] = (), **keys: JsonObject) -> JsonObject:
    """Return the schema of an object with these keys and no others; `_from` stands for from.

    >>> make_object("a point", x=NUMBER)["required"]
    ['x']
    """
    known = {key.removeprefix("_"): value for key, value in keys.items()}
    required = [key for key in known if key not in optional]
    return {
        "type": "object",
        "description": about,
        "properties": known,
        "required": required,
        "additionalProperties": False,
    }


def certificate_schema() -> JsonObject:
    """Return the JSON Schema of a certificate."""
    risk = make_object(
        "Risk in nats at the last step of the period (step, risk), its peak from then on if nothing more is published, the "
        "largest in the period, what is promised at most at that last step, the share of the promise in use, and the largest "
        "share in the period.",
        step=COUNT, risk=NUMBER, peak=NUMBER, largest=NUMBER, limit=NUMBER, used=NUMBER, largest_used=NUMBER,
    )  # fmt: skip
    promise = make_object(
        "The promise, what it leans on, and the risk under it.",
        notion={"type": "object", "required": ["name"], "description": "The notion of privacy and its parameters."},
        summary=TEXT,
        in_other_words=TEXTS,
        assumptions={"type": "array", "items": make_object("", assumes=TEXT, checked={"description": "If it was checked, how."})},
        risk=risk,
    )  # fmt: skip
    published = make_object(
        "What a stream published in the period; of one that published nothing, steps is 0 and its numbers are left out.",
        ("vintage", "first_step", "last_step", "not_published", "from", "to", "error_band", "without_band", "sha256"),
        stream=TEXT, vintage=COUNT | {"description": "Of steps that were published again, as stream@vintage: from 2 on."},
        statistic=TEXT, unit=TEXT, numbers=COUNT, hidden=TEXTS,
        plan=make_object("Why its noise keeps the promise.", method=TEXT, noise=TEXT, source=TEXT, tail=TEXT),
        steps=COUNT, first_step=COUNT, last_step=COUNT, not_published=COUNT, _from=TIME, to=TIME,
        error_band=make_object("Half-widths of the 95 % bands, in the unit.", least=NUMBER, largest=NUMBER),
        without_band=COUNT
        | {"description": "How many of the steps have no band: they repeat the output before them, or a filter made them."},
        sha256=HASH | {"description": "Of all rows of its output from first_step to last_step."},
    )  # fmt: skip
    amendment = make_object(
        "A change of what the ledger is held to, from which step of each stream on.",
        at=TIME, by=TEXT, reason=TEXT, changes=TEXTS, weakens={"type": "boolean"},
        from_steps={"type": "object", "additionalProperties": COUNT},
    )  # fmt: skip
    stretch = {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}
    restore = make_object(
        "A restore of the ledger from an older copy: which steps of each stream, first and last, were published, "
        "count in every risk, and are lost.",
        at=TIME, by=TEXT, reason=TEXT,
        passed_over={"type": "object", "additionalProperties": stretch},
    )  # fmt: skip
    content = make_object(
        "What is certified, first what is not protected.",
        ("restores", "skipped"),
        not_protected=TEXTS,
        population=make_object("About whom.", id=TEXT, size=COUNT, neighbours=TEXT),
        period=make_object("What ended within it.", _from=TIME, to=TIME, zone=TEXT, first_step=COUNT, last_step=COUNT),
        promises={
            "type": "array",
            "minItems": 1,
            "items": promise,
            "description": "Every promise ever made, the newest first; risks are of all that was published, whichever held then.",
        },
        amendments={"type": "array", "items": amendment},
        restores={"type": "array", "items": restore},
        skipped={
            "type": "object",
            "description": "By stream, first and last of the steps of which nothing was read, drawn or published, nor ever will "
            "be, as their source was out of reach when they were closed.",
            "additionalProperties": {"type": "array", "items": stretch},
        },
        classically={
            "type": "array",
            "description": "Read with nothing forgotten: the worst total loss about data within a stretch, of all that was "
            "released up to the end of the period; where losses do not add up to that, what the plans say.",
            "items": {"type": "object", "required": ["within"], "properties": {"within": TEXT, "loss": LOSS, "delta": NUMBER}},
        },
        published={"type": "array", "items": published},
        ledger=make_object("Which ledger: hashes of its chain.", begun=HASH, head=HASH, entries=COUNT, committed=TIME),
        software={"type": "object", "additionalProperties": TEXT},
        made=TIME,
        format={"const": FORMAT},
    )  # fmt: skip
    signature = make_object(
        "Over the content as JSON with its keys in order, without blanks, whole numbers without a point, in UTF-8.",
        algorithm={"const": "Ed25519"}, public_key=TEXT, value=TEXT,
    )  # fmt: skip
    whole = make_object("A certificate of halflife.", ("signature",), certificate=content, signature=signature)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT["name"], **whole}


if __name__ == "__main__":
    print(json.dumps(certificate_schema(), indent=2, ensure_ascii=False))
