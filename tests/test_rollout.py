"""A match between two policies: what crosses, what is kept, what forms a group."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tiny_llm import policy

from agon_env.types import AGENTS, Problem
from agon_env.vector import vector_env
from learners.engines import Completion, HFEngine, Sampling
from learners.policy import Policy, Prompt
from learners.rollout import Player, Rollout, play
from learners.schedule import Plan

PROBLEMS = [
    Problem(id="p", question="1 + 1?", answer="2"),
    Problem(id="q", question="1 + 1?", answer="2"),  # the same text under another id
]
IDS = ["p", "q", "p", "q"]


class Recorder:
    """The embedded engine, which also notes the requests and seeds that it was given."""

    def __init__(self) -> None:
        self.prompts: list[list[tuple[int, ...]]] = []
        self.seeds: list[int] = []

    def generate(
        self,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seed: int,
        first: int = 0,
    ) -> list[Completion]:
        self.prompts.append([tuple(prompt) for prompt in prompts])
        self.seeds.append(seed)
        return HFEngine().generate(policy, prompts, sampling, seed, first)


def players() -> dict[str, Player]:
    return {
        agent: Player(policy(family, seed), Recorder(), Sampling(max_new_tokens=10))
        for seed, (agent, family) in enumerate(zip(AGENTS, ("qwen3", "llama"), strict=True))
    }


def judge(problem: Problem, text: str) -> bool | None:
    """None for some texts, so that unscored turns occur."""
    return (True, False, None)[sum(text.encode()) % 3]


def run(
    seats: dict[str, Player], *, seating: str = "both", seed: int = 3, step: int = 7
) -> Rollout:
    env = vector_env(problems=PROBLEMS, verifier=judge)
    return play(env, seats, Plan.simple(IDS, seating), step=step, seed=seed)


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Player], Rollout]:
    seats = players()
    return seats, run(seats)


def test_what_is_trained_is_exactly_what_was_sampled(both):
    """Pitfalls 9, 42, 53: ids of prompt and reply, from the agent's own tokenizer."""
    seats, rollout = both
    for agent in AGENTS:
        mine = rollout.of(agent)
        asked = [prompt for batch in seats[agent].engine.prompts for prompt in batch]
        assert sorted(t.prompt_ids for t in mine) == sorted(asked)
        for t in mine:
            assert len(t.logprobs) == len(t.completion_ids) > 0


def test_the_env_judges_the_text_of_the_sampled_ids(both):
    """Pitfall 68: reply, verdict and reward belong to the same trajectory."""
    seats, rollout = both
    turns = [turn for episode in rollout.episodes for turn in episode.turns]
    outcomes = [outcome for episode in rollout.episodes for outcome in episode.outcomes]
    assert len(turns) == len(rollout.trajectories) == 4 * len(IDS)
    for turn, outcome, t in zip(turns, outcomes, rollout.trajectories, strict=True):
        words = seats[turn.agent].policy
        prompt = Prompt(t.prompt_ids)
        assert (t.agent, t.role) == (turn.agent, turn.role)
        assert words.decode(t.completion_ids, prompt) == turn.reply
        assert t.reward == outcome.reward


def test_unscored_turns_have_no_reward(both):
    """Pitfalls 28, 29: None stays None, and 0.0 stays 0.0."""
    _, rollout = both
    rewards = [t.reward for t in rollout.trajectories]
    assert None in rewards
    assert any(reward is not None for reward in rewards)


def test_groups_are_keyed_by_step_problem_agent_and_role(both):
    """Pitfall 30: equal texts under two ids are two groups."""
    _, rollout = both
    groups = {t.group for t in rollout.trajectories}
    roles = ("drafter", "solver")
    assert groups == {(7, p, agent, role) for p in "pq" for agent in AGENTS for role in roles}
    for group in groups:
        assert sum(t.group == group for t in rollout.trajectories) == 2


def test_the_solvers_prompt_holds_the_rivals_draft(both):
    """Pitfall 50: the second actor sees the updated observation, in its own tokens."""
    seats, rollout = both
    shown = 0
    for episode in rollout.episodes:
        for turn in episode.turns:
            if turn.role == "drafter" or not turn.draft.strip():
                continue
            shown += 1
            words = seats[turn.agent].policy.tokenizer
            asked = [
                t for t in rollout.of(turn.agent, "solver") if t.group[1] == episode.problem.id
            ]
            prompts = [words.decode(t.prompt_ids) for t in asked]
            assert any(turn.draft.strip() in prompt for prompt in prompts)
    assert shown > 0


@pytest.mark.parametrize("drafter", AGENTS)
def test_one_seating_gives_each_agent_one_role(drafter):
    rollout = run(players(), seating=drafter)
    rival = AGENTS[1 - AGENTS.index(drafter)]
    assert [t.role for t in rollout.of(drafter)] == ["drafter"] * len(IDS)
    assert [t.role for t in rollout.of(rival)] == ["solver"] * len(IDS)
    assert rollout.of(drafter, "solver") == []


def test_rounds_and_agents_draw_from_different_streams(both):
    """Pitfall 71."""
    seats, _ = both
    seeds = [seed for agent in AGENTS for seed in seats[agent].engine.seeds]
    assert len(set(seeds)) == 4


@pytest.mark.slow
def test_the_seed_decides_the_rollout():
    first, same, other = run(players()), run(players()), run(players(), seed=4)
    assert first.trajectories == same.trajectories
    assert first.trajectories != other.trajectories
