"""The check of a certificate: its signature, and all that it says, worked out again from the ledger or compared with outputs."""

from __future__ import annotations

import codecs
import datetime
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, LedgerError, unknown
from halflife.ledger import open_ledger
from halflife.ledger.entry import split_vintage
from halflife.local_time import from_us, to_us
from halflife.numerics.forms import JsonObject, check_version
from halflife.numerics.progress import Progress
from halflife.outputs import read_rows_of
from halflife.parsing.documents import read_regular
from halflife.policy import GivenPolicy, Policy
from halflife.publisher.certificate.content import FORMAT, Period, find_batch, make_content, make_period
from halflife.publisher.certificate.rows import digest_cells, pack_rows
from halflife.publisher.certificate.signing import check_signature, read_public_key, write_canonical
from halflife.publisher.holding import hold_to_ledger, list_amendments
from halflife.publisher.verification import verify

LARGEST = 20_000_000
MOST_DIGITS = 19
ALIKE = 1e-9
"""Two machines find other last bits of an exponential: numbers that agree as closely as that are the same."""
UNAMENDED = ("period", "promises", "amendments", "ledger", "classically")
"""What a certificate says that no later amendment changes."""
WORDS = ("not_protected", "summary", "in_other_words", "assumptions", "hidden", "source", "tail")
"""What another version may say in other words."""


@dataclass(frozen=True)
class CertificateVerdict:
    """The result of `check_certificate`: nothing is wrong if `problems` is empty.

    checked  what was looked at, in sentences;  signer  the fingerprint of the key that signed it, None if it is not signed
    content  what the certificate says
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    signer: str | None
    content: JsonObject

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def is_certificate(path: Path) -> bool:
    """Return whether a file is a certificate, by its ending and its first key; else it may be a policy."""
    if path.suffix.lower() != ".json":
        return False
    try:
        begin = read_regular(path, 64)
    except OSError:
        return False
    return begin.removeprefix(codecs.BOM_UTF8).lstrip()[1:].lstrip().startswith(b'"certificate"')


def check_certificate(
    file: Path | str,
    policy: GivenPolicy | None = None,
    outputs: Mapping[str, str] | None = None,
    *,
    public_key: Path | str | None = None,
    clock: Callable[[], float] = time.time,
    progress: Progress = lambda what, done, total: None,
) -> CertificateVerdict:
    """Check a certificate: its signature, what it says against a policy's ledger, and its digests against outputs.

    policy      whose ledger and outputs are verified, and from whose ledger all that it says is worked out again
    outputs     files to compare with what it says was published (stream → file); no ledger is needed for that
    public_key  the file of the key that must have signed it
    """
    content, signature = read_certificate(Path(file))
    problems: list[str] = []
    checked: list[str] = []
    signer = _check_signer(content, signature, public_key, problems, checked)
    if policy is not None:
        _check_ledger(content, Policy.of(policy), int(clock()) * 1_000_000, problems, checked, progress)
    for stream, target in (outputs or {}).items():
        _check_output(content, stream, target, problems, checked)
    if not checked and not problems:
        raise InvalidInput(
            f"{file} is not signed, and there is nothing to compare it with: give the policy whose ledger it is of, or outputs"
        )
    return CertificateVerdict(tuple(problems), tuple(checked), signer, content)


def read_certificate(path: Path) -> tuple[JsonObject, object]:
    """Return a certificate's content and its signature, None if it has none; refuse what is none, or of a newer version."""
    wrong = f"{path} is no certificate of halflife"
    try:
        text = read_regular(path, LARGEST + 1)
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be read: {error.strerror or error}: give the path of a certificate"
        ) from None
    if len(text) > LARGEST:
        raise InvalidInput(f"{wrong}: it is larger than {LARGEST:,} bytes")
    try:
        data = json.loads(
            text.decode("utf-8-sig"),
            object_pairs_hook=_refuse_twice,
            parse_constant=_refuse_number,
            parse_int=_read_whole,
        )
        write_canonical(data)  # raises what no certificate holds: 1e999, half a character, lists without end
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidInput(f"{wrong}: it is not JSON ({type(error).__name__})") from None
    except ValueError as error:
        raise InvalidInput(f"{wrong}: {error}: it is not as halflife wrote it") from None
    content = data.get("certificate") if isinstance(data, dict) else None
    form = content.get("format") if isinstance(content, dict) else None
    if not isinstance(form, dict) or form.get("name") != FORMAT["name"] or set(data) - {"certificate", "signature"}:
        raise InvalidInput(f"{wrong}: `halflife certificate` writes one")
    check_version("a certificate", form)
    assert isinstance(content, dict)
    return content, data.get("signature")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidInput("a key stands twice in it")
    return found


