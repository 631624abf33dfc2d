"""Rewards: full truth tables of every named scheme, and the contract of a user's own."""

from __future__ import annotations

import itertools
import pickle

import pytest

from agon_env.rewards import SCHEMES, Play, RewardScheme, reward_scheme
from agon_env.types import Problem, Verdict

PROBLEM = Problem("1", "1 + 1?", "2")
RIGHT, WRONG = Verdict(True, "match"), Verdict(False, "mismatch")
UNSCORED = Verdict(None, "unscorable")


def play(role, own, rival, *, well_formed=False, length=10, rival_length=10) -> Play:
    return Play(PROBLEM, role, own, rival, well_formed, "x" * length, "", length, rival_length)


def total(reward, *args, **kwargs) -> float:
    parts = reward(play(*args, **kwargs))
    return sum(parts.values())


# Rows: own answer right, rival's right, well formed -> drafter's reward, solver's reward.
AGON = {
    (0, 0, 0): (0.0, 0.0),
    (0, 0, 1): (0.5, 0.5),
    (0, 1, 0): (0.0, 0.0),
    (0, 1, 1): (0.5, 0.5),
    (1, 0, 0): (2.0, 3.0),  # the conversion bonus
    (1, 0, 1): (2.5, 3.5),
    (1, 1, 0): (2.0, 2.0),
    (1, 1, 1): (2.5, 2.5),
}
COOPERATIVE = {
    (0, 0, 0): (0.0, 0.0),
    (0, 0, 1): (0.5, 0.5),
    (0, 1, 0): (0.0, 0.0),
    (0, 1, 1): (0.5, 0.5),
    (1, 0, 0): (2.0, 2.0),
    (1, 0, 1): (2.5, 2.5),
    (1, 1, 0): (2.0, 2.0),
    (1, 1, 1): (2.5, 2.5),
}
MARGIN = {
    (0, 0, 0): (0.0, 0.0),
    (0, 0, 1): (0.5, 0.5),
    (0, 1, 0): (0.0, -1.0),
    (0, 1, 1): (0.5, -0.5),
    (1, 0, 0): (2.0, 3.0),
    (1, 0, 1): (2.5, 3.5),
    (1, 1, 0): (2.0, 2.0),
    (1, 1, 1): (2.5, 2.5),
}


@pytest.mark.parametrize("row", list(itertools.product((0, 1), repeat=3)))
@pytest.mark.parametrize(
    ("name", "table"), [("agon", AGON), ("cooperative", COOPERATIVE), ("margin", MARGIN)]
)
def test_named_schemes_pay_what_their_truth_table_says(name, table, row):
    own, rival, form = row
    verdicts = [WRONG, RIGHT]
    paid = tuple(
        total(SCHEMES[name], role, verdicts[own], verdicts[rival], well_formed=bool(form))
        for role in ("drafter", "solver")
    )
    assert paid == table[row]


@pytest.mark.parametrize("role", ["drafter", "solver"])
@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_two_wrong_answers_earn_nothing_beyond_the_format(name, role):
    """Pitfall 52: a reward that only compares lets both become equally wrong."""
    parts = SCHEMES[name](play(role, WRONG, WRONG, well_formed=True))
    assert {part for part, value in parts.items() if value} == {"format"}


def test_parts_name_what_was_paid_and_leave_out_what_the_scheme_never_pays():
    solver = reward_scheme("agon")(play("solver", RIGHT, WRONG, well_formed=True))
    drafter = reward_scheme("agon")(play("drafter", RIGHT, WRONG, well_formed=True))
    assert solver == {"correct": 2.0, "conversion": 1.0, "format": 0.5}
    assert drafter == {"correct": 2.0, "format": 0.5}


def test_a_drafter_is_paid_alike_whatever_its_rival_does():
    scheme = reward_scheme("agon")
    assert (
        scheme(play("drafter", RIGHT, RIGHT))
        == scheme(play("drafter", RIGHT, WRONG))
        == scheme(play("drafter", RIGHT, UNSCORED))
        == {"correct": 2.0, "format": 0.0}
    )


