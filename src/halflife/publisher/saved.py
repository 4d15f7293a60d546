"""What a ledger keeps beside its entries: account, kept noise, and the states of mechanisms and post-processing.

`publish` goes on from it, and `verify` shows that it can be gone on from. Some of it is secret, and sealed: to publish, the key
must be at hand; to look, it need not. Errors quote nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from halflife.accountant import Accountant
from halflife.errors import HalflifeError, InvalidInput, LedgerError
from halflife.ledger import Entry, Ledger
from halflife.ledger.entry import first_link
from halflife.mechanisms import ReleaseDraw
from halflife.numerics.forms import JsonObject, read_form
from halflife.outputs import Digests
from halflife.policy import Policy, channels, rules
from halflife.postprocessing.chains import Record, add_chain, dump_chains, load_chains
from halflife.postprocessing.reconcile.rules import RuleRecord, add_rule, dump_rules, load_rules
from halflife.publisher.restores import find_done
from halflife.publisher.secrets_at_rest import NoiseKey, NoiseKeys
from halflife.publisher.secrets_at_rest.kept import VERSION, Kept, open_kept, read_kept, seal_kept

LATEST_STEP = 2**53
"""No clock reaches this step of an account, however narrow a step is: differences of steps are kept as 64-bit numbers."""

UNREADABLE = (HalflifeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a damaged state may raise. Such errors may quote the state, which may be secret, so they are not passed on."""