def _refuse_number(text: str) -> float:
    raise InvalidInput(f"{text[:MOST_DIGITS]} is no number that a certificate holds")


def _read_whole(text: str) -> float:
    return int(text) if len(text) <= MOST_DIGITS else _refuse_number(text)


# Signature --------------------------------------------------------------------------------------------------------------


def _check_signer(
    content: JsonObject, signature: object, public_key: Path | str | None, problems: list[str], checked: list[str]
) -> str | None:
    wanted = None if public_key is None else read_public_key(Path(public_key))
    if signature is None:
        if wanted is not None:
            problems.append(f"it is not signed, and must be by the key {wanted}")
        return None
    signer = check_signature(content, signature)
    if signer is None:
        problems.append(
            "its signature does not hold: what it says was changed after it was signed, or by somebody else"
        )
    elif wanted not in (None, signer):
        problems.append(f"it is signed by the key {signer}, not by {wanted}")
    else:
        whose = "that was given" if wanted else "of its own: whose that is, only the signer can tell you (--public-key)"
        checked.append(f"its signature holds, by the key {signer}, {whose}")
    return signer


# Ledger -----------------------------------------------------------------------------------------------------------------


def _check_ledger(
    content: JsonObject, policy: Policy, now_us: int, problems: list[str], checked: list[str], progress: Progress
) -> None:
    """Verify ledger and outputs, and work out again what the certificate says from the entries that it is about."""
    verdict = verify(policy, progress=progress)
    problems += verdict.problems
    if not verdict.good:
        return
    with open_ledger(policy.ledger_url, read_only=True) as book, book.snapshot(None):
        policy = hold_to_ledger(book, policy)
        try:
            head = str(content["ledger"]["head"])
            batch, period = find_batch(book, head), _read_period(content, policy)
        except (KeyError, TypeError, ValueError, OverflowError):
            problems.append(
                "it lacks the hash of a ledger, or its period cannot be read: it is not as halflife wrote it"
            )
            return
        if period.end_us > now_us:
            problems.append("its period is not over: what is still to come cannot be certified")
            return
        if batch is None:
            problems.append(
                f"{book.name} has no batch of the hash that it names: it is of another ledger, or of one that was rewritten since"
            )
            return
        try:
            amended = len(list_amendments(book, batch)) < len(list_amendments(book))
            again = make_content(policy, book, batch, period, progress)
            book.check_unwritten()
        except LedgerError as error:
            problems.append(str(error))
            return
    said = {key: value for key, value in content.items() if key not in ("made", "format")}
    same = said.get("software") == again["software"]
    if not same or amended:
        said, again = _leave_words_out(said), _leave_words_out(again)
    if amended:
        said, again = ({key: x[key] for key in UNAMENDED if key in x} for x in (said, again))
    differ = [f"{where}: it says {_show(a)}, and the ledger {_show(b)}" for where, a, b in _compare(said, again)]
    problems += differ
    other = "" if same else f"; its words are of another version than {version('halflife')}, and were not compared"
    if amended:
        other = "; the ledger was amended since: what depends on the policy was not compared"
    agrees = "" if differ else f", and all that it says, worked out again, agrees{other}"
    checked.append(f"the ledger and its outputs verify{agrees}")


