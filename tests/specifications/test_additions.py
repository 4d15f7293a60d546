"""Secrets that are added while a stream runs, against a plain search over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.specifications import Secret, Specification, Specifications, add_secrets, check_added
from work import work

OVEN = Secret(3.0, 2, 30, 45, 1.0)
INTERPRETATIONS = ["one-event", "one-window", "all-events"]


def town(**households):
    return Specifications([Specification(secrets, name) for name, secrets in households.items()])


OLD = town(elm=[OVEN, Secret(1.0, 1, 1, 9, 1.0)], oak=[Secret(2.0, 1, 5, 50, 0.5)])


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_secrets_of_the_future_may_be_added(interpretation):
    check_added(OLD, OLD, 40, neighbours=interpretation)
    check_added(
        OLD, add_secrets(OLD, town(elm=[Secret(3.0, 2, 46, 60, 1.0)], ash=[OVEN])), 29, neighbours=interpretation
    )
    check_added(town(), OLD, 0, neighbours=interpretation)
    check_added(
        OLD, add_secrets(OLD, town(ash=[Secret(3.0, 2, 41, 60, 1.0)])), 40, neighbours=interpretation
    )  # nobody else's budget


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_one_that_reaches_into_the_past_is_refused_with_the_steps(interpretation):
    new = add_secrets(OLD, town(elm=[Secret(3.0, 2, 12, 60, 1.0)]))
    with pytest.raises(InvalidInput) as caught:
        check_added(OLD, new, 40, neighbours=interpretation)
    assert str(caught.value) == (
        "household 'elm': the secret of steps 12 to 60 (power 3, duration 2, epsilon 1) reaches into the past: steps 12 to 40 "
        "are published already with noise that does not hide it: begin at 41"
    )
    with pytest.raises(InvalidInput, match="step 12 is published already"):
        check_added(OLD, new, 12, neighbours=interpretation)
    with pytest.raises(InvalidInput, match="steps 3 to 4 are published already"):
        check_added(OLD, add_secrets(OLD, town(elm=[Secret(3.0, 2, 3, 4, 1.0)])), 40, neighbours=interpretation)


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
@pytest.mark.parametrize("published", [0, 100])
def test_what_was_promised_may_not_be_dropped_or_changed(interpretation, published):
    for kept in ([Secret(1.0, 1, 1, 9, 1.0)], [Secret(1.0, 1, 1, 9, 1.0), Secret(3.0, 2, 30, 45, 2.0)], []):
        with pytest.raises(
            InvalidInput, match=r"household 'elm': the secret of steps 30 to 45 .* missing or changed"
        ) as caught:
            check_added(OLD, town(elm=kept, oak=OLD.specification("oak").secrets), published, neighbours=interpretation)
        assert len(str(caught.value).splitlines()) == 2 - bool(kept)


def test_under_all_events_an_added_one_must_not_overlap_one_that_has_begun():
    new = add_secrets(OLD, town(elm=[Secret(3.0, 2, 45, 60, 1.0)]))
    for interpretation in ("one-event", "one-window"):
        check_added(OLD, new, 40, neighbours=interpretation)
    check_added(OLD, new, 29, neighbours="all-events")  # the oven's has not begun
    for published in (30, 40, 44):
        with pytest.raises(InvalidInput) as caught:
            check_added(OLD, new, published, neighbours="all-events")
        assert str(caught.value) == (
            "household 'elm': the secret of steps 45 to 60 (power 3, duration 2, epsilon 1) overlaps the secret of steps 30 to "
            "45 (power 3, duration 2, epsilon 1), which has begun: under all-events it would take of a budget that may be spent: "
            "begin at 46 or later"
        )


def test_of_several_that_have_begun_the_one_that_ends_last_counts():
    old = town(elm=[Secret(1.0, 1, 1, 50, 1.0), Secret(1.0, 1, 2, 3, 1.0), Secret(1.0, 1, 3, 10, 1.0)])
    with pytest.raises(InvalidInput, match="overlaps the secret of steps 1 to 50"):
        check_added(old, add_secrets(old, town(elm=[Secret(1.0, 1, 45, 60, 1.0)])), 40, neighbours="all-events")


def test_only_a_few_of_many_problems_are_told_and_readings_are_known():
    with pytest.raises(InvalidInput, match="… and more") as caught:
        check_added(town(), town(a=[Secret(1.0, 1, i, i, 1.0) for i in range(1, 100)]), 50, neighbours="one-event")
    assert len(str(caught.value).splitlines()) == 6
    with pytest.raises(InvalidInput, match="did you mean 'all-events'"):
        check_added(OLD, OLD, 3, neighbours="all-event")


rows = st.tuples(
    st.sampled_from("ab"),
    st.builds(
        lambda p, start, more: Secret(p, 1, start, start + more, 1.0),
        st.sampled_from([1.0, 2.0]),
        st.integers(1, 8),
        st.integers(0, 4),
    ),
)


@given(
    st.sets(rows, max_size=5),
    st.sets(rows, max_size=3),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from(INTERPRETATIONS),
)
def test_what_is_refused_equals_a_search_over_pairs(before, more, drops, published, interpretation):
    def made(some):
        return town(**{name: sorted((s for n, s in some if n == name), key=repr) for name in "ab"})

    after = more if drops else before | more
    fine = before <= after and all(s.start > published for _, s in after - before)
    if interpretation == "all-events":
        fine &= not any(
            m == n and s.start <= published and t.start <= s.end and s.start <= t.end
            for m, s in before
            for n, t in after - before
        )
    if fine:
        check_added(made(before), made(after), published, neighbours=interpretation)
    else:
        with pytest.raises(InvalidInput):
            check_added(made(before), made(after), published, neighbours=interpretation)
    assert add_secrets(made(before), made(more)) == made(before | more)


def many(n):
    """So many secrets of 100 households, and the half of them that begins first."""
    start = np.arange(1, n + 1)
    columns = {
        "power": np.ones(n),
        "duration": np.ones(n, dtype=int),
        "start": start,
        "end": start + 5,
        "epsilon": np.ones(n),
    }
    new = Specifications.from_columns([f"h{i}" for i in range(100)], start % 100, columns)
    return new.only(new.start <= n // 2), new


def compare(old, new):
    half = len(old)
    check_added(old, new, half, neighbours="one-window")
    with pytest.raises(InvalidInput, match="published already"):
        check_added(old, new, half + 50, neighbours="all-events")
    assert add_secrets(old, new) == new


def test_many_secrets_are_compared_as_columns():
    """Four times as many take as many lines of Python; row by row it would be four times as many."""
    few, more = many(5_000), many(20_000)
    compare(*few)
    assert work(lambda: compare(*more)) <= 1.5 * work(lambda: compare(*few))
