"""The four papers' own numbers: every definition, theorem, figure and table, and which of them need no code."""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """A paper: what people call it, its title, the words in a path that mean it, and its results in the order of their kind.

    results   number → what it is about, in a few words
    no_code   number → why nothing in the code claims it
    """

    name: str
    title: str
    rooms: tuple[str, ...]
    results: dict[str, str]
    no_code: dict[str, str]


DISCOUNTED = Paper(
    "discounted",
    "Farokhi, *Temporally discounted differential privacy for evolving datasets on an infinite horizon*",
    ("discounted", "classical"),
    {
        "Remark 1": "people who come and go",
        "Definition 2": "neighbouring data sets",
        "Definition 3": "ε-differential privacy of the stream",
        "Definition 4": "privacy loss of one report",
        "Theorem 5": "Σρ ≤ ε suffices",
        "Theorem 6": "Σ Δf_k/b_k ≤ ε suffices",
        "Corollary 7": "bounded noise cannot last",
        "Corollary 8": "b_k = Δf π²k²/(6ε)",
        "Definition 9": "exponentially discounted loss",
        "Definition 10": "exponentially discounted privacy",
        "Theorem 11": "Σ α^{t−k} Δf_k/b_k ≤ ε suffices",
        "Corollary 12": "b = Δf/(ε(1−α)) for ever",
        "Definition 13": "hyperbolically discounted loss",
        "Definition 14": "hyperbolically discounted privacy",
        "Theorem 15": "Σ Δf_k/(b_k(1+β(t−k))) ≤ ε suffices",
        "Corollary 16": "b_k = c(β) Δf √k/ε",
        "Figure 1": "the Ausgrid data",
        "Figure 2": "error over the year",
        "Figure 3": "error against the discount",
    },
    {},
)

AGE_DEPENDENT = Paper(
    "age-dependent",
    "Zhang, Wei, Berry, Huang, *Age-dependent differential privacy*",
    ("age_dependent", "processes"),
    {
        "Definition 1": "ε-differential privacy of one release",
        "Definition 2": "sensitivity",
        "Definition 3": "Laplace mechanism",
        "Definition 4": "age-dependent privacy of one release",
        "Definition 5": "artificial aging",
        "Definition 6": "total variation distance",
        "Definition 7": "Δ(t), the largest over pairs of states",
        "Definition 8": "geometric ergodicity",
        "Definition 9": "many releases",
        "Definition 10": "age-dependent privacy for ever",
        "Definition 11": "age of information",
        "Definition 12": "one age, one period, one loss",
        "Theorem 1": "ε(t) = ln(1 + Δ(t)(e^ε − 1))",
        "Theorem 2": "aging alone, without noise",
        "Theorem 3": "composition",
        "Theorem 4": "the best policy is periodic",
        "Proposition 1": "the Laplace mechanism is private",
        "Proposition 2": "losses add up",
        "Proposition 3": "peak risk of periodic publishing",
        "Proposition 4": "the best period where data is aged",
        "Proposition 5": "Δ(t) by the spectral gap",
        "Proposition 6": "the gap of walks on graphs",
        "Proposition 7": "post-processing",
        "Corollary 1": "artificial aging is classical privacy",
        "Corollary 2": "Lemma 1 at the least likely state",
        "Corollary 3": "where a larger error buys no risk",
        "Corollary 4": "Theorem 1 for Example 1",
        "Corollary 5": "Proposition 3 for Example 1",
        "Lemma 1": "likelihood ratios of a private mechanism",
        "Lemma 2": "means under two laws with bounded ratios",
        "Lemma 3": "eigenvalues of a chain",
        "Lemma 4": "ratios of sums",
        "Lemma 5": "risks of a best policy never fall",
        "Lemma 6": "a best policy can be made periodic",
        "Lemma 7": "Gaussian AR(1) processes are reversible",
        "Lemma 8": "their conditional law",
        "Lemma 9": "Pinsker's inequality",
        "Algorithm 1": "schedules with aged data",
        "Algorithm 2": "schedules with fresh data",
        "Example 1": "people in two places",
        "Figure 1": "a mechanism, drawn",
        "Figure 2": "risk and age over time",
        "Figure 3": "risk of an even schedule",
        "Figure 4": "Example 1, squared error of one release",
        "Figure 5": "Example 1, failure rate of one release",
        "Figure 6": "Example 1, many releases",
        "Figure 7": "London homes",
        "Figure 8": "AR(1)",
        "Table I": "notation",
    },
    {
        "Lemma 2": "a step in the proof of Theorem 1",
        "Lemma 3": "a step in the proof of Proposition 5",
        "Lemma 4": "a step in the proof of Theorem 2",
        "Lemma 5": "a step in the proof of Theorem 4",
        "Lemma 6": "a step in the proof of Theorem 4",
        "Corollary 2": "a step in the proof of Theorem 1",
        "Figure 1": "a drawing",
        "Table I": "notation",
    },
)

