"""Two processes do the work of one: the same rollouts, gradients, files, and one clear end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import parallel_probe
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learners import processes
from learners.pair import PairTrainer
from learners.run_folder import EPISODES, EVALUATIONS, METRICS, RunFolder
from learners.schedule import Plan, plan_step

HERE = Path(__file__).parent
CASES = ("full", "lora", "kl", "ppo", "shared-draft-refill", "one-problem")


def launch(
    *arguments: object, count: int = 2, timeout: float = 540
) -> subprocess.CompletedProcess[str]:
    """`torchrun`, one thread per process; accelerate's own launcher starts GPU processes alone."""
    options = f"torch.distributed.run --standalone --nproc-per-node {count} --".split()
    return subprocess.run(
        [sys.executable, "-m", *options, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def last_weights(run: Path) -> dict[str, torch.Tensor]:
    """The trained weights of both agents after the last step."""
    trainer = PairTrainer.resume(run)
    found = {
        f"{agent}.{name}": parameter.detach().clone()
        for agent, player in trainer.players.items()
        for name, parameter in player.policy.trainable_parameters().items()
    }
    trainer.close()
    return found


def compare_runs(one: Path, two: Path) -> None:
    """The same run, up to the order of sums."""
    first, second = RunFolder(one), RunFolder(two)
    for line, other in zip(first.lines(METRICS), second.lines(METRICS), strict=True):
        assert line.keys() == other.keys()
        for key in line:
            if not key.startswith("seconds/"):
                assert other[key] == pytest.approx(line[key], rel=1e-3, abs=1e-5), key
    last = [line for line in first.lines(EVALUATIONS) if line["step"] == parallel_probe.STEPS]
    assert [line["split"] for line in last] == ["validation", "test"]
    assert second.lines(EVALUATIONS)[-2:] == last
    for line, other in zip(first.lines(EPISODES), second.lines(EPISODES), strict=True):
        assert line == other
    expected, found = last_weights(one), last_weights(two)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-5, msg=name)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """All cases, played by one process and by two."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    begun = PairTrainer(parallel_probe.cases(two)["full"], two / "begun-by-one")
    begun.train_step()
    begun.save()
    begun.close()
    done = launch(HERE / "parallel_probe.py", "cases", two)
    assert done.returncode == 0, done.stderr[-3000:]
    configs = parallel_probe.cases(one)
    assert tuple(configs) == CASES
    for name, config in configs.items():
        PairTrainer(config, one / name).train()
    return one, two


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_make_the_run_of_one(roots: tuple[Path, Path], name: str) -> None:
    """Pitfalls of ranks: groups are whole, counts global, gradients summed, streams shared out."""
    compare_runs(roots[0] / name, roots[1] / name)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(roots: tuple[Path, Path]) -> None:
    one, two = roots
    compare_runs(one / "full", two / "begun-by-one")
    PairTrainer.resume(two / "begun-by-two").train()
    compare_runs(one / "lora", two / "begun-by-two")


@pytest.mark.slow
def test_an_error_is_the_same_line_in_all_processes(roots: tuple[Path, Path]) -> None:
    errors = [json.loads((roots[1] / f"errors-{rank}.json").read_text()) for rank in (0, 1)]
    assert errors[0] == errors[1]
    assert "already holds a run" in errors[0]["exists"]
    assert 'engine "vllm" runs in one process' in errors[0]["vllm"]
    assert (
        "the weights of agent_0 must be the same in all processes, got others in [1]"
        in (errors[0]["apart"])
    )


@pytest.mark.slow
def test_a_process_that_fails_ends_the_run(tmp_path: Path) -> None:
    start = time.monotonic()
    done = launch(HERE / "parallel_probe.py", "lose-one", tmp_path, timeout=240)
    assert done.returncode != 0
    lost = [json.loads((tmp_path / f"lost-{rank}.json").read_text()) for rank in (0, 1)]
    assert lost[0] == lost[1], "both say what only one met"
    assert "the logits of a Qwen3ForCausalLM must be finite" in lost[0]["error"]
    assert lost[0]["of all"], "so that one of them prints it"
    assert time.monotonic() - start < 180


@pytest.mark.slow
def test_the_example_runs_in_two_processes_and_prints_once(tmp_path: Path) -> None:
    options = "--steps 1 --train-problems 40 --problems-per-step 2 --samples 2 --eval-every 0"
    sizes = "--validation-problems 4 --test-problems 4 --device cpu"
    script = HERE.parent / "examples" / "train_pair.py"
    run = tmp_path / "run"
    done = launch(script, "tiny", "--run", run, *options.split(), *sizes.split())
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("pass@1 on 4 held-out problems") == 1


@given(st.integers(0, 40), st.integers(1, 9))
def test_shares_and_parts_cover_everything_once(items: int, count: int) -> None:
    everything = list(range(items))
    shares, parts = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLD_SIZE", str(count))
        for rank in range(count):
            patch.setenv("RANK", str(rank))
            shares += processes.share(everything)
            parts += everything[slice(*processes.bounds(items))]
    assert sorted(shares) == everything
    assert parts == everything


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6, unique=True),
    st.sampled_from(["step", "episode", "both", "fixed"]),
    st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_part_of_a_plan_has_the_matches_and_requests_of_the_whole(
    ids: list[str], rotation, samples: int, step: int, shared: bool
) -> None:
    whole = plan_step(
        ids, step, samples=samples, rotation=rotation, regime="pair", shared_draft=shared
    )
    groups = whole.groups()
    assert [i for group in groups for i in group] == list(range(len(ids) * samples))
    for group in groups:
        part = whole.between(group.start, group.stop)
        assert [group.start + i for i in part.draft_of] == list(
            whole.draft_of[group.start : group.stop]
        )
        for agent in ("agent_0", "agent_1"):
            for role in ("drafter", "solver"):
                of_whole = [i for i in whole.acts(agent, role) if i in group]
                assert [group.start + i for i in part.acts(agent, role)] == of_whole


def test_one_process_needs_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")  # as left over from another program
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert (processes.rank(), processes.count(), processes.is_main()) == (0, 1, True)
    assert processes.gather("x") == ["x"]
    assert processes.from_main(lambda: 4) == 4
    assert Plan.simple(["a"], "both").groups() == [range(1)]


def test_several_processes_take_no_single_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ValueError, match='device must be "auto", "cpu" or "cuda", got \'cuda:0\''):
        processes.connect("cuda:0")
