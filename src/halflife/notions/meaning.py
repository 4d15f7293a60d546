"""What a notion's parameters mean to a policy: numbers, steps that may be written as a time, text, processes, secrets."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, Literal

Meaning = Literal[
    "number", "steps", "whole steps", "text", "truth", "process", "specifications", "notion", "clock", "rules"
]


def means(meaning: Meaning) -> dict[str, Meaning]:
    """Return the metadata of a notion's parameter that is not a plain number, so that a policy knows how to read it.

    steps, whole steps  may be written as a time, such as `1 day`
    text, truth  a word; yes or no
    process, specifications, notion  a mapping, which the notion's adapter in `policy/promises/` reads
    clock  the account's steps, which no policy writes with a promise
    rules  by which version's rules losses add up: those of the ledger, if there is one, else the newest
    """
    return {"meaning": meaning}


def meaning_of(parameter: Field[Any]) -> Meaning:
    """Return what a parameter of a notion means: a number if nothing else is said."""
    meaning: Meaning = parameter.metadata.get("meaning", "number")
    return meaning
