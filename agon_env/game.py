"""The shell that the four views share: settings -> matches with verdicts and rewards.

`Game` holds what stays the same over episodes: the problems, the reward, the verifier.
`LiveMatch` is one match under way: the pure `Match` of `rules.py` plus the verdicts that are
being made. The views add only their calling conventions, so the same texts earn the same rewards
in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from os import PathLike
from typing import Any, TypedDict

from agon_env.dealer import Dealer
from agon_env.judging import Judging, Verifier
from agon_env.prompts import Template, template_for
from agon_env.rewards import Play, Reward, RewardFunction, RewardScheme, reward_scheme
from agon_env.rules import Match
from agon_env.tasks import find_task, load_problems
from agon_env.types import (
    AGENTS,
    AgentID,
    Episode,
    Outcome,
    Problem,
    Reveal,
    Seating,
    Turn,
    Verdict,
)
from agon_env.verifiers.registry import check_gold, find_verifier


class Settings(TypedDict, total=False):
    """Keywords of every env, beside the task, the seating and the render mode."""

    split: str
    """Of the task: "train" (default), "validation" or "test"."""
    seed: int | None
    """Of the shuffle of problems; None (default) draws one. `reset(seed=)` starts it anew."""
    reward: str | RewardScheme | RewardFunction
    """"agon" (default), "cooperative", "margin", a scheme, or a function of a `Play`."""
    reveal: Reveal
    """What of a draft the solver sees: "summary" (default), "full" or "none"."""
    problems: Iterable[Problem] | None
    """Play these; a task beside them only lends its template."""
    verifier: Verifier | None
    """None (default): by `problem.verifier`, in the shared pool. A pool, or a function."""
    template: Template | None
    """Prompts and reading of replies; None (default): the task's, else by `problem.verifier`."""


class LiveMatch:
    """A match under way: the rules' state and the verdicts that are being made."""

    def __init__(self, match: Match, judging: Judging, reward: Reward) -> None:
        self.match = match
        self._judging = judging
        self._reward = reward
        self._verdicts: dict[int, Future[Verdict]] = {}
        self._episode: Episode | None = None
        self._lender: LiveMatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Futures belong to this process; a copy asks again for the verdicts it needs.
        return {**self.__dict__, "_verdicts": {}}

    def play(self, agent: AgentID, reply: str) -> None:
        """Make the agent's move; its reply goes to the verifier at once."""
        self.match = self.match.play(agent, reply)
        self._ask(len(self.match.turns) - 1)

    def borrow(self, lender: LiveMatch) -> None:
        """Put the drafts of another match before this one's solvers (see `Match.borrow`)."""
        self.match = self.match.borrow(lender.match)
        self._lender = lender

    def _ask(self, index: int) -> Future[Verdict]:
        if index not in self._verdicts:
            reply = self.match.turns[index].reply
            self._verdicts[index] = self._judging.submit(self.match.problem, reply)
        return self._verdicts[index]

    def episode(self) -> Episode:
        """The finished match with its verdicts and rewards; waits for the verifier.

        Raises:
            RuntimeError: The match is not over.
        """
        if not self.match.over:
            raise RuntimeError(f"the match is not over: {self.match.actors()} have yet to reply")
        if self._episode is None:
            verdicts = self._judged(len(self.match.turns))
            if self._lender is not None:
                drafts = self._lender._judged(len(self.match.drafters))
            else:
                drafts = verdicts
            outcomes = tuple(self._outcome(turn, verdicts, drafts) for turn in self.match.turns)
            self._episode = Episode(self.match.problem, self.match.turns, outcomes)
        return self._episode

    def _judged(self, count: int) -> dict[Turn, Verdict]:
        """The verdicts on the first turns; waits for the verifier."""
        asked = [self._ask(index) for index in range(count)]
        turns = self.match.turns[:count]
        return {turn: future.result() for turn, future in zip(turns, asked, strict=True)}

    def _outcome(
        self, turn: Turn, verdicts: Mapping[Turn, Verdict], drafts: Mapping[Turn, Verdict]
    ) -> Outcome:
        """The outcome of a turn, from the verdicts on this match and on the drafts read in it."""
        rival_turn = self.match.against(turn)
        assert rival_turn is not None, "every turn of a finished match has its counterpart"
        play = Play(
            problem=self.match.problem,
            role=turn.role,
            verdict=verdicts[turn],
            rival_verdict=(verdicts if turn.role == "drafter" else drafts)[rival_turn],
            well_formed=self.match.template.read(self.match.problem, turn.reply).well_formed,
            reply=turn.reply,
            draft=turn.draft,
            length=len(turn.reply),
            rival_length=len(rival_turn.reply),
        )
        parts = self._reward(play)
        return Outcome(
            agent=turn.agent,
            role=turn.role,
            verdict=play.verdict,
            rival_verdict=play.rival_verdict,
            well_formed=play.well_formed,
            reward=None if parts is None else sum(parts.values(), 0.0),
            parts=parts or {},
        )

    def info(self, agent: AgentID) -> dict[str, Any]:
        """What the views put into `infos[agent]`.

        Always `problem_id`, `role` and `acts`, whether the env waits for this agent's reply. While
        it does: `messages`, the chat messages to answer. After the end, of the agent's last turn:
        `verdict`, `rival_verdict` and `reward_parts`; and of all of its turns: `outcomes`,
        `scored`, whether every reward counts, and `cut`, how many replies lost their end.
        """
        match = self.match
        acts = agent in dict(match.actors())
        info: dict[str, Any] = {
            "problem_id": match.problem.id,
            "role": match.role(agent),
            "acts": acts,
        }
        if acts:
            info["messages"] = match.template.messages(match.observe(agent))
        if match.over:
            outcomes = [outcome for outcome in self.episode().outcomes if outcome.agent == agent]
            last = outcomes[-1]
            info |= {
                "verdict": last.verdict,
                "rival_verdict": last.rival_verdict,
                "reward_parts": dict(last.parts),
                "scored": all(outcome.reward is not None for outcome in outcomes),
                "cut": sum(turn.cut for turn in match.turns if turn.agent == agent),
                "outcomes": tuple(outcomes),
            }
        return info