class SavedStates:
    """The states of a ledger, restored for a policy; refused if they are not this policy's.

    draw        the account, with the noise that is used again;  owners  which stream uses which name of it
    mechanisms, smoothers, chains   by stream; `chains` says from which step on which post-processing held
    done        up to which step each stream is published, or passed over: by a restore, or as the ledger began without it
    rules       by the stream of the total: from which step on it was reconciled with which parts
    destroyed   by stream that is over, the names of the noise that it had
    key         what kept noise is sealed with, None as long as there is none, or it was not asked for
    keys        where keys are found; None to look alone: then the numbers of kept noise are not at hand
    """

    def __init__(self, policy: Policy, book: Ledger, keys: NoiseKeys | None = None) -> None:
        self._policy, self._channels = policy, channels(policy)
        self._book, self._keys, self._ledger = book, keys, first_link(book.begun())
        self.key: NoiseKey | None = None
        self.destroyed: dict[str, tuple[str, ...]] = {}
        self._lies_open = False
        self._attachment = policy.notion.attachment()
        self._kept: str | None = None
        self.done = find_done(book, self._channels)
        self.owners: dict[str, str] = {}
        self.chains: dict[str, Record] = {}
        self.rules: dict[str, RuleRecord] = {}
        readable = True
        try:
            self._restore(book, book.states())
        except LedgerError:
            raise
        except UNREADABLE:
            readable = False
        if not readable:  # raised here, so that it does not carry the error that may quote a state
            raise LedgerError(
                f"{book.name}: its saved states are not those of this policy's account, mechanisms and smoothers: put a whole "
                "copy back, the newest one"
            )

    def _restore(self, book: Ledger, states: Mapping[str, str]) -> None:
        if "account" not in states and any(self.done.values()):
            raise LedgerError(f"{book.name}: has entries and no account: put a whole copy back, the newest one")
        self._kept = states.get("attachment")
        self.draw = ReleaseDraw(self._read_account(book, states.get("account")))
        if self.draw.account.step > LATEST_STEP:
            raise InvalidInput("the account is at a step that no clock reaches")
        self.smoothers = {c.name: c.smoothers() for c in self._channels}
        self.mechanisms = {c.name: c.make_mechanism() for c in self._channels}
        for name in self.mechanisms:
            self._restore_stream(name, json.loads(states.get(f"stream:{name}", "{}")), states.get(f"post:{name}"))
        self._restore_rules(states)
        if missing := self.draw.account.draws_at(self.draw.account.step) - set(self.owners):
            raise InvalidInput(f"{len(missing)} names of noise that is used again have no noise")

    def _restore_stream(self, name: str, saved: object, chains: str | None) -> None:
        defaults: JsonObject = {"smoothers": [], "mechanism": None, "noise": {}, "sealed": None, "destroyed": []}
        state = read_form("the state of a stream", saved, (), VERSION, **defaults)
        known = () if chains is None else load_chains(chains)
        self.chains[name] = add_chain(known, self.smoothers[name], self.done[name] + 1)
        if self.chains[name] is known:  # else a new chain begins, and what the old one has seen is not its own
            for smoother, seen in zip(self.smoothers[name], state["smoothers"], strict=bool(known)):
                smoother.restore(seen)
        if saved:
            self._restore_kept(name, read_kept(state))

    def _restore_kept(self, name: str, kept: Kept) -> None:
        """Go on with a stream's kept noise and its mechanism's state, as far as they are at hand."""
        self.note_owner(name, (*kept.noise, *kept.destroyed))
        self._lies_open = self._lies_open or kept.lies_open
        if kept.destroyed:
            self.destroyed[name] = kept.destroyed
            if self._keys is not None and not self._is_over(name, {}):
                raise LedgerError(
                    f"{self._book.name}: the noise of {name} was destroyed when its last step was published, and a later end "
                    "would need it again: begin a new stream of another name, whose patterns are paid for anew"
                )
            return
        if kept.key is not None and self._keys is not None:
            self.key, _ = self._keys.find(kept.key)
            try:
                kept = open_kept(self.key, self._ledger, name, kept)
            except LedgerError as error:
                raise LedgerError(
                    f"{self._book.name}: stream {name}: {error}. Nothing was drawn or published: put a whole copy back, the "
                    "newest one"
                ) from None
        if kept.key is None or self._keys is not None:
            self.mechanisms[name].restore(kept.mechanism)
        self.draw.restore(kept.noise)

    def _restore_rules(self, states: Mapping[str, str]) -> None:
        asked = {rule.total: rule for rule in rules(self._policy) if not rule.over_time}
        for name in self.done:
            text, rule = states.get(f"reconcile:{name}"), asked.get(name)
            known = () if text is None else load_rules(name, text)
            newest = max(self.done[name], self.done[rule.parts] if rule else 0)
            self.rules[name] = add_rule(known, rule, newest + 1)

    def _read_account(self, book: Ledger, saved: str | None) -> Accountant:
        """Return the account as the ledger has it, under the policy's promise, which may add to what is not yet published."""
        notion = self._policy.notion
        if saved is None:
            return Accountant(notion)
        if self._kept is not None and self._kept == self._attachment:
            return Accountant.from_json(saved, notion=notion)
        account = Accountant.from_json(saved, self._kept)
        if account.notion == notion:
            return account
        try:
            self._channels[0].promise.check_extension()
            return account.with_notion(notion, self._newest_data_time())
        except InvalidInput as error:
            raise LedgerError(f"{book.name}: {error}") from error

    def _newest_data_time(self) -> int:
        """Return the newest step of the account about which anything was published; 0 if nothing was."""
        done = ((c, self.done[c.name]) for c in self._channels)
        return max((int(c.release_steps(k, k)[0]) - c.age for c, k in done if k), default=0)

    def note_owner(self, stream: str, names: Iterable[str]) -> None:
        """Record which stream uses these names of noise; refuse a name that two streams would share."""
        for name in names:
            if self.owners.setdefault(name, stream) != stream:
                raise InvalidInput(
                    f"the noise {name!r} of {self.owners[name]} is asked for by {stream}: a mechanism must give every stream "
                    "noise of its own name"
                )

    def prepare_key(self, draw: ReleaseDraw) -> None:
        """Refuse, before anything is read, if noise is to be kept, and there is no key for it and none can be made."""
        if draw.names and self.key is None and self._keys is not None:
            self._keys.check()

    def commit(
        self,
        entries: Sequence[Entry],
        draw: ReleaseDraw,
        at_us: int,
        event: str | None = None,
        reached: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Commit entries, or an event, with the states that go with what was drawn, and go on from there.

        reached  the newest step of streams that go on without an entry: an event passes steps over

        Noise that lay open in an older ledger is sealed now, and that of streams that end now destroyed; then nothing of it is
        left in the ledger's files.
        """
        known = dict(self.destroyed)
        states = self.write(draw, {**reached, **{entry.stream: entry.step for entry in entries}})
        if self._lies_open:  # what was deleted before is gone for good, before that which lies open is deleted too
            self._book.erase_deleted()
        self._book.commit(entries, states, at_us, event)
        if self._lies_open or self.destroyed != known:
            self._book.erase_deleted()
            self._lies_open = False
        self.draw, self._kept = draw, states.get("attachment", self._kept)

    def change_key(self, key: NoiseKey, at_us: int, event: str) -> None:
        """Seal all kept noise with another key, and leave nothing of it under the old one; `event` says so in the chain."""
        self.key = key
        self.commit([], self.draw, at_us, event)
        self._book.erase_deleted()

    def write(self, draw: ReleaseDraw, reached: Mapping[str, int] = MappingProxyType({})) -> dict[str, str]:
        """Return the states to be kept with what was drawn; the promise's attachment only when it has changed.

        reached  the newest step of streams that have gone on since they were loaded
        """
        states = {"account": draw.account.to_json(short=True)}
        if self._policy.members.by_date:
            states["members"] = self._policy.members.dump()
        if self._attachment is not None and self._attachment != self._kept:
            states["attachment"] = self._attachment
        noise = draw.state()
        for name, mechanism in self.mechanisms.items():
            state: JsonObject = {"version": 1, "smoothers": [s.state() for s in self.smoothers[name]]}
            mine = {k: v for k, v in noise.items() if self.owners[k] == name}
            if self._is_over(name, reached) and (mine or name in self.destroyed):
                self.destroyed[name] = tuple(sorted({*mine, *self.destroyed.get(name, ())}))
                state |= {"version": VERSION, "destroyed": list(self.destroyed[name])}
            elif mine:
                state |= {
                    "version": VERSION,
                    **seal_kept(self._find_key(), self._ledger, name, mine, mechanism.state()),
                }
            elif mechanism.state() is not None:
                state |= {"mechanism": mechanism.state(), "noise": {}}
            if len(state) > 2 or self.chains[name]:
                states[f"stream:{name}"] = json.dumps(state)
            if self.chains[name]:
                states[f"post:{name}"] = dump_chains(self.chains[name])
            if self.rules[name]:
                states[f"reconcile:{name}"] = dump_rules(self.rules[name])
        return states

    def _is_over(self, name: str, reached: Mapping[str, int]) -> bool:
        """Whether a stream's last step is published, so that its noise is never used again."""
        last = next(c.last for c in self._channels if c.name == name)
        return last is not None and max(self.done[name], reached.get(name, 0)) >= last

    def _find_key(self) -> NoiseKey:
        """The key that kept noise is sealed with; found or made when it is first needed."""
        if self.key is None:
            assert self._keys is not None  # who only looks writes nothing
            self.key = self._keys.choose()
        return self.key


def stream_digests(book: Ledger, stream: str) -> Digests:
    """Return where the digests of a stream's files are kept."""
    return Digests(partial(book.mark_written, stream), partial(book.digests, stream))
