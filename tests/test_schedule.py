"""What a step plays, what it replaces, which draft is read, what is kept, what raises an alarm."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from simple_game import PICKY, PROBLEMS, WRONG, reply, right

import agon_env
from agon_env.rules import Match
from agon_env.types import AGENTS, Episode, Outcome, Problem, Turn, Verdict
from learners.alarms import WINDOW, alarms
from learners.config import PairConfig
from learners.refill import dead_problems, refilled, without
from learners.rollout import Rollout
from learners.run_folder import RunFolder, step_of
from learners.schedule import Plan, plan_step, trains
from learners.trajectory import Trajectory

A, B = AGENTS


def plan(step: int = 0, *, shared: bool = False, rotation="step", regime="pair") -> Plan:
    """Two problems, N = 4."""
    return plan_step(
        ["p", "q"],
        step,
        samples=4,
        rotation=rotation,
        regime=regime,
        shared_draft=shared,
    )


@pytest.mark.parametrize("regime", ["pair", "self"])
@pytest.mark.parametrize(
    ("rotation", "even", "odd"),
    [
        ("step", [A] * 4, [B] * 4),
        ("episode", [A, B, A, B], [B, A, B, A]),
        ("both", ["both"] * 4, ["both"] * 4),
        ("fixed", [A] * 4, [A] * 4),
    ],
)
def test_the_rotation_says_who_drafts_in_each_match(regime, rotation, even, odd):
    for step, expected in ((0, even), (1, odd), (2, even)):
        found = plan(step, rotation=rotation, regime=regime)
        assert found.problem_ids == ("p",) * 4 + ("q",) * 4
        assert list(found.seatings) == expected * 2
        assert found.draft_of == tuple(range(8)), "every solver reads its own match's draft"
        assert found.solve


@pytest.mark.parametrize(
    ("rotation", "lenders"),
    [
        ("step", [0, 0, 0, 0, 4, 4, 4, 4]),
        ("episode", [0, 1, 0, 1, 4, 5, 4, 5]),  # never a draft by the solver's own model
        ("both", [0, 0, 0, 0, 4, 4, 4, 4]),
    ],
)
def test_a_shared_draft_is_the_first_of_the_problem_and_seating(rotation, lenders):
    found = plan(rotation=rotation, shared=True)
    assert list(found.draft_of) == lenders
    for i, lender in enumerate(lenders):
        assert found.seatings[i] == found.seatings[lender]
        assert found.problem_ids[i] == found.problem_ids[lender]


@pytest.mark.parametrize("rotation", ["step", "episode", "both", "fixed"])
def test_solo_plays_2n_drafts_per_model_and_no_solution(rotation):
    """The budget of "both": N drafts and N solutions per model and problem."""
    found = plan(rotation=rotation, regime="solo")
    assert Counter(found.problem_ids) == {"p": 8, "q": 8}
    assert set(found.seatings) == {"both"}
    assert not found.solve


def test_alternation_trains_one_agent_at_a_time():
    turns = [[trains(i, step, 2) for i in (0, 1)] for step in range(5)]
    first, second = [True, False], [False, True]
    assert turns == [first, first, second, second, first]
    assert all(trains(i, step, 0) for i in (0, 1) for step in range(3))


def test_half_groups_need_four_samples():
    """Pitfall 21: a group of one trains nothing."""
    with pytest.raises(ValueError, match="must be at least 4, got 3"):
        PairConfig(rotation="episode", samples=3)


def rollout(*groups: tuple[str, list[float | None]]) -> Rollout:
    """(problem id, rewards of one group of drafts) -> one episode per reward."""
    episodes, trajectories = [], []
    for problem_id, rewards in groups:
        for reward in rewards:
            verdict = Verdict(True, "match")
            turn = Turn(A, "drafter", "", "x")
            outcome = Outcome(A, "drafter", verdict, verdict, True, reward)
            episodes.append(Episode(Problem(problem_id, "?", "1"), (turn,), (outcome,)))
            group = (0, problem_id, A, "drafter")
            trajectories.append(Trajectory(A, "drafter", group, (1,), (2,), (0.0,), True, reward))
    return Rollout(tuple(episodes), tuple(trajectories))


def test_a_problem_is_dead_when_none_of_its_groups_varies():
    """Pitfalls 24, 28, 29: judged on the whole group; 0.0 is a score and None is none."""
    seen = rollout(
        ("alive", [0.0, 0.0, 1.0]), ("equal", [1.0, 1.0]), ("unscored", [None, 1.0, 1.0])
    )
    assert dead_problems(seen) == {"equal", "unscored"}
    assert {e.problem.id for e in without(seen, {"equal"}).episodes} == {"alive", "unscored"}


def test_one_group_with_signal_keeps_a_problem():
    """The drafts are all equal, the solutions are not."""
    other = rollout(("p", [0.0, 1.0]))
    group = (0, "p", B, "solver")
    solutions = tuple(
        Trajectory(B, "solver", group, t.prompt_ids, t.completion_ids, t.logprobs, True, t.reward)
        for t in other.trajectories
    )
    drafts = rollout(("p", [1.0, 1.0]))
    assert dead_problems(drafts) == {"p"}
    joined = Rollout(drafts.episodes, drafts.trajectories + solutions)
    assert dead_problems(joined) == set()


def refill(first: Rollout, rounds: int, *batches: list[tuple[str, list]]) -> tuple[Rollout, dict]:
    """Refill from batches of problems whose rewards are known."""
    queue = [list(batch) for batch in batches]
    rewards = {name: r for batch in batches for name, r in batch}

    def draw(count: int) -> list[Problem]:
        return [Problem(name, "?", "1") for name, _ in queue.pop(0)[:count]]

    def play(problems: list[Problem], number: int) -> Rollout:
        assert number == len(batches) - len(queue), "the round keys its random stream"
        return rollout(*((p.id, rewards[p.id]) for p in problems))

    return refilled(first, rounds, draw, play)


DEAD, ALIVE = [1.0, 1.0], [0.0, 1.0]
START = rollout(("a", ALIVE), ("b", DEAD), ("c", DEAD), ("d", ALIVE))


def ids(found: Rollout) -> list[str]:
    assert [t.group[1] for t in found.trajectories] == [e.problem.id for e in found.episodes]
    return sorted({e.problem.id for e in found.episodes})


def test_dead_problems_are_replaced_until_none_is_left():
    found, metrics = refill(START, 5, [("e", ALIVE), ("f", DEAD)], [("g", ALIVE)])
    assert ids(found) == ["a", "d", "e", "g"]
    # b and c go, then f: three problems of two replies
    assert metrics == {"dead_problems": 0.5, "refill_rounds": 2.0, "discarded_replies": 6.0}


def test_after_the_last_round_the_dead_stay():
    found, metrics = refill(START, 1, [("e", ALIVE), ("f", DEAD)], [("g", ALIVE)])
    assert ids(found) == ["a", "d", "e", "f"]
    assert metrics["refill_rounds"] == 1


def test_no_rounds_only_count_the_dead():
    found, metrics = refill(START, 0)
    assert found is START
    assert metrics == {"dead_problems": 0.5, "refill_rounds": 0.0, "discarded_replies": 0.0}


def test_a_problem_of_the_step_is_not_drawn_again():
    """Pitfall 30: two groups under one key would become one."""
    found, _ = refill(START, 1, [("a", ALIVE), ("e", ALIVE)])
    assert ids(found) == ["a", "c", "d", "e"], "one fresh problem takes one dead one's place"
    assert len(found.episodes) == 8
    found, _ = refill(START, 1, [("a", ALIVE), ("c", ALIVE)])
    assert ids(found) == ["a", "b", "c", "d"]


CALM = {
    **{f"{agent}/entropy": 1.0 for agent in AGENTS},
    **{f"{agent}/solve_rate": 0.5 for agent in AGENTS},
    **{f"{agent}/sampler_mismatch": 0.01 for agent in AGENTS},
    **{f"{agent}/moved": 1.0 for agent in AGENTS},
    **{f"{role}/well_formed": 0.9 for role in ("drafter", "solver")},
    "tokens_per_reply": 100.0,
    "solver/copy_rate": 0.3,
    "solver/conversion": 0.4,
}


def history(**changes: float) -> list[dict[str, float]]:
    """Three calm windows, then one with changes; names with __ for the slash."""
    late = CALM | {name.replace("__", "/"): value for name, value in changes.items()}
    return [CALM] * (3 * WINDOW) + [late] * WINDOW


def test_a_calm_run_raises_no_alarm():
    assert alarms(history()) == {}
    assert alarms([{}] * 40) == {}, "a run without these metrics"
    better = history(agent_0__solve_rate=0.9, agent_1__solve_rate=0.8, agent_0__entropy=0.3)
    assert alarms(better) == {}
    hard = CALM | {f"{agent}/solve_rate": 0.0 for agent in AGENTS}
    lucky = [hard] * (3 * WINDOW) + [hard | {"agent_1/solve_rate": 0.01}] * WINDOW
    assert alarms(lucky) == {}, "one lucky answer is no seat that wins all"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"agent_1__entropy": 0.05}, ["collapse/agent_1/entropy"]),
        ({"tokens_per_reply": 20.0}, ["collapse/length"]),
        ({"agent_0__solve_rate": 0.05}, ["collapse/agent_0/one_seat"]),
        ({"drafter__well_formed": 0.65}, ["obfuscation/drafter"]),
        ({"solver__well_formed": 0.65}, ["obfuscation/solver"]),
        ({"solver__copy_rate": 0.95}, ["laziness"]),
        ({"agent_0__sampler_mismatch": 0.06}, ["drift/agent_0"]),
        ({"agent_1__moved": 0.0}, ["standstill/agent_1"]),
    ],
)
def test_each_alarm_is_raised_by_its_fault_alone(changes, names):
    """Pitfalls 16, 17, 41, 46, 47 as the metrics of a run would show them."""
    found = alarms(history(**changes))
    assert list(found) == names
    assert "\n" not in found[names[0]]


def test_nothing_is_said_before_two_windows():
    faulty = history(agent_1__moved=0.0)[-2 * WINDOW + 1 :]
    assert alarms(faulty) == {}


def test_form_that_fell_from_its_best_is_seen_although_it_began_low():
    low = CALM | {"drafter/well_formed": 0.4}
    assert alarms([low] * WINDOW + history(drafter__well_formed=0.6)).keys() == {
        "obfuscation/drafter"
    }


@pytest.mark.parametrize(("best", "kept"), [(None, [4, 5]), (2, [2, 4, 5]), (5, [4, 5])])
def test_the_best_checkpoint_outlives_the_newer_ones(tmp_path: Path, best, kept):
    folder = RunFolder(tmp_path)
    for step in range(1, 6):
        folder.save_checkpoint(
            step, lambda path: (path / "x").write_text("state") and None, keep=2, best=best
        )
    assert [step_of(path) for path in folder.checkpoints()] == kept
    chosen = folder.checkpoint(best)
    assert chosen is not None
    assert step_of(chosen) == (best or 5)
    with pytest.raises(ValueError, match=r"has no checkpoint of step 1, only \["):
        folder.checkpoint(1)


def lent(lenders: list[int], problem_ids: list[str], drafts: list[str], solution: str) -> list:
    """Play a batch in which agent_0 drafts and everyone solves with the same text."""
    venv = agon_env.vector_env(**PICKY, reveal="full")
    venv.reset(options={"problem_id": problem_ids, "seating": A, "draft_of": lenders})
    observations, *_ = venv.step({A: drafts})
    venv.step({B: [solution] * len(drafts)})
    return [[o["draft"] for o in observations[B]], venv.episodes]


def test_a_solver_that_borrows_sees_the_lenders_draft_and_is_paid_against_it():
    good, solution = right(PROBLEMS[4]), right(PROBLEMS[4], note="mine")
    shown, episodes = lent([0, 0, 2], ["sum-4"] * 3, [WRONG, good, good], solution)
    assert shown == [WRONG, WRONG, good]
    solved = [episode.outcome(B, "solver") for episode in episodes]
    # 2 for a right answer, 0.5 for its form, 1 more where the draft that was read is wrong.
    assert [o.reward for o in solved] == [3.5, 3.5, 2.5]
    assert [o.rival_verdict.correct for o in solved] == [False, False, True]
    drafted = [episode.outcome(A, "drafter") for episode in episodes]
    assert [o.verdict.correct for o in drafted] == [False, True, True], "drafts keep their own"


def test_a_draft_for_another_problem_is_judged_by_that_problem():
    """The draft of sum-1 is right there, and would be wrong for sum-4."""
    drafts = [right(PROBLEMS[1]), WRONG]
    shown, episodes = lent([0, 0], ["sum-1", "sum-4"], drafts, reply("8"))
    assert shown == [drafts[0]] * 2
    assert episodes[1].outcome(B, "solver").rival_verdict.correct is True
    assert episodes[1].outcome(B, "solver").reward == 2.5


@pytest.mark.parametrize("lenders", [[0], [0, 2], [0, -1]])
def test_a_bad_draft_of_is_refused_in_words(lenders):
    venv = agon_env.vector_env(**PICKY, num_envs=2)
    with pytest.raises(ValueError, match="draft_of must hold one index from 0 to 1 per match"):
        venv.reset(options={"draft_of": lenders})


def test_drafts_are_borrowed_only_between_the_rounds_of_the_same_seats():
    fresh = Match(PROBLEMS[0], (A,), agon_env.prompts.MATH_TEMPLATE)
    drafted = fresh.play(A, WRONG)
    other = Match(PROBLEMS[0], (B,), agon_env.prompts.MATH_TEMPLATE).play(B, WRONG)
    for borrower, lender in ((fresh, drafted), (drafted, fresh), (drafted.play(B, "x"), drafted)):
        with pytest.raises(ValueError, match="when they are all in and no one has solved"):
            borrower.borrow(lender)
    with pytest.raises(ValueError, match="the lender's drafters must be"):
        drafted.borrow(other)
