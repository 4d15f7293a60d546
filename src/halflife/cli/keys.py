"""`key`: keys to noise that a ledger keeps to be used again."""

from __future__ import annotations

from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import say


@main.group()
def key() -> None:
    """Keys to the noise that a ledger keeps to be used again (almost-periodic promises). No command ever prints a key.

    A key is looked for in HALFLIFE_NOISE_KEY, in the file that HALFLIFE_NOISE_KEY_FILE names, where the policy says (noise_key:),
    and in the folder halflife/keys of the user's configuration, where the first publish makes one if nothing else is said.

    \b
    Example:
      halflife key create /etc/halflife/town.key
      halflife key show policy.yaml
      halflife key rotate policy.yaml
    """


@key.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def create(path: Path) -> None:
    """Make a key in a new file that its owner alone can read.

    \b
    Example:
      halflife key create /etc/halflife/town.key
    """
    from halflife.publisher.secrets_at_rest import make_key_file

    made = make_key_file(path)
    say(f"Key {made.id}: {path}")
    say(
        f"Name it in the policy (noise_key: file:{path}), or in HALFLIFE_NOISE_KEY_FILE; back it up apart from the ledger."
    )


@key.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
def show(policy: Path) -> None:
    """Say by its fingerprint which key a policy's ledger is sealed with, and where it was found; status 1 if it is not at hand.

    \b
    Example:
      halflife key show policy.yaml
    """
    from halflife.publisher.secrets_at_rest.rotation import find_noise_key

    found = find_noise_key(policy)
    if found.id is None:
        say(
            "Nothing is sealed in this ledger: it keeps no noise to be used again, or was written before that was sealed."
        )
        return
    if found.found is None:
        raise click.ClickException(found.why_not or "")
    say(f"Sealed with the key {found.id}, found in {found.found}")


@key.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--wait", type=float, default=10.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process that holds the ledger.")  # fmt: skip
def rotate(policy: Path, wait: float) -> None:
    """Seal all that a policy's ledger keeps with a new key; the change stands in the ledger's chain. The old key is not deleted.

    The new key is made where the old one was named: before it in the file, or in the user's folder of keys. In an environment
    variable or a keyring put the new key before the old one first, apart by a blank.

    \b
    Example:
      halflife key rotate policy.yaml
    """
    from halflife.publisher.secrets_at_rest.rotation import rotate_noise_key

    done = rotate_noise_key(policy, wait=wait)
    say(
        f"Sealed with the key {done.now}"
        + (f", no longer with {done.before}" if done.before else "; before, it lay open")
    )
    say(
        "Copies of the ledger from before still open with the old key, which was not deleted: delete it when they are gone."
    )
