"""`certificate`, and the part of `verify` that is about one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--from", "start", metavar="TIME", help="Where the period begins: 2026-01-31, 2026-01-31T13:30, by the policy's "
              "clock.  [default: the first release]")  # fmt: skip
@click.option("--to", "end", metavar="TIME", help="Where it ends.  [default: the newest release]")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("certificate.json"), show_default=True,
              metavar="FILE", help="The certificate to write (.json).")  # fmt: skip
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Also write a page to read and to print (.html).")  # fmt: skip
@click.option("--key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Sign it with this private Ed25519 key (PEM). A passphrase is read from HALFLIFE_KEY_PASSPHRASE.")  # fmt: skip
def certificate(
    policy: Path, start: str | None, end: str | None, out: Path, page: Path | None, key: Path | None
) -> None:
    """Certify what a policy published in a period: what is not protected, the promise, risks, and what the ledger holds.

    The ledger and the outputs are verified first, and what does not verify is not certified: status 1. The certificate names the
    newest hash of the ledger and digests of all that was published, so that `halflife verify certificate.json` can check it
    against the ledger, or against the outputs alone, however much is published later. Everything in it is public.

    \b
    Example:
      halflife certificate policy.yaml --from 2026-01-01 --to 2026-07-01 --page certificate.html
      openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem
      halflife certificate policy.yaml --key key.pem
      halflife verify certificate.json --policy policy.yaml --public-key public.pem
    """
    from halflife.lab.views.certificate import write_certificate_page
    from halflife.publisher import certify
    from halflife.publisher.skipping import say_stretches

    for option, path, ending in (("--out", out, ".json"), ("--page", page, ".html")):
        if path is not None and path.suffix.lower() != ending:
            raise click.UsageError(
                f"{option} must end in {ending}, not {path.name}: another file might be written over"
            )
    with progress_bar(rate="steps") as show:
        made = certify(policy, start, end, key=key, progress=show)
    _write(out, json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    if page is not None:
        write_certificate_page(made, page)
    content = made["certificate"]
    for part in content["published"]:
        say(f"{part['stream']}: {part['steps']:,} steps published in the period")
    for name, runs in content.get("skipped", {}).items():
        say(f"{name}: skipped for good, as the source was out of reach: steps {say_stretches(runs)}")
    risk = content["promises"][0]["risk"]
    within = f"at most {risk['largest']:.6g} within it, {risk['largest_used']:.1%} of the promise"
    say(f"Risk at its end {risk['risk']:.6g} of {risk['limit']:g}, {within}")
    say(f"Certificate: {out}" + (f", page: {page}" if page else "") + (", signed" if key else ", not signed"))


def _write(out: Path, text: str) -> None:
    """Write a file whole or not at all."""
    from halflife.errors import InvalidInput

    beside = out.with_name(f".{out.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {out}: {error.strerror or error}: choose another file (--out)") from error


def verify_certificate(
    path: Path, policy: Path | None, outputs: dict[str, str], public_key: Path | None, as_json: bool
) -> None:
    """Check a certificate, say what was seen, and end with status 1 if anything is wrong."""
    from halflife.publisher import check_certificate

    with progress_bar(rate="steps") as show:
        verdict = check_certificate(path, policy, outputs, public_key=public_key, progress=show)
    if as_json:
        found = {
            "good": verdict.good,
            "problems": verdict.problems,
            "checked": verdict.checked,
            "signer": verdict.signer,
        }
        say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        for problem in verdict.problems:
            say(f"WRONG  {problem}")
        for sentence in verdict.checked:
            say(f"ok     {sentence}")
        if policy is None:
            say("The ledger was not looked at: give --policy to work everything out again.")
        count = len(verdict.problems)
        say("Nothing is wrong." if verdict.good else f"{count} problem{'s' if count > 1 else ''}.")
    if not verdict.good:
        raise SystemExit(1)
