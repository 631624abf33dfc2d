"""The rules of a match: whose turn it is, in which role, what the solver sees, when it ends.

A match is a frozen value; `play` returns the next one. Drafts come first, solutions second, and a
solver reads only what `reveal` lets through of the *other* agent's draft. Seats:

    one drafter d       [d drafts]                          [rival of d solves]
    both draft          [agent_0 drafts, agent_1 drafts]    [agent_0 solves, agent_1 solves]

Pure: no verifier, no reward, no PettingZoo. Verdicts and rewards belong to a finished match, see
`game.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agon_env.prompts import Template
from agon_env.spaces import MAX_REPLY_CHARS
from agon_env.types import AGENTS, AgentID, Problem, Reveal, Role, Turn, rival_of

Seat = tuple[AgentID, Role]


def check_reply(agent: AgentID, reply: object) -> None:
    """TypeError unless the reply is a string; a round is checked before any of it is played."""
    if not isinstance(reply, str):
        raise TypeError(
            f"a reply must be a string, got {type(reply).__name__} from {agent}; "
            "pass the whole text that the agent wrote"
        )


@dataclass(frozen=True)
class Match:
    """One problem, played by two agents. Immutable; `play` returns its successor."""

    problem: Problem
    drafters: tuple[AgentID, ...]
    """Who drafts: one agent, or both."""
    template: Template
    """Reads replies: what of a draft may be shown."""
    reveal: Reveal = "summary"
    """What of a draft the solver sees: its summary without the answer, everything, or nothing."""
    turns: tuple[Turn, ...] = ()
    shown: tuple[str, ...] = ()
    """Per draft, in the order of the first turns: what its reader is shown of it."""
    borrowed: tuple[tuple[Turn, str], ...] = ()
    """Drafts of another match, with what is shown of them, that the solvers read instead of this
    match's own: one draft for a whole group, or one that belongs to another problem."""

    def __post_init__(self) -> None:
        if self.drafters not in (AGENTS, AGENTS[:1], AGENTS[1:]):
            raise ValueError(f"drafters must be one of {AGENTS} or both, got {self.drafters!r}")
        if self.reveal not in ("summary", "full", "none"):
            raise ValueError(f"reveal must be 'summary', 'full' or 'none', got {self.reveal!r}")

    @property
    def rounds(self) -> tuple[tuple[Seat, ...], tuple[Seat, ...]]:
        """Seats of the drafting round and of the solving round."""
        solvers = [agent for agent in AGENTS if rival_of(agent) in self.drafters]
        return (
            tuple((agent, "drafter") for agent in self.drafters),
            tuple((agent, "solver") for agent in solvers),
        )

    @property
    def over(self) -> bool:
        """True when every seat has been played."""
        return len(self.turns) == 2 * len(self.drafters)

    def actors(self) -> tuple[Seat, ...]:
        """Seats of the current round that have not been played; empty when the match is over."""
        played = {(turn.agent, turn.role) for turn in self.turns}
        for seats in self.rounds:
            open_seats = tuple(seat for seat in seats if seat not in played)
            if open_seats:
                return open_seats
        return ()

    def role(self, agent: AgentID) -> Role:
        """The agent's role now: of the seat it plays or waits for, or of its last one."""
        rival_of(agent)  # refuses an unknown id
        if agent not in self.drafters:
            return "solver"
        solves_too = len(self.drafters) == 2
        drafting_done = len(self.turns) >= len(self.drafters)
        return "solver" if solves_too and drafting_done else "drafter"

    def observe(self, agent: AgentID) -> dict[str, str]:
        """What the agent sees now; `draft` is "" for a drafter and until the drafts are in."""
        role = self.role(agent)
        drafting_done = len(self.turns) >= len(self.drafters)
        draft = ""
        if role == "solver" and drafting_done:
            drafts = {turn.agent: shown for turn, shown in self.drafts_read}
            draft = drafts[rival_of(agent)]
        return {"role": role, "problem": self.problem.question, "draft": draft}

    @property
    def drafts_read(self) -> tuple[tuple[Turn, str], ...]:
        """The drafts that solvers read and what they are shown of them; () while drafts miss."""
        if len(self.shown) < len(self.drafters):
            return ()
        own = zip(self.turns[: len(self.drafters)], self.shown, strict=True)
        return self.borrowed or tuple(own)

    def borrow(self, lender: Match) -> Match:
        """This match with the drafts of another one put before its solvers.

        Raises:
            ValueError: One of the two is not between its rounds, or other agents draft in it.
        """
        if lender.drafters != self.drafters:
            raise ValueError(
                f"the lender's drafters must be {self.drafters}, got {lender.drafters}"
            )
        for match in (self, lender):
            if len(match.turns) != len(match.drafters):
                raise ValueError("drafts are borrowed when they are all in and no one has solved")
        own = zip(lender.turns, lender.shown, strict=True)
        return replace(self, borrowed=tuple(own))

    def turn(self, agent: AgentID, role: Role) -> Turn | None:
        """The turn of that seat; None until it is played."""
        for turn in self.turns:
            if (turn.agent, turn.role) == (agent, role):
                return turn
        return None

    def against(self, turn: Turn) -> Turn | None:
        """The turn it was played against: the solution to a draft, the draft of a solution."""
        rival = rival_of(turn.agent)
        if turn.role == "drafter":
            return self.turn(rival, "solver")
        return {draft.agent: draft for draft, _ in self.drafts_read}.get(rival)

    def play(self, agent: AgentID, reply: str) -> Match:
        """The match after this agent's reply.

        A reply longer than MAX_REPLY_CHARS loses its end and is flagged; any string is legal.

        Raises:
            ValueError: It is not this agent's turn.
            TypeError: The reply is not a string.
        """
        seats = dict(self.actors())
        if agent not in seats:
            whose = f"it is the turn of {list(seats)}" if seats else "the match is over"
            raise ValueError(f"{agent!r} cannot reply now: {whose}")
        check_reply(agent, reply)
        turn = Turn(
            agent=agent,
            role=seats[agent],
            draft=self.observe(agent)["draft"],
            reply=reply[:MAX_REPLY_CHARS],
            cut=len(reply) > MAX_REPLY_CHARS,
        )
        shown = (*self.shown, self._part_to_show(turn)) if turn.role == "drafter" else self.shown
        return replace(self, turns=(*self.turns, turn), shown=shown)

    def _part_to_show(self, draft: Turn) -> str:
        if self.reveal == "none":
            return ""
        if self.reveal == "full":
            return draft.reply
        # The marker of a withheld answer may be longer than the answer: keep to the space's limit.
        return self.template.read(self.problem, draft.reply).summary[:MAX_REPLY_CHARS]
