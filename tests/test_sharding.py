"""A full model in shards is the same model: two processes hold a half each and train as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sharding_probe
from safetensors.torch import load_file
from test_processes import HERE, compare_runs, launch

from learners.config import PairConfig
from learners.pair import PairTrainer
from learners.policy import LoRA
from learners.run_folder import RunFolder
from learners.update_config import UpdateConfig

CASES = ("full", "kl-masters-recomputed", "one-completion")
SHARDED = UpdateConfig(shard=True)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict]:
    """All cases by one process, which has no shards, and by two; what the one held."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    begun = PairTrainer(sharding_probe.cases(two)["full"], two / "begun-by-one")
    begun.train_step()
    begun.save()
    begun.close()
    done = launch(HERE / "sharding_probe.py", "cases", two)
    assert done.returncode == 0, done.stderr[-3000:]
    configs = sharding_probe.cases(one)
    assert tuple(configs) == CASES
    return one, two, {name: sharding_probe.train(c, one / name) for name, c in configs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_with_shards_make_the_run_of_one(roots, name: str) -> None:
    compare_runs(roots[0] / name, roots[1] / name)


@pytest.mark.slow
def test_each_of_two_processes_holds_half(roots) -> None:
    parts = [json.loads((roots[1] / f"held-{rank}.json").read_text()) for rank in (0, 1)]
    whole = roots[2]
    assert whole["kl-masters-recomputed"]["masters"] > 0
    assert whole["kl-masters-recomputed"]["reference"] > 0
    for name in CASES:
        for what in sharding_probe.HELD:
            for part in parts:  # rows of a weight are not divided, so not always a half
                assert part[name][what] == pytest.approx(whole[name][what] / 2, rel=0.02), what


@pytest.mark.slow
def test_a_process_is_about_half_as_large(tmp_path: Path) -> None:
    """bfloat16 with masters: 14 bytes of each parameter between two steps, and half of it."""
    done = launch(HERE / "sharding_probe.py", "memory", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"grown-{rank}.json").read_text())
        print(rank, found)
        assert found["shards"]["norm"] == pytest.approx(found["whole"]["norm"], rel=1e-2)
        assert found["whole"]["held"] > 200
        assert found["shards"]["held"] < 0.7 * found["whole"]["held"]


@pytest.mark.slow
def test_a_process_without_work_takes_part(roots) -> None:
    parts = [json.loads((roots[1] / f"held-{rank}.json").read_text()) for rank in (0, 1)]
    counts = [part["one-completion"]["microbatches"] for part in parts]
    assert (1, 0) in zip(*counts, strict=True)


@pytest.mark.slow
def test_a_pair_in_shards_is_no_pair_to_ask(roots) -> None:
    part = json.loads((roots[1] / "held-0.json").read_text())
    assert "the weights are spread over 2 processes" in part["refused"]["pair"]


@pytest.mark.slow
def test_a_sharded_run_goes_on_with_another_number_of_processes(roots) -> None:
    one, two, _ = roots
    compare_runs(one / "full", two / "begun-by-one")
    PairTrainer.resume(two / "begun-by-two").train()
    compare_runs(one / "kl-masters-recomputed", two / "begun-by-two")


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["agent_0", "agent_1"])
def test_a_checkpoint_of_shards_has_the_tensors_of_any_other(roots, agent: str) -> None:
    found = []
    for root in roots[:2]:
        checkpoint = RunFolder(root / "full").checkpoint()
        assert checkpoint is not None
        tensors = load_file(checkpoint / agent / "model.safetensors")
        found.append({name: tensor.shape for name, tensor in tensors.items()})
        config = json.loads((checkpoint / agent / "config.json").read_text())
        assert not config["architectures"][0].startswith("FSDP")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"lora": LoRA()}, "got lora"),
        ({"learner": ("grpo", "ppo")}, "knows no critic"),
        ({"engine": "vllm"}, 'needs engine "hf"'),
    ],
)
def test_what_has_no_shards_is_refused_in_one_line(changes, line: str) -> None:
    config = PairConfig(update=SHARDED)
    with pytest.raises(ValueError, match=line) as refused:
        replace(config, **changes)
    assert "\n" not in str(refused.value)
    assert "update.shard" in str(refused.value)