def _read_period(content: JsonObject, policy: Policy) -> Period:
    start, end = (to_us(datetime.datetime.fromisoformat(content["period"][name])) for name in ("from", "to"))
    for us in (start, end):
        from_us(us, policy.clock.zone)  # raises what no calendar holds
    return make_period(policy, start, end)


def _leave_words_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _leave_words_out(part) for k, part in value.items() if k not in (*WORDS, "software")}
    return [_leave_words_out(part) for part in value] if isinstance(value, list) else value


def _compare(said: Any, found: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where what a certificate says differs from what was found, and both; what one of them lacks is null.

    >>> list(_compare({"size": 5, "risk": 0.5}, {"size": 6, "risk": 0.5 + 1e-12}))
    [('size', 5, 6)]
    """
    if isinstance(said, dict) and isinstance(found, dict):
        for key in sorted({*said, *found}):
            place = f"{where}.{key}" if where else key
            if key in said and key in found:
                yield from _compare(said[key], found[key], place)
            else:
                yield place, said.get(key), found.get(key)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for i, (a, b) in enumerate(zip(said, found, strict=True)):
            yield from _compare(a, b, f"{where}.{i}")
    elif isinstance(found, float) and _is_number(said):
        if not math.isclose(said, found, rel_tol=ALIKE):
            yield where, said, found
    elif said != found or (type(said) is not type(found) and not _is_number(said)):
        yield where, said, found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


# Outputs ----------------------------------------------------------------------------------------------------------------


def _check_output(content: JsonObject, stream: str, target: str, problems: list[str], checked: list[str]) -> None:
    """Compare the rows of a file with the digest of what was published in a stream."""
    told = _find_published(content, stream)
    if told is None:
        problems.append(f"it does not say what was published of {stream}: it is not as halflife wrote it")
        return
    if not told["steps"]:
        problems.append(f"{target}: it says that nothing was published of {stream}")
        return
    first, last, digest = told["first_step"], told["last_step"], told["sha256"]
    frame = read_rows_of(target, split_vintage(stream)[0]).frame
    steps = frame["step"].to_numpy()
    frame = frame.filter((steps >= first) & (steps <= last))
    names = [name for name in ("group", "bin_low", "bin_high", "quantile") if name in frame.column_names]
    labels = list(zip(*(frame[name].to_pylist() for name in names), strict=True)) if names else [()] * len(frame)
    known_cells = list(dict.fromkeys(labels))
    places = {label: i for i, label in enumerate(known_cells)}
    cells = digest_cells(names, known_cells)[[places[label] for label in labels]]
    starts, ends = (frame[name].cast("int64").to_numpy() for name in ("start", "end"))
    rows = pack_rows(cells, frame["step"], starts, ends, frame["value"], frame["error_band"])
    steps = np.unique(frame["step"].to_numpy()).tolist()
    steps_found, steps_said = (steps[:1], steps[-1:], len(steps)), ([first], [last], told["steps"])
    if hashlib.sha256(rows).hexdigest() != digest or steps_found != steps_said:
        problems.append(
            f"{target}: its rows of steps {first:,} to {last:,} are not those that the certificate is about"
        )
    else:
        checked.append(f"{target}: its rows of steps {first:,} to {last:,} are those that the certificate is about")


def _find_published(content: JsonObject, stream: str) -> JsonObject | None:
    """What a certificate says of a stream, None if that is not as it should be; refuse a stream that it does not name."""
    parts = content.get("published")
    told = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    known = {part["stream"]: part for part in told if isinstance(part.get("stream"), str)}
    if not known:
        return None
    if stream not in known:
        raise unknown("stream", stream, known)
    part = known[stream]
    numbers = [part.get(name) for name in ("steps", "first_step", "last_step")]
    sound = numbers[0] == 0 or (all(type(x) is int for x in numbers) and isinstance(part.get("sha256"), str))
    return part if sound else None
