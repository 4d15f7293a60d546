"""The page about a policy with post-processing: noisy values of the ledger behind the estimates, and what bands cover."""

import numpy as np
import pytest

import halflife as hl
from cli.test_policy_report import figures, numbers
from halflife.cli.policy_report import write_policy_report
from halflife.ledger import open_ledger
from publisher.town import make, write_readings


def page_of(folder, post):
    write_readings(folder)
    policy = make(folder, stream={"post": post})
    hl.publish(policy)
    assert write_policy_report(folder / "policy.yaml", folder / "page.html").good
    return policy, (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("post", "words"),
    [
        ([{"kalman": "0.1 kWh"}], "if these drift as the policy declares"),
        ([{"seasonal": "fitted"}, {"truncate": ["0", "5 kWh"]}], "before its first fit they are those of the noise"),
        ([{"moving_average": 3}], "that a mean lags behind is not in them"),
        ([{"truncate": ["0", "5 kWh"]}], "truncation widens no error"),
    ],
    ids=["kalman", "seasonal", "moving average", "truncate"],
)
def test_noisy_values_stand_behind_the_estimates(tmp_path, post, words):
    policy, page = page_of(tmp_path, post)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries = list(book.entries("mean"))
    lines = {t["name"]: t for t in figures(page)["series-0"]["data"] if "name" in t}
    assert {"with noise, before post-processing", "published estimate", "95 % band of the estimate"} <= set(lines)
    raw = numbers(lines["with noise, before post-processing"]["y"])
    assert raw == pytest.approx([e.noisy[0] / 1000 / 5 for e in entries], rel=1e-12)
    assert numbers(lines["published estimate"]["y"]) == pytest.approx([e.value[0] for e in entries], rel=1e-12)
    assert np.abs(raw - numbers(lines["published estimate"]["y"])).max() > 0 or "seasonal" in post[0]
    assert words in page


def test_without_post_processing_there_is_one_line(tmp_path):
    _, page = page_of(tmp_path, [])
    names = {t.get("name") for t in figures(page)["series-0"]["data"]}
    assert "published" in names
    assert "with noise, before post-processing" not in names
    assert "Faint" not in page
