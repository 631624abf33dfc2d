"""Counts -> estimates, against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import pytest

from learners.statistics import Proportion, pass_at_k


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # All or none: the bound solves p^n = 0.025, so 0.025^(1/10) = 0.69150.
        (10, 10, 0.025 ** (1 / 10), 1.0),
        (0, 10, 0.0, 1 - 0.025 ** (1 / 10)),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_at_the_ends_is_the_closed_form(k, n, low, high):
    assert Proportion(k, n).interval == pytest.approx((low, high), abs=1e-9)


def test_the_interval_inverts_the_binomial_tails():
    """Clopper-Pearson: at each end the tail beyond the count has 2.5%. Wald would give [.1, .5]."""
    low, high = Proportion(6, 20).interval

    def tail(p: float, counts: range) -> float:
        return sum(math.comb(20, i) * p**i * (1 - p) ** (20 - i) for i in counts)

    assert tail(low, range(6, 21)) == pytest.approx(0.025, abs=1e-6)
    assert tail(high, range(7)) == pytest.approx(0.025, abs=1e-6)


def test_no_trials_have_no_value_and_print_as_such():
    assert math.isnan(Proportion(0, 0).value)
    assert str(Proportion(0, 0)) == "n/a"
    assert str(Proportion(10, 10)) == "100.0 [69.2, 100.0]"


@pytest.mark.parametrize("counts", [(-1, 2), (3, 2)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match="0 <= k <= n"):
        Proportion(*counts)


def test_pass_at_k_is_the_share_of_subsets_that_hold_a_right_sample():
    """Pitfall 69: by listing all subsets; 1 - (1 - c/n)^k is biased."""
    for n in range(1, 7):
        for c in range(n + 1):
            right = [i < c for i in range(n)]
            for k in range(1, n + 1):
                subsets = list(itertools.combinations(right, k))
                expected = sum(any(subset) for subset in subsets) / len(subsets)
                assert pass_at_k(n, c, k) == pytest.approx(expected)
    biased = 1 - (1 - 1 / 4) ** 2
    assert abs(pass_at_k(4, 1, 2) - biased) > 0.05


@pytest.mark.parametrize("arguments", [(4, 5, 1), (4, 1, 5), (4, 1, 0), (4, -1, 1)])
def test_impossible_samples_are_refused(arguments):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(*arguments)