@pytest.mark.parametrize(
    ("own", "rival", "length", "bonus"),
    [
        (RIGHT, RIGHT, 9, 0.25),
        (RIGHT, RIGHT, 10, 0.0),  # a tie is not shorter
        (RIGHT, WRONG, 9, 0.0),
        (WRONG, RIGHT, 9, 0.0),
        (WRONG, WRONG, 9, 0.0),
    ],
)
def test_brevity_pays_a_shorter_solution_only_where_both_are_right(own, rival, length, bonus):
    scheme = RewardScheme(brevity=0.25)
    parts = scheme(play("solver", own, rival, length=length, rival_length=10))
    assert parts["brevity"] == bonus


def test_drafter_conversion_pays_a_right_draft_against_a_wrong_solution_only():
    scheme = RewardScheme(drafter_conversion=1.0)
    paid = {
        (own.correct, rival.correct): scheme(play("drafter", own, rival))["conversion"]
        for own in (RIGHT, WRONG)
        for rival in (RIGHT, WRONG)
    }
    assert paid == {
        (True, True): 0.0,
        (True, False): 1.0,
        (False, True): 0.0,
        (False, False): 0.0,
    }


def test_an_unscored_verdict_gives_no_reward_and_a_wrong_one_gives_zero():
    """Pitfalls 28 and 29: None is not a score, and 0.0 is one."""
    scheme = RewardScheme(format=0.0)
    assert scheme(play("solver", UNSCORED, RIGHT)) is None
    assert scheme(play("drafter", UNSCORED, RIGHT)) is None
    assert sum(scheme(play("solver", WRONG, RIGHT)).values()) == 0.0


@pytest.mark.parametrize(
    ("scheme", "scored"),
    [
        (RewardScheme(), False),
        (RewardScheme(conversion=0.0), True),
        (RewardScheme(conversion=0.0, margin=1.0), False),
        (RewardScheme(conversion=0.0, brevity=0.1), False),
    ],
)
def test_an_unscored_draft_matters_to_a_solver_only_if_the_scheme_looks_at_it(scheme, scored):
    assert (scheme(play("solver", RIGHT, UNSCORED)) is not None) == scored


def test_partial_credit_enters_every_term_as_a_number_between_zero_and_one():
    half = Verdict(False, "wrong_answer", score=0.5)
    parts = RewardScheme()(play("solver", RIGHT, half))
    assert parts == {"correct": 2.0, "conversion": 0.5, "format": 0.0}
    assert RewardScheme()(play("solver", half, half))["conversion"] == 0.25


def test_a_user_function_may_return_a_number_or_named_parts_or_none():
    assert reward_scheme(lambda play: play.verdict.value)(play("solver", RIGHT, WRONG)) == {
        "reward": 1.0
    }
    assert reward_scheme(lambda play: {"a": 1, "b": -2})(play("solver", RIGHT, WRONG)) == {
        "a": 1.0,
        "b": -2.0,
    }
    assert reward_scheme(lambda play: None)(play("solver", RIGHT, WRONG)) is None
    assert reward_scheme(lambda play: 0.0)(play("solver", RIGHT, WRONG)) == {"reward": 0.0}


@pytest.mark.parametrize("result", [float("nan"), float("inf"), "three", {"a": None}])
def test_a_user_function_that_returns_no_finite_number_is_named_in_the_error(result):
    def my_reward(play):
        return result

    with pytest.raises(ValueError, match="my_reward"):
        reward_scheme(my_reward)(play("solver", RIGHT, WRONG))


def test_an_unknown_scheme_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'agno'.*\['agon', .*'cooperative', 'margin'\]"):
        reward_scheme("agno")
    with pytest.raises(TypeError, match="got int"):
        reward_scheme(3)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "2"])
def test_a_weight_must_be_a_finite_number(weight):
    with pytest.raises(ValueError, match=r"RewardScheme\.conversion must be a finite number"):
        RewardScheme(conversion=weight)


def test_schemes_survive_pickling():
    assert pickle.loads(pickle.dumps(SCHEMES["margin"])) == SCHEMES["margin"]