ALMOST_PERIODIC = Paper(
    "almost-periodic",
    "The paper on almost-periodic data sets",
    ("almost_periodic", "reused"),
    {
        "Definition 1": "almost-periodic series, x = z + w",
        "Assumption 2": "everybody has the same period",
        "Definition 3": "neighbours: one person's z",
        "Definition 4": "privacy of the pattern",
        "Theorem 5": "one period of reused noise",
        "Definition 6": "strong neighbours: z, or one period of w",
        "Definition 7": "strong privacy",
        "Corollary 8": "the strong mechanism",
        "Figure 1": "an almost-periodic series",
        "Figure 2": "correlations, Ausgrid, daily",
        "Figure 3": "their histogram",
        "Figure 4": "their histogram, weekly",
        "Figure 5": "correlations, UMass, daily",
        "Figure 6": "their histogram",
        "Figure 7": "what is published, Ausgrid",
        "Figure 8": "error against ε, Ausgrid",
        "Figure 9": "what is published, UMass",
        "Figure 10": "error against ε, UMass",
    },
    {},
)

SWELLFISH = Paper(
    "Swellfish",
    "Tex et al., *Swellfish privacy: publishing continuous private sum aggregates with high utility*",
    ("swellfish", "w_event", "specifications", "households", "rescue_dp", "lane_draw", "postprocessing"),
    {
        "Definition 1": "ε-differential privacy",
        "Definition 2": "neighbours that differ in one row",
        "Definition 3": "neighbours that differ by α",
        "Definition 4": "global sensitivity",
        "Definition 5": "w-event privacy",
        "Definition 6": "neighbours within a window",
        "Definition 7": "Swellfish privacy of one specification",
        "Definition 8": "of several",
        "Definition 9": "event",
        "Definition 10": "secret",
        "Definition 11": "specification",
        "Definition 12": "neighbouring databases",
        "Definition 13": "neighbouring streams",
        "Definition 14": "temporal sensitivity",
        "Definition 15": "(ε, δ)-differential privacy",
        "Definition 16": "Swellfish privacy with a δ",
        "Theorem 1": "the Laplace mechanism is private",
        "Theorem 2": "losses within a window add up",
        "Theorem 3": "mixtures of mechanisms",
        "Theorem 4": "post-processing",
        "Theorem 5": "two mechanisms on one stream",
        "Theorem 6": "two mechanisms on two stretches",
        "Theorem 7": "any w-event mechanism",
        "Theorem 8": "Swellfish(P)",
        "Theorem 9": "several households",
        "Theorem 10": "Uniform with a δ",
        "Theorem 11": "Swellfish with a δ",
        "Example 1": "the oven",
        "Figure 1": "two events, drawn",
        "Figure 2": "neighbouring streams of Example 1",
        "Figure 3": "Experiment 1, every zone",
        "Figure 4": "Experiment 2, week by week",
        "Table I": "a stream and its sums",
        "Table II": "mechanisms compared",
        "Table III": "parameters",
    },
    {
        "Definition 3": "quoted from others; nothing rests on it",
        "Figure 1": "a drawing",
        "Table I": "a drawing of the input",
    },
)

PAPERS = (DISCOUNTED, AGE_DEPENDENT, ALMOST_PERIODIC, SWELLFISH)
