"""Votes, paired tests and bootstraps, against closed forms, statsmodels and simulated coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa as reference_kappa

from learners.benchmark.compare import holm
from learners.benchmark.measures import cohens_kappa, conversion, corruption, difference, overlap
from learners.statistics import (
    Proportion,
    hierarchical_bootstrap,
    maj_at_k,
    mcnemar_p,
    paired_bootstrap,
    pass_all_k,
    problem_means,
    sign_flip_p,
)

NAN = math.nan


def test_pass_all_k_is_the_share_of_subsets_that_are_all_right():
    for n in range(1, 7):
        for c in range(n + 1):
            for k in range(1, n + 1):
                subsets = list(itertools.combinations([i < c for i in range(n)], k))
                expected = sum(map(all, subsets)) / len(subsets)
                assert pass_all_k(n, c, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answers", "correct", "k", "expected"),
    [
        (["7", "7", "8"], [True, True, False], 3, 1.0),
        (["8", "7", "8"], [False, True, False], 3, 0.0),
        (["7", "8"], [True, False], 2, 0.5),  # a tie is settled by lot
        (["7", "8", "9"], [True, False, False], 3, 1 / 3),
        ([None, None, "7"], [False, False, True], 3, 1.0),  # silence does not vote
        ([None, None], [False, False], 2, 0.0),
        # Subsets of 2 of (7, 7, 8): {7,7} right, twice {7,8} a tie: (1 + 1/2 + 1/2) / 3.
        (["7", "7", "8"], [True, True, False], 2, 2 / 3),
        (["7", "8", "8"], [True, False, False], 1, 1 / 3),
    ],
)
def test_a_vote_is_averaged_over_subsets_with_ties_by_lot(answers, correct, k, expected):
    assert maj_at_k(answers, correct, k) == pytest.approx(expected)


def test_a_vote_among_many_samples_is_close_to_the_exact_one():
    """C(20, 5) subsets are too many to list; wrong answers all differ, so 2 right ones win."""
    answers = ["r" if i < 8 else str(i) for i in range(20)]
    correct = [i < 8 for i in range(20)]

    def ways(right: int) -> float:
        return math.comb(8, right) * math.comb(12, 5 - right) / math.comb(20, 5)

    exact = sum(ways(right) for right in range(2, 6)) + ways(1) / 5
    assert maj_at_k(answers, correct, 5) == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("k", [0, 3])
def test_impossible_votes_are_refused(k):
    with pytest.raises(ValueError, match="maj@k"):
        maj_at_k(["1", "2"], [True, False], k)
    with pytest.raises(ValueError, match=r"pass\^k"):
        pass_all_k(2, 1, k)


@pytest.mark.parametrize("counts", [(0, 0), (3, 0), (5, 12), (40, 21), (1, 1)])
def test_mcnemar_is_the_exact_test_of_statsmodels(counts):
    first, second = counts
    expected = 1.0 if sum(counts) == 0 else mcnemar([[7, first], [second, 9]], exact=True).pvalue
    assert mcnemar_p(first, second) == pytest.approx(expected)


def test_three_discordant_problems_are_never_significant():
    """Two-sided 2 / 2^3; a percentile bootstrap of (1, 1, 1) would be certain."""
    assert mcnemar_p(3, 0) == 0.25
    assert sign_flip_p([1, 1, 1]) == 0.25


@pytest.mark.parametrize(("first", "second"), [(5, 2), (8, 1), (1, 1), (9, 4)])
def test_flipping_signs_of_single_outcomes_is_mcnemar(first, second):
    differences = [1.0] * first + [-1.0] * second + [0.0] * 11 + [NAN]
    assert sign_flip_p(differences) == pytest.approx(mcnemar_p(first, second))


def test_many_differences_are_flipped_at_random_close_to_the_exact_value():
    differences = [1.0] * 20 + [-1.0] * 8
    assert sign_flip_p(differences) == pytest.approx(mcnemar_p(20, 8), abs=0.01)
    assert sign_flip_p([1.0] * 40) == pytest.approx(1 / 20_001), "never 0"


def test_the_bootstrap_is_seeded_and_its_value_is_the_plain_mean():
    values = [[1, 0, 1], [0, NAN, 0], [1, 1, 1], [NAN, NAN, NAN]]
    found = hierarchical_bootstrap(values)
    assert found.value == pytest.approx(5 / 8)  # scored: 2 of 3, 0 of 2, 3 of 3
    assert found.n == 3
    many = np.random.default_rng(0).random((37, 3))
    assert hierarchical_bootstrap(many) == hierarchical_bootstrap(many)
    assert hierarchical_bootstrap(many) != hierarchical_bootstrap(many, seed=1)


def test_equal_values_get_the_exact_interval_of_as_many_problems():
    found = hierarchical_bootstrap(np.ones((10, 3)))
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(0.025 ** (1 / 10))  # 10 problems, not 30 attempts


def test_one_seed_is_a_plain_proportion_with_its_exact_interval():
    found = hierarchical_bootstrap([[1], [0], [NAN], [1], [0], [0]])
    expected = Proportion(2, 5)
    assert (found.value, (found.low, found.high), found.n) == (0.4, expected.interval, 5)
    halves = hierarchical_bootstrap([[0.5], [1], [0]])  # tied votes are no plain outcomes
    assert halves.value == 0.5


def test_the_bootstrap_interval_is_that_of_normal_theory_for_many_problems():
    """Clusters of 2 equal seeds: the error is that of 400 values, not of 800."""
    values = np.repeat([[1.0]] * 120 + [[0.0]] * 280, 2, axis=1)
    found = hierarchical_bootstrap(values, draws=4000)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 400)
    assert (found.low, found.high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.006)


def test_the_paired_interval_is_that_of_the_differences():
    """Both methods share the hard problems: unpaired errors would be many times larger."""
    first = np.array([[1.0]] * 200 + [[0.0]] * 200)
    second = first.copy()
    second[:20] = 0
    found = paired_bootstrap(first, second)
    half = 1.96 * math.sqrt(0.05 * 0.95 / 400)
    assert found.value == pytest.approx(0.05)
    assert (found.low, found.high) == pytest.approx((0.05 - half, 0.05 + half), abs=0.006)


def test_nothing_measured_is_no_number():
    found = hierarchical_bootstrap([[NAN, NAN]])
    assert math.isnan(found.value)
    assert str(found) == "n/a"
    assert math.isnan(paired_bootstrap([[NAN]], [[1.0]]).value)


def test_problem_means_leave_unscored_seeds_out():
    """Pitfall 28: None is not 0."""
    np.testing.assert_allclose(problem_means([[1, NAN], [0, 1], [NAN, NAN]]), [1, 0.5, NAN])


def test_kappa_is_that_of_statsmodels():
    rng = np.random.default_rng(0)
    tables = rng.integers(1, 30, (20, 4)).astype(float)
    expected = [reference_kappa(t.reshape(2, 2), return_results=False) for t in tables]
    np.testing.assert_allclose(cohens_kappa(tables), expected)
    assert math.isnan(cohens_kappa(np.array([[5.0, 0, 0, 0]]))[0]), "all the same: no variation"


def test_overlap_by_hand():
    """Four problems: both right, only first, only second, both wrong; one unscored."""
    first = np.array([[1.0], [1], [0], [0], [NAN]])
    second = np.array([[1.0], [0], [1], [0], [1]])
    found = overlap(first, second)
    assert found.agreement.value == 0.5
    assert found.jaccard.value == pytest.approx(1 / 3)  # one error of three is common
    assert found.oracle.value == 0.75
    assert found.kappa.value == 0


def test_conversion_and_corruption_by_hand():
    drafts = np.array([[0.0, 0], [1, 1], [NAN, 0]])
    solutions = np.array([[1.0, 0], [0, 1], [1, NAN]])
    assert conversion(drafts, solutions).value == 0.5  # two wrong drafts with a scored solution
    assert corruption(drafts, solutions).value == 0.5
    assert math.isnan(conversion(np.ones((2, 1)), np.ones((2, 1))).value)


def test_a_difference_counts_discordant_problems_of_the_first_seed():
    first = np.array([[1.0, 0], [1, 1], [0, 1], [NAN, 1]])
    second = np.array([[0.0, 0], [1, 0], [1, 1], [1, 1]])
    found = difference(first, second)
    assert (found.only_first, found.only_second, found.mcnemar_p) == (1, 1, 1.0)
    assert found.difference.value == pytest.approx((0.5 + 0.5 - 0.5 + 0) / 4)


def test_holm_steps_down_and_never_falls():
    # Sorted .01 * 4, .02 * 3, .03 * 2, .04 * 1 -> .04, .06, .06, .06.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def simulated(rng: np.random.Generator, problems: int, seeds: int) -> np.ndarray:
    """Outcomes of problems whose difficulties are Beta(1.2, 0.8): mean 0.6."""
    chance = rng.beta(1.2, 0.8, (problems, 1))
    return (rng.random((problems, seeds)) < chance).astype(float)


@pytest.mark.slow
def test_intervals_cover_the_truth_in_95_percent_of_2000_simulations():
    """And the interval that takes all attempts for independent ones does not."""
    rng = np.random.default_rng(7)
    hits, naive, paired = 0, 0, 0
    for i in range(2000):
        values = simulated(rng, 120, 3)
        found = hierarchical_bootstrap(values, seed=i, draws=500)
        hits += found.low <= 0.6 <= found.high
        half = 1.96 * math.sqrt(values.mean() * (1 - values.mean()) / values.size)
        naive += abs(values.mean() - 0.6) <= half
        lift = np.where(rng.random(values.shape) < 0.1, 1.0, values)  # adds 0.1 * (1 - 0.6)
        gain = paired_bootstrap(lift, values, seed=i, draws=500)
        paired += gain.low <= 0.04 <= gain.high
    assert 0.93 <= hits / 2000 <= 0.97
    assert 0.93 <= paired / 2000 <= 0.97
    assert naive / 2000 < 0.90