class Game:
    """What stays the same over episodes: problems, seats, reward, verifier, template."""

    def __init__(
        self,
        task: str | PathLike[str] | None = None,
        *,
        seating: Seating,
        split: str = "train",
        seed: int | None = None,
        reward: str | RewardScheme | RewardFunction = "agon",
        reveal: Reveal = "summary",
        problems: Iterable[Problem] | None = None,
        verifier: Verifier | None = None,
        template: Template | None = None,
    ) -> None:
        """See `Settings`."""
        if task is None and problems is None:
            raise ValueError("name a task (see agon_env.tasks()) or pass problems=[Problem(...)]")
        if task is not None:
            template = template or find_task(task).template
            problems = load_problems(task, split=split) if problems is None else problems
        assert problems is not None
        self.dealer = Dealer(problems, seating=seating, seed=seed)
        if not (template is None or isinstance(template, Template)):
            raise TypeError(
                "template must be None or a Template (name, messages, read), "
                f"got {type(template).__name__}"
            )
        self._template = template
        self._reveal: Reveal = reveal
        self._reward = reward_scheme(reward)
        self._judging = Judging(verifier)
        # Refuse a bad `reveal` and unknown verifiers now rather than in the first episode.
        Match(self.dealer.problems[0], AGENTS, template_for(self.dealer.problems[0]), reveal)
        if verifier is None:
            for problem in self.dealer.problems:
                _check_judgeable(problem)

    def deal(self, *, problem_id: str | None = None, seating: str | None = None) -> LiveMatch:
        """Start the next match; see `Dealer` for what the arguments pin."""
        problem = self.dealer.problem(problem_id)
        match = Match(
            problem=problem,
            drafters=self.dealer.drafters(seating),
            template=self._template or template_for(problem),
            reveal=self._reveal,
        )
        return LiveMatch(match, self._judging, self._reward)

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> LiveMatch:
        """The next match as `reset(seed=, options=)` of an env asks for it."""
        if seed is not None:
            self.dealer.reseed(seed)
        options = options or {}
        return self.deal(problem_id=options.get("problem_id"), seating=options.get("seating"))


def _check_judgeable(problem: Problem) -> None:
    """ValueError with the problem's id unless its verifier is known and has a gold to judge by."""
    try:
        find_verifier(problem.verifier)
    except ValueError as error:
        raise ValueError(f"problem {problem.id!r}: {error}") from None
    check_gold(problem)
