"""What `admit` costs early and late in a stream, beside OpenDP's privacy filter and diffprivlib's accountant; what secrets
cost under each interpretation; and what a second almost-periodic stream costs; and what an optimal plan costs a later run."""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
import types

from rich.console import Console
from rich.table import Table

import halflife as hl
from bench.results import Finding
from bench.secrets import admit_rates, drawn
from halflife.mechanisms import ReleaseDraw, Turn
from halflife.mechanisms.reused import ReusedNoise
from halflife.plans.solutions import Solutions

LATE = 10**6
AGED = 10**5
BATCH = 2000
SECRETS = 20_000
PERIODIC = 1008


def rate(admit, releases) -> float:
    """Return calls a second: the best of four parts, as other work on the machine only ever slows one down."""
    part, best = max(1, len(releases) // 4), 0.0
    for first in range(0, len(releases), part):
        start = time.perf_counter()
        for release in releases[first : first + part]:
            admit(release)
        best = max(best, part / (time.perf_counter() - start))
    return best


def ours(notion: hl.Notion, last: int = LATE) -> tuple[float, float, int]:
    """Admits a second at step 10³ and at the last of one stream, and how large the account is at the end."""
    account = hl.Accountant(notion)
    noise = notion.noises[0]

    def releases(first: int, count: int) -> list[hl.Release]:
        return [hl.Release(k, 1e-9, noise=noise) for k in range(first, first + count)]

    account.admit(*releases(1, 1000))
    early = rate(account.admit, releases(1001, BATCH))
    for first in range(1001 + BATCH, last, 50_000):
        account.admit(*releases(first, min(50_000, last - first)))
    late = rate(account.admit, releases(last, BATCH))
    return early, late, len(account.to_json())


def opendp_filter(count: int) -> tuple[float, float]:
    """Queries a second of OpenDP's sequential composition filter: the first and the last hundred of `count`."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    query = dp.m.make_laplace(*space, scale=1e9)
    odometer = dp.c.make_fully_adaptive_composition(*space, output_measure=dp.max_divergence())
    queryable = dp.c.make_privacy_filter(odometer, d_in=1.0, d_out=1.0)(0.0)
    first = rate(queryable, [query] * 100)
    for _ in range(count - 200):
        queryable(query)
    return first, rate(queryable, [query] * 100)


def diffprivlib_accountant(count: int) -> tuple[float, float]:
    """Spends a second of diffprivlib's accountant: the first and the last hundred of `count`."""
    # its models do not import beside a new scikit-learn, and only its accountant is measured
    sys.modules.setdefault("diffprivlib.models", types.ModuleType("diffprivlib.models"))
    from diffprivlib.accountant import BudgetAccountant

    account = BudgetAccountant(1.0, 0.0)

    def spend(_):
        account.check(1e-9, 0.0)
        account.spend(1e-9, 0.0)

    first = rate(spend, range(100))
    for i in range(count - 200):
        spend(i)
    return first, rate(spend, range(100))


def secrets() -> list[Finding]:
    """A late step of an account of so many secrets, all events of a household at once beside one window."""
    s, findings = drawn(SECRETS), []
    window = min(1 / rate for rate in admit_rates(hl.Swellfish(s)))
    for label, notion in (
        ("pure", hl.Swellfish(s, neighbours="all-events")),
        ("Gaussian", hl.Swellfish(s, 1e-9, neighbours="all-events", noise="gaussian")),
    ):
        step = min(1 / rate for rate in admit_rates(notion))
        work = f"Swellfish, {SECRETS:,} secrets, all-events, {label}: a step"
        goal = "at most 10 ms" if label == "pure" else ""
        findings.append(Finding(work, 1e3 * step, "ms", step / window, "one-window, pure", goal))
    return findings


def periodic(streams: int, period: int, strong: bool) -> float:
    """Seconds of charging so many steps of so many streams with reused noise, which is named and not drawn."""
    shares = {"variation_sensitivity": 1.0} if strong else {}
    plan = hl.AlmostPeriodic(1.0, period, strong).plan(1.0, **shares)
    account = hl.Accountant(hl.AlmostPeriodic(streams + 0.1, period, strong))
    requests = [ReusedNoise(plan, stream=f"s{i}").requests(range(1, PERIODIC + 1)) for i in range(streams)]
    start = time.process_time()
    ReleaseDraw(account).batch(Turn(k + 1, each[k]) for k in range(PERIODIC) for each in requests)
    return time.process_time() - start


def two_streams() -> list[Finding]:
    """Two almost-periodic streams beside one: a day and a week of half hours, and a period as long as all steps."""
    findings = []
    for period in (48, 336, PERIODIC):
        for strong in (False, True):
            one, two = (min(periodic(n, period, strong) for _ in range(5)) for n in (1, 2))
            kind = "strong" if strong else "weak"
            work = f"two almost-periodic streams, {PERIODIC:,} steps, {kind}, period {period}: charging"
            findings.append(Finding(work, 1e3 * two, "ms", two / one, "one stream", "at most 2.2"))
    return findings


def optimal() -> list[Finding]:
    """An optimal plan whose solution was kept, checked as it is read, beside the same plan solved."""
    findings = []
    year, s = 17_520, drawn(3_000)
    for work, make in (
        (
            f"hyperbolic, {year:,} steps",
            lambda: hl.HyperbolicDiscount(1.0, beta=0.01).plan(horizon=year, method="optimal"),
        ),
        ("Swellfish, 3,000 secrets", lambda: hl.Swellfish(s).plan(method="optimal")),
    ):
        solving, recalling = [], []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                for seconds in (solving, recalling):
                    solutions, start = Solutions(f"{folder}/a.plans"), time.perf_counter()
                    with solutions.at_hand():
                        make()
                    solutions.write()
                    seconds.append(time.perf_counter() - start)
        took = min(recalling)
        findings.append(
            Finding(f"optimal plan, {work}: a later run", 1e3 * took, "ms", took / min(solving), "solved", "below 1")
        )
    return findings


def main() -> list[Finding]:
    findings = []
    table = Table(title=f"admit, a plain loop (steps 10³ and {LATE:,}; peers: release 100 and 2,000)")
    for column in ("account", "early, a second", "late, a second", "late / early", "size at the end"):
        table.add_column(column, justify="left" if column == "account" else "right")
    for notion in (
        hl.ExponentialDiscount(1.0, alpha=0.99),
        hl.HyperbolicDiscount(1.0, beta=0.1),
        hl.GaussianDiscount(1.0, 1e-6, beta=0.1),
        hl.Classical(1.0),
        hl.WEvent(1.0, 48),
    ):
        early, late, size = ours(notion)
        table.add_row(str(notion), f"{early:,.0f}", f"{late:,.0f}", f"{late / early:.2f}", f"{size:,} B")
        work = f"{notion}: a release after {LATE:,}"
        findings.append(Finding(work, 1e6 / late, "µs", early / late, "after 1,000", "flat"))
    chain = hl.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    early, late, size = ours(hl.AgeDependent(1.0, chain), AGED)
    name = f"AgeDependent(1.0, two states), to step {AGED:,}"
    table.add_row(name, f"{early:,.0f}", f"{late:,.0f}", f"{late / early:.2f}", f"{size:,} B")
    for name, peer in (
        ("OpenDP privacy filter", opendp_filter),
        ("diffprivlib BudgetAccountant", diffprivlib_accountant),
    ):
        try:
            tracemalloc.start()
            early, late = peer(2000)
            memory = tracemalloc.get_traced_memory()[0]
            table.add_row(name, f"{early:,.0f}", f"{late:,.0f}", f"{late / early:.2f}", f"{memory:,} B")
            findings.append(Finding(f"{name}: a release after 2,000", 1e6 / late, "µs", early / late, "after 100"))
        except Exception as error:
            table.add_row(name, "not measured", type(error).__name__, str(error).splitlines()[0][:60], "")
        finally:
            tracemalloc.stop()
    Console(width=130).print(table)
    return [*findings, *secrets(), *two_streams(), *optimal()]
