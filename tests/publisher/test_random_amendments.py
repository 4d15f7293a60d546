"""Random amendments of random policies: whatever is accepted, everything that is planned afterwards fits, and verifies."""

import copy
import datetime
import random

import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.policy import Policy

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PROMISES = (
    {"notion": "w-event", "epsilon": 1.0, "w": 6},
    {"notion": "exponential", "epsilon": 1.0, "half_life": 6},
    {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.5},
    {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "half_life": 6},
    {"notion": "classical", "epsilon": 1.0},
)
CHANGES = ("shares", "add", "end", "epsilon", "window", "horizon", "replace")


class Town:
    """A policy that changes at random, and the hour up to which it is published."""

    def __init__(self, folder, seed):
        self.folder, self.draw, self.now, self.names = folder, random.Random(seed), 0, 0
        (folder / "r.csv").write_text("home,time\na,2026-01-01T00:30:00\n")
        late = self.draw.choice(["as-planned"] * 4 + ["now"])
        self.data = {
            "population": {"id": "town", "size": 5, "person": "home"}, "promise": dict(PROMISES[seed % len(PROMISES)]),
            "clock": {"step": "1 h", "start": "2026-01-01", "late": late}, "ledger": "town.ledger", "streams": [],
        }  # fmt: skip
        if self.data["promise"]["notion"] == "classical" and self.draw.random() < 0.5:
            self.data["clock"]["end"] = self._end(120)
        self.data["streams"] = [self._stream() for _ in range(self.draw.randint(1, 3))]
        self._share()

    def _end(self, hours):
        return (START + datetime.timedelta(hours=hours)).isoformat()

    def _stream(self):
        self.names += 1
        step = self.draw.choice([{}, {}, {"step": "2 h"}, {"step": "3 h"}, {"step": "6 h"}])
        source = {"files": "r.csv", "time": "time"}
        return {
            "name": f"s{self.names}", "share": 0.1, "source": source, "statistic": {"kind": "count"}, **step,
            "output": f"s{self.names}.csv",
        }  # fmt: skip

    def _share(self):
        parts = [self.draw.randint(1, 5) for _ in self.data["streams"]]
        total = sum(parts) + self.draw.choice([0, 0, 2])
        for stream, part in zip(self.data["streams"], parts, strict=True):
            stream["share"] = int(1000 * part / total) / 1000

    def policy(self):
        return Policy.from_dict(self.data, self.folder)

    def change(self):
        """Change the policy in one or two ways."""
        streams, promise = self.data["streams"], self.data["promise"]
        for what in self.draw.sample(CHANGES, self.draw.randint(1, 2)):
            if what in ("end", "replace") and len(streams) > (what == "end"):
                gone = streams.pop(self.draw.randrange(len(streams)))
                if what == "replace":
                    streams.append({**self._stream(), "share": gone["share"]})
            if what == "add":
                streams.append(self._stream())
            if what in ("add", "shares"):
                self._share()
            if what == "epsilon":
                promise["epsilon"] = self.draw.choice([0.5, 1.0, 1.5, 3.0])
            if what == "window" and "w" in promise:
                promise["w"] = self.draw.choice([3, 6, 12, 24])
            if what == "horizon" and "end" in self.data["clock"]:
                self.data["clock"]["end"] = self._end(self.draw.choice([60, 90, 120, 240]))

    def amend(self, **options):
        """Amend, at the time that there is room if not now; return whether it was accepted."""
        try:
            hl.amend(self.policy(), "random", by="a test", weaken=True, clock=self._clock(self.now), **options)
        except HalflifeError as error:
            if "--begin '" in str(error) and not options:
                return self.amend(begin=str(error).split("--begin '")[1].split("'")[0])
            return False
        return True

    def _clock(self, hour):
        return lambda: START.timestamp() + 3600 * hour

    def publish(self, hours):
        """Publish so many hours more: nothing may be refused for lack of room, and nothing passed over."""
        end = self.now + hours
        for hour in range(self.now + 1, end + 1) if self.data["clock"]["late"] == "now" else (end,):
            assert hl.publish(self.policy(), clock=self._clock(hour)).passed_over == 0
        self.now = end


def run_town(folder, seed):
    """Publish, and amend and publish again some times; return how many amendments were accepted."""
    folder.mkdir()
    town, accepted = Town(folder, seed), 0
    try:
        town.policy()
    except HalflifeError:  # steps too wide for such a window
        return 0
    town.publish(town.draw.randint(6, 30))
    for _ in range(3):
        before = copy.deepcopy(town.data)
        town.change()
        try:
            accepted += town.amend()
            town.policy()
        except hl.PolicyError:  # what was refused may be a policy that cannot be loaded at all
            town.data = before
            continue
        if hl.verify(town.policy()).problems:
            town.data = before
        town.publish(town.draw.choice([3, 9, 40]))
    assert hl.verify(town.policy()).problems == ()
    return accepted


def test_what_is_planned_after_an_accepted_amendment_fits(tmp_path):
    assert sum(run_town(tmp_path / str(seed), seed) for seed in range(10)) >= 5


@pytest.mark.soak
def test_what_is_planned_after_many_accepted_amendments_fits(tmp_path, time_left):
    accepted = seed = 0
    while accepted < 200 or time_left():
        accepted, seed = accepted + run_town(tmp_path / str(seed), seed), seed + 1
