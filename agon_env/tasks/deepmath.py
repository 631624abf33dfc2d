r"""DeepMath-103K -> `deepmath-easy`, `deepmath-medium` and `deepmath-hard`.

The rule is the definition (arXiv 2607.07690 trains on "difficulty 8, without binary answers"):
hard is 8 <= difficulty < 9, medium 5 to 8, easy below 5. Left out and counted: yes/no and
true/false answers (guessable, pitfall 65), questions that only ask for a proof, rows without an
answer or a difficulty, duplicates and near-duplicates anywhere in the data set.
The content hash of a question decides its split and its rank inside it (`content_split`), so the
choice never depends on row order, on the data set's version or on a seed: a row may come or go,
none ever moves from one split to another. Of each split the first by hash are taken.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agon_env.tasks.duplicates import Candidate, repeats
from agon_env.tasks.hub import HubData, is_here, kept_folder, rows
from agon_env.tasks.procedural import TENTHS
from agon_env.tasks.registry import Rejected, register_task
from agon_env.types import Problem

DATA = HubData(
    repo="zwhe99/DeepMath-103K",
    revision="5cf055d1fe3d7a2eb19719ac020211469736ae44",
    files={"train": ("data/train-*.parquet",)},
    columns=("question", "final_answer", "difficulty", "topic"),
)
BANDS = {"easy": (0.0, 5.0), "medium": (5.0, 8.0), "hard": (8.0, 9.0)}
"""Name -> difficulties from, below."""
RULE_VERSION = 1
"""To be raised with every change of the rule: the kept selection is then made anew."""
SIZES = {"train": 3000, "validation": 300, "test": 300}

DECORATION = re.compile(r"\\(?:text|mathrm|textbf|mathbf|boxed)\b|[\s${}().,!\\]")
BINARY = {"yes", "no", "true", "false"}
PROOF = re.compile(r"^\W*(?:please\s+)?(?:prove|show|verify|demonstrate|establish)\b", re.I)
ASKS = re.compile(
    r"\b(?:find|determine|compute|calculate|evaluate|what|which|how (?:many|much)|solve|give|"
    r"express|state|identify|minimum|maximum|smallest|largest)\b",
    re.I,
)


@dataclass(frozen=True)
class Row:
    """A question of the data set after the rule was applied."""

    candidate: Candidate
    difficulty: float
    topic: str | None
    reason: str | None
    """Why it is left out; None when it is eligible."""

    @property
    def split(self) -> str:
        """The split of its content."""
        return TENTHS[int(self.candidate.digest[:16], 16) * len(TENTHS) >> 64]


def is_binary(answer: str) -> bool:
    r"""Whether an answer is yes/no or true/false in any dress: `\text{Yes}`, `$True$.`, "No"."""
    return DECORATION.sub("", answer).lower() in BINARY


def asks_only_for_proof(question: str) -> bool:
    """Whether a question begins with "prove" or "show" and asks for nothing else."""
    return bool(PROOF.match(question)) and not ASKS.search(question)


def unusable(raw: Mapping[str, Any]) -> str | None:
    """Why a row of the data set cannot be a problem; None when it can."""
    question, answer, difficulty = raw["question"], raw["final_answer"], raw["difficulty"]
    if not isinstance(question, str) or not question.strip():
        return "no question"
    if not isinstance(answer, str) or not answer.strip():
        return "no answer"
    if difficulty is None or not math.isfinite(difficulty) or difficulty < 0:
        return "no difficulty"
    if is_binary(answer):
        return "binary answer"
    if asks_only_for_proof(question):
        return "proof only"
    return None


def apply_rule(raw_rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Every row with the reason it is left out, ordered by content hash."""
    judged = []
    for raw in raw_rows:
        candidate = Candidate(str(raw["question"] or ""), str(raw["final_answer"] or ""))
        difficulty = raw["difficulty"]
        difficulty = float("nan") if difficulty is None else float(difficulty)
        judged.append(Row(candidate, difficulty, raw["topic"], unusable(raw)))
    # Equal copies may differ in difficulty: the order of the file must not decide which stays.
    judged.sort(key=lambda row: (row.candidate.digest, row.candidate.question, str(row.difficulty)))
    usable = [i for i, row in enumerate(judged) if row.reason is None]
    repeated = repeats([judged[i].candidate for i in usable])
    for position, reason in repeated.items():
        row = judged[usable[position]]
        judged[usable[position]] = Row(row.candidate, row.difficulty, row.topic, reason)
    return judged


def select(judged: Iterable[Row], level: str, split: str) -> Iterator[Problem | Rejected]:
    """The problems of one split of one level, by content hash, and what was left out of it."""
    low, high = BANDS[level]
    taken = 0
    for row in judged:
        name = f"deepmath-{row.candidate.digest[:16]}"
        if row.split != split or not (
            low <= row.difficulty < high or row.reason == "no difficulty"
        ):
            continue
        if row.reason or taken == SIZES[split]:
            yield Rejected(name, row.reason or "beyond the split's size")
            continue
        taken += 1
        yield Problem(
            id=name,
            question=row.candidate.question.strip(),
            answer=row.candidate.answer.strip(),
            difficulty=row.difficulty,
            topic=row.topic,
            source=DATA.repo,
        )


def _load(split: str, *, level: str) -> Iterator[Problem | Rejected]:
    """The kept selection, made for all levels and splits when it is not there yet."""
    path = _kept_selection(level, split)
    if not path.exists():
        judged = apply_rule(rows(DATA, "train", task=f"deepmath-{level}"))
        for each_level in BANDS:
            for each_split in SIZES:
                _keep(list(select(judged, each_level, each_split)), each_level, each_split)
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        yield Rejected(**fields) if "reason" in fields else Problem(**fields)


def _kept_selection(level: str, split: str) -> Path:
    return kept_folder(DATA) / f"rule-{RULE_VERSION}" / f"{level}-{split}.jsonl"


def _keep(selection: list[Problem | Rejected], level: str, split: str) -> None:
    """Store a selection, so that the rule (seconds to a minute) runs once per machine."""
    path = _kept_selection(level, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    lines = (
        json.dumps({k: v for k, v in vars(item).items() if v is not None}) for item in selection
    )
    temporary.write_text("\n".join(lines), encoding="utf-8")
    temporary.replace(path)


for _level, (_low, _high) in BANDS.items():
    register_task(
        f"deepmath-{_level}",
        partial(_load, level=_level),
        sizes=SIZES,
        source=f"hf:{DATA.repo}@{DATA.revision[:7]}",
        licence="MIT",
        description=f"DeepMath-103K, difficulty {_low:g} <= d < {_high:g}",
        checks_golds=True,
        offline=partial(is_here, DATA),
    )
