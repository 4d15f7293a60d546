"""What renewing reused noise costs: the plot's numbers against an account that goes through the same steps."""

import pytest

from halflife import Accountant, Classical, ExponentialDiscount, InvalidInput, Release, WEvent
from halflife.lab.almost_periodic.renewal import plot_renewal, renewal_data

OVER = {"classical": Classical(1.0), "exponential": ExponentialDiscount(1.0, alpha=0.98), "week": WEvent(1.0, 28)}


def test_renewals_cost_what_an_account_says():
    (row,) = renewal_data(1.0, 4, [5], horizon=200, over=OVER)
    for name, notion in OVER.items():
        history = [Release(k, 0.25) for k in range(1, 201) if (k - 1) // 4 % 5 == 0]
        worst = max(
            Accountant.replay(notion, history[:i]).risk(history[i - 1].step) for i in range(1, len(history) + 1)
        )
        assert row.risks[name] == pytest.approx(worst, rel=1e-9)


def test_the_more_often_noise_is_renewed_the_more_it_tells():
    rows = renewal_data(1.0, 48, [1, 7, 30, 365], horizon=365 * 48, over=OVER)
    for name in OVER:
        risks = [row.risks[name] for row in rows]
        assert risks == sorted(risks, reverse=True)
    assert rows[0].risks["classical"] == pytest.approx(365)
    assert rows[-1].risks["classical"] == pytest.approx(1)


def test_the_plot_has_a_line_for_each_notion():
    figure = plot_renewal(renewal_data(1.0, 4, [1, 5, 20], horizon=200, over=OVER), 1.0)
    assert [trace.name for trace in figure.data] == list(OVER)
    assert list(figure.data[0].x) == [1, 5, 20]


def test_nothing_to_renew_is_refused():
    with pytest.raises(InvalidInput, match="at least one"):
        renewal_data(1.0, 4, [], 100, OVER)
