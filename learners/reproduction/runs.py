"""One (run, seed) -> trained models -> a record of what they get right on held-out problems.

The record keeps one character per problem ("1" right, "0" wrong, "-" unscored), so that methods can
be compared problem by problem. A run that was stopped goes on from its checkpoint; a record that
exists is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch

from agon_env.tasks.sampler import ids_digest
from agon_env.types import AGENTS, AgentID, Role
from learners.conditions import conditions
from learners.config import PairConfig
from learners.evaluate import DIRECTIONS, outcome_of, play_held_out, stage_of
from learners.monitor import Monitor
from learners.pair import PairTrainer
from learners.presets import WARM_UP
from learners.reproduction.methods import Scale, Use, method, run_config
from learners.rollout import Player, Rollout
from learners.run_folder import CONFIG, METRICS, write_atomically
from learners.seeds import stream_seed
from learners.statistics import maj_at_k
from learners.warm_models import warm_models
from learners.warmup_data import Curriculum

DEFAULT_GAPS = {"unknown": Curriculum().unknown, "mistaken": Curriculum().mistaken}
"""Those of records that name none."""
VOTERS = 4
"""Samples of a self-consistency vote."""


def record_file(out: Path, run: str, seed: int) -> Path:
    """Where the record of a (run, seed) is kept."""
    return out / "records" / f"{run}-seed{seed}.json"


def make_record(
    run: str, seed: int, scale: Scale, out: Path, monitor: Monitor | None = None
) -> dict[str, Any]:
    """Train one run with one seed, measure it, and keep the record."""
    file = record_file(out, run, seed)
    config = _config_of(run, seed, scale, out)
    uses: set[Use] = {method(key).use for key in scale.methods if method(key).run == run}
    if file.exists():
        record = json.loads(file.read_text())
        _refuse_other_config(record["config"], config, file, _warm(scale))
        _refuse_other_gaps(record, scale, file)
        if all(record["test"].get(use) for use in uses):
            return record
        # More rows ask for it than before: the trained models are measured anew, for all of them.
        uses |= {use for use in get_args(Use) if record["test"].get(use)}
    monitor = monitor or Monitor()
    trainer = _trained(config, out / "runs" / f"{run}-seed{seed}", monitor, _warm(scale))
    record = {
        "run": run,
        "seed": seed,
        "config": trainer.config.to_dict(),
        "gaps": _gaps(scale),
        "budget": _budget(trainer),
        "conditions": conditions() | {"threads": torch.get_num_threads()},
    }
    for split in ("validation", "test"):
        record[split] = {
            "problems": ids_digest(trainer.problems[split]),
            **_measure(trainer, split, uses),
        }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(record, indent=1) + "\n")
    return record


def _config_of(run: str, seed: int, scale: Scale, out: Path) -> PairConfig:
    base = replace(scale.config, seed=seed)
    if _warm(scale):
        base = replace(base, models=warm_models(base.task, seed, out / "warm_up", scale.recipe))
    return run_config(run, base)


def _warm(scale: Scale) -> bool:
    """Whether the models are made by the warm-up; their names hold all that makes them."""
    return scale.config.models == (WARM_UP, WARM_UP)


def _trained(config: PairConfig, folder: Path, monitor: Monitor, warm: bool) -> PairTrainer:
    """The trainer of a run that has gone to its end."""
    if (folder / CONFIG).exists():
        trainer = PairTrainer.resume(folder)
        _refuse_other_config(trainer.config.to_dict(), config, folder, warm)
    else:
        trainer = PairTrainer(config, folder)
    trainer.train(monitor, judged_on="validation")
    return trainer


def _refuse_other_config(
    found: Mapping[str, Any], config: PairConfig, path: Path, warm: bool
) -> None:
    """Raise ValueError where a stored result comes from another config.

    An option that was added later had its default. Warm models may lie in another folder.
    """
    stored, wanted = (one.to_dict() for one in (PairConfig.from_dict(found), config))
    differing = [k for k in wanted if stored[k] != wanted[k]]
    if warm and [Path(m).name for m in stored["models"]] == [Path(m).name for m in config.models]:
        differing = [k for k in differing if k != "models"]
    if differing:
        raise ValueError(
            f"{path} was made with another {', '.join(differing)}; remove it, or choose another "
            "--out"
        )


def _refuse_other_gaps(record: Mapping[str, Any], scale: Scale, path: Path) -> None:
    stored = record.get("gaps", DEFAULT_GAPS)
    if stored != _gaps(scale):
        raise ValueError(
            f"{path} was made with models that have the gaps {stored}, wanted are {_gaps(scale)}; "
            "choose another --out"
        )


def _gaps(scale: Scale) -> dict[str, float]:
    """The shares of facts that the warm-up leaves out, or shows wrong."""
    curriculum = scale.recipe.curriculum
    return {"unknown": curriculum.unknown, "mistaken": curriculum.mistaken}


def _budget(trainer: PairTrainer) -> dict[str, float]:
    """What training has sampled, all models together."""
    lines = trainer.folder.lines(METRICS)
    return {
        "replies": sum(line["replies"] for line in lines),
        "tokens": round(sum(line["replies"] * line["tokens_per_reply"] for line in lines)),
    }


def _measure(trainer: PairTrainer, split: str, uses: Set[Use]) -> dict[str, Any]:
    """What the methods ask about one split; models alone and both directions in any case."""
    players, problems = trainer.players, trainer.problems[split]

    def play(kind: str, who: Mapping[AgentID, Player], **options: Any) -> Rollout:
        seed = stream_seed(trainer.config.seed, "reproduce", split, kind)
        return play_held_out(who, trainer.envs[split], problems, seed=seed, **options)

    pair = play("cascade", players)
    result: dict[str, Any] = {
        "alone": {a: _part(pair, a, "drafter") for a in AGENTS},
        "cascade": {f"{d}>{s}": _cascade(pair, d, s) for d, s in DIRECTIONS},
    }
    if "self" in uses:
        twice = {a: dict.fromkeys(AGENTS, players[a]) for a in AGENTS}
        played = {a: play(f"self/{a}", twice[a], seating=AGENTS[0]) for a in AGENTS}
        result["self"] = {a: _cascade(played[a], *DIRECTIONS[0]) for a in AGENTS}
    if "majority" in uses:
        rollout = play("majority", players, samples=VOTERS, solve=False)
        result["majority"] = {agent: _majority(rollout, agent) for agent in AGENTS}
    return result


def _part(rollout: Rollout, agent: AgentID, role: Role) -> dict[str, Any]:
    stage = stage_of(rollout, agent, role)
    verdicts = [outcome_of(episode, agent, role).verdict.correct for episode in rollout.episodes]
    return {
        "correct": "".join({True: "1", False: "0", None: "-"}[right] for right in verdicts),
        "tokens": stage.tokens,
        "well_formed": stage.well_formed.value,
    }


def _cascade(rollout: Rollout, drafter: AgentID, solver: AgentID) -> dict[str, Any]:
    """The solver's answers; tokens are those of both stages."""
    draft, solution = _part(rollout, drafter, "drafter"), _part(rollout, solver, "solver")
    return {
        **solution,
        "draft": draft["correct"],
        "solution_tokens": solution["tokens"],
        "tokens": draft["tokens"] + solution["tokens"],
    }


def _majority(rollout: Rollout, agent: AgentID) -> dict[str, Any]:
    """Votes over consecutive episodes of one problem; a tie counts its share of right answers."""
    shares = []
    for start in range(0, len(rollout.episodes), VOTERS):
        group = rollout.episodes[start : start + VOTERS]
        verdicts = [outcome_of(episode, agent, "drafter").verdict for episode in group]
        answers = [v.answer for v in verdicts]
        shares.append(maj_at_k(answers, [v.correct is True for v in verdicts], VOTERS))
    return {"share": shares, "tokens": VOTERS * stage_of(rollout, agent, "drafter").tokens}
