"""The embedded engine: its samples, log-probs and stops, for every family."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_llm
import torch
import transformers
from scipy.stats import chisquare
from tiny_llm import FAMILIES, WINDOW, policy, tokenizer, trajectory
from tiny_llm import model as tiny_model

from learners.batch import collate
from learners.engines import Completion, HFEngine, Sampling
from learners.engines.hf import sample_tokens
from learners.logprobs import completion_logprobs
from learners.policy import Policy, context_of

ROUNDING = 5e-5
"""Between the trainer's and the engine's log-probs in float32, nats."""
EXACT = {"qwen3_5": ROUNDING}
"""The same for float64 weights where it is above 1e-6: the recurrence of Qwen 3.5 is float32
inside, and its chunked form (training) adds in another order than its step by step form (decoding).
"""


def prompts(*lengths: int, seed: int = 0) -> list[list[int]]:
    """Random prompts of ordinary tokens."""
    draw = np.random.default_rng(seed)
    return [draw.integers(7, 260, length).tolist() for length in lengths]


def recomputed(player: Policy, requests: list[list[int]], done: list[Completion], t: float):
    """The trainer's log-probs of what was sampled, (B, C), with the engine's and the mask."""
    rows = [
        trajectory(prompt, list(c.ids), logprobs=list(c.logprobs))
        for prompt, c in zip(requests, done, strict=True)
    ]
    batch = collate(rows, player.pad_id)
    with torch.no_grad():
        logprobs, _ = completion_logprobs(player.model, batch, t)
    return logprobs, batch.sampler_logprobs, batch.completion_mask


class Counter:
    """Records the shape of the ids of every forward pass of a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.shapes: list[tuple[int, ...]] = []
        model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "temperature"), [("float64", 0.7), ("float32", 1.0)])
def test_the_trainer_recomputes_the_engines_logprobs(family, dtype, temperature):
    """Pitfalls 5, 10, 17: ragged prompts, equal prompts, rows that finish early, sequences longer
    than the sliding window, more left padding than one chunk of the recurrence. The float64 run
    shows that what is left in float32 is rounding."""
    player = policy(family)
    player.model.to(getattr(torch, dtype))
    a, b, c = prompts(3, 75, 6)
    requests = [a, b, c, a, *prompts(1, 9, seed=1), a]
    sampling = Sampling(max_new_tokens=20, temperature=temperature)
    done = HFEngine().generate(player, requests, sampling, seed=4)
    assert max(len(c.ids) for c in done) > WINDOW
    trainer, engine, mask = recomputed(player, requests, done, temperature)
    bound = ROUNDING if dtype == "float32" else EXACT.get(family, 1e-6)
    assert ((trainer - engine) * mask).abs().max() < bound


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_and_neighbours_do_not_change_a_rows_logprobs(family):
    """Pitfall 5: alone and unpadded, or beside a much longer prompt."""
    player = policy(family)
    player.model.double()
    rows = [trajectory(p, q) for p, q in zip(prompts(2, 80, 5), prompts(9, 3, 1), strict=True)]
    together, _ = completion_logprobs(player.model, collate(rows, 0), 1.0)
    for i, row in enumerate(rows):
        alone, _ = completion_logprobs(player.model, collate([row], 0), 1.0)
        width = len(row.completion_ids)
        assert (together[i, :width] - alone[0]).abs().max() < EXACT.get(family, 1e-6)


@pytest.mark.parametrize("family", ["gemma3", "gemma4"])
def test_the_sliding_window_matters_in_these_tests(family):
    """The comparison above would pass for an engine that ignores windows if they were too wide."""
    player, ids = policy(family), torch.tensor(prompts(30))
    with torch.no_grad():
        narrow = player.model(ids).logits
        wide_model = tiny_model(family)
        wide_model.config.sliding_window = 512
        for module in wide_model.modules():
            if hasattr(module, "sliding_window") and module.sliding_window is not None:
                module.sliding_window = 512
        wide = wide_model(ids).logits
    assert (narrow - wide)[:, WINDOW + 1 :].abs().max() > 0.01
    torch.testing.assert_close(narrow[:, :WINDOW], wide[:, :WINDOW])


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_decoding_equals_transformers_generate(family):
    player = policy(family)
    requests = prompts(4, 11, 7)
    done = HFEngine().generate(player, requests, Sampling(12, temperature=0), seed=0)
    for prompt, completion in zip(requests, done, strict=True):
        expected = player.model.generate(
            torch.tensor([prompt]),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=list(player.stop_ids),
            pad_token_id=0,
        )[0, len(prompt) :].tolist()
        assert list(completion.ids) == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_does_not_depend_on_its_batch(family):
    """Request i draws from the stream (seed, i), whoever else is there or has left (pitfall 70)."""
    player = policy(family)
    forced(player, player.stop_ids[0], strength=3.0)  # rows stop at different steps
    requests = prompts(5, 3, 8, 3, 12, 5)
    together = HFEngine().generate(player, requests, Sampling(10), seed=3)
    pairs = HFEngine(max_rows=2).generate(player, requests, Sampling(10), seed=3)
    small = HFEngine(max_tokens=40).generate(player, requests, Sampling(10), seed=3)
    first = HFEngine().generate(player, requests[:1], Sampling(10), seed=3)
    for other in (pairs, small):
        assert [c.ids for c in other] == [c.ids for c in together]
    assert first[0].ids == together[0].ids
    assert len({c.ids for c in together}) > len(together) / 2
    assert len({len(c.ids) for c in together}) > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_common_beginning_changes_no_logprob(family):
    """Ragged rests behind a shared prefix: the trainer, without any cache, finds the same."""
    player = policy(family)
    player.model.double()
    (prefix,) = prompts(30)
    requests = [[*prefix, *rest] for rest in prompts(1, 9, 4, 4, seed=1)]
    done = HFEngine().generate(player, requests, Sampling(8, temperature=0.7), seed=4)
    trainer, engine, mask = recomputed(player, requests, done, 0.7)
    assert ((trainer - engine) * mask).abs().max() < EXACT.get(family, 1e-6)


@pytest.mark.parametrize(
    ("family", "prefills"),
    [("llama", [(1, 30), (3, 9)]), ("qwen3", [(1, 30), (3, 9)]), ("gemma3", [(3, 39)])],
)
def test_a_common_beginning_runs_once_where_every_layer_attends_to_all(family, prefills):
    player = policy(family)
    counter = Counter(player.model)
    (prefix,) = prompts(30)
    requests = [[*prefix, *rest] for rest in ([20] * 9, [21] * 2, [22] * 5)]
    HFEngine().generate(player, requests, Sampling(2), seed=0)
    assert counter.shapes[: len(prefills)] == prefills
    assert counter.shapes[len(prefills)] == (3, 1)


@pytest.mark.parametrize("family", ["gemma3", "gemma4"])
def test_a_window_that_holds_everything_lets_a_common_beginning_run_once(family, monkeypatch):
    """30 common tokens, up to 9 more, 8 sampled: 47. One token more and the window slides."""
    (prefix,) = prompts(30)
    requests = [[*prefix, *rest] for rest in prompts(1, 9, 4, 4, seed=1)]
    for window, first in ((47, (1, 30)), (46, (4, 39))):
        monkeypatch.setattr(tiny_llm, "WINDOW", window)
        player = policy(family)
        player.model.double()
        counter = Counter(player.model)
        done = HFEngine().generate(player, requests, Sampling(8, temperature=0.7), seed=4)
        assert counter.shapes[0] == first
        trainer, engine, mask = recomputed(player, requests, done, 0.7)
        assert ((trainer - engine) * mask).abs().max() < EXACT.get(family, 1e-6)


def test_equal_prompts_are_prefilled_once_and_sampled_apart():
    player = policy()
    counter = Counter(player.model)
    (prompt,) = prompts(9)
    done = HFEngine().generate(player, [prompt] * 6, Sampling(5), seed=0)
    assert counter.shapes[0] == (1, 9)
    assert counter.shapes[1] == (6, 1)
    assert len({c.ids for c in done}) == 6


def forced(player: Policy, token: int, strength: float = 100.0) -> Policy:
    """Make one token likely, or all but certain, by a bias on the logits."""
    head = player.model.get_output_embeddings()
    bias = torch.zeros(head.out_features)
    bias[token] = strength
    head.register_forward_hook(lambda module, args, output: output + bias)
    return player


@pytest.mark.parametrize("stop", ["<eos>", "<|im_end|>"])
def test_every_stop_id_ends_a_completion_and_is_part_of_it(stop):
    """Pitfalls 1, 4, 7: the second id is known to the chat format alone."""
    player = policy()
    token = player.tokenizer.convert_tokens_to_ids(stop)
    done = HFEngine().generate(forced(player, token), prompts(3, 4), Sampling(6), seed=0)
    for completion in done:
        assert completion.ids == (token,)
        assert completion.finished


def test_a_model_without_a_template_stops_at_its_stop_text_and_is_trained_on_it():
    """A base model ends where it starts the next question; the trainer sees what was sampled."""
    player = policy()
    player.tokenizer.chat_template = None
    ids = player.tokenizer("\nQuestion:", add_special_tokens=False)["input_ids"]
    step = {"number": -3}  # two tokens are free: that of the prompt's pass and the next

    def push(module, args, output):
        step["number"] += 1
        if not 0 <= step["number"] < len(ids):
            return output
        bias = torch.zeros(output.shape[-1])
        bias[ids[step["number"]]] = 1e4
        return output + bias

    handle = player.model.get_output_embeddings().register_forward_hook(push)
    request = prompts(5)
    (done,) = HFEngine().generate(player, request, Sampling(30, temperature=1.0), seed=1)
    handle.remove()
    assert done.finished
    assert len(done.ids) == 2 + len(ids)
    assert list(done.ids[2:]) == ids
    prompt = player.encode([{"role": "user", "content": "1 + 1"}])
    assert "Question" not in player.decode(done.ids, prompt)
    trainer, engine, mask = recomputed(player, request, [done], 1.0)
    free = (trainer - engine)[0, :2].abs().max()
    assert free < ROUNDING, "the tokens that were not pushed"
    assert mask.sum() == len(done.ids), "those of the stop text are trained as sampled"


def test_stop_ids_come_from_a_list_in_the_generation_config():
    """Pitfall 4: Gemma 3 and Qwen 3 name two."""
    model = tiny_model("gemma3")
    model.generation_config.eos_token_id = [2, 100]
    assert Policy(model, tokenizer()).stop_ids == (2, 100, 4)


def test_a_completion_cut_by_the_limit_is_unfinished_and_has_no_stop_token():
    """Pitfalls 2, 7."""
    player = policy()
    word = player.tokenizer.convert_tokens_to_ids("the")
    (done,) = HFEngine().generate(forced(player, word), prompts(3), Sampling(4), seed=0)
    assert done.ids == (word,) * 4
    assert not done.finished


def test_finished_rows_leave_the_batch_and_nothing_runs_after_the_last():
    """One row of eight stops first: too few for a copy of the cache, but it must not keep the
    batch alive when the other seven have stopped."""
    player = policy()
    counter = Counter(player.model)
    schedule = {1: [0], 3: [1, 2, 3, 4, 5, 6, 7]}  # step -> rows that stop
    head = player.model.get_output_embeddings()

    def force(module: torch.nn.Module, args: tuple, output: torch.Tensor) -> torch.Tensor:
        step = len(counter.shapes) - 1
        output = output.clone()
        output[..., list(player.stop_ids)] = -1e4
        if step in schedule and output.shape[0] == 8:
            output[schedule[step], :, player.stop_ids[0]] = 1e4
        return output

    head.register_forward_hook(force)
    done = HFEngine().generate(player, prompts(5) * 8, Sampling(50), seed=0)
    assert [len(c.ids) for c in done] == [2, 4, 4, 4, 4, 4, 4, 4]
    assert len(counter.shapes) == 4


def test_rows_are_compacted_as_they_finish():
    player = policy(seed=1)
    counter = Counter(player.model)
    bias = torch.zeros(player.model.get_output_embeddings().out_features)
    bias[player.stop_ids[0]] = 4.0  # stops after a few tokens
    player.model.get_output_embeddings().register_forward_hook(lambda m, a, out: out + bias)
    requests = prompts(*[4] * 40)
    done = HFEngine().generate(player, requests, Sampling(60), seed=0)
    rows = [shape[0] for shape in counter.shapes]
    assert rows[0] == 40
    assert sorted(rows, reverse=True) == rows
    assert rows[-1] < 10
    trainer, engine, mask = recomputed(player, requests, done, 1.0)
    assert ((trainer - engine) * mask).abs().max() < 1e-5


DRAWS = 20_000


def drawn(logits: torch.Tensor, sampling: Sampling) -> np.ndarray:
    """How often each token is drawn in `DRAWS` draws."""
    uniforms = torch.from_numpy(np.random.default_rng(0).random(DRAWS))
    tokens, _ = sample_tokens(logits.expand(DRAWS, -1), uniforms, sampling)
    return np.bincount(tokens.numpy(), minlength=logits.shape[-1])


LOGITS = torch.tensor([[1.5, 0.0, -1.0, 2.0, 0.5, -3.0, 1.0, 0.25]])


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_draws_follow_the_softmax_at_the_temperature(temperature):
    """Pitfall 10. A p-value this small comes by chance once in 10^4 seeds; the seed is fixed."""
    expected = (LOGITS[0].double() / temperature).softmax(0).numpy() * DRAWS
    counts = drawn(LOGITS, Sampling(1, temperature=temperature))
    assert chisquare(counts, expected).pvalue > 1e-4
    other = (LOGITS[0].double() / (temperature * 1.1)).softmax(0).numpy() * DRAWS
    assert chisquare(counts, other).pvalue < 1e-4, "the test must see a temperature 10% off"


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"),
    [
        (3, 1.0, 0.0),
        (0, 0.8, 0.0),
        (0, 0.3, 0.0),
        (4, 0.75, 0.0),
        (2, 0.9, 0.0),
        (1, 1.0, 0.0),
        (0, 1.0, 0.2),
        (0, 0.9, 0.15),
        (5, 0.95, 0.5),
        (0, 1.0, 1.0),
    ],
)
def test_filters_keep_what_transformers_keeps(top_k, top_p, min_p):
    """The filters of `transformers` themselves are the oracle, in their order: k, p, min-p."""
    kept = LOGITS / 0.8
    if top_k:
        kept = transformers.TopKLogitsWarper(top_k)(None, kept)  # pyright: ignore
    if top_p < 1:
        kept = transformers.TopPLogitsWarper(top_p)(None, kept)  # pyright: ignore
    if min_p:
        kept = transformers.MinPLogitsWarper(min_p)(None, kept)  # pyright: ignore
    expected = kept[0].double().softmax(0).numpy() * DRAWS
    sampling = Sampling(1, temperature=0.8, top_p=top_p, top_k=top_k, min_p=min_p)
    counts = drawn(LOGITS, sampling)
    support = expected > 0
    assert counts[~support].sum() == 0
    if support.sum() > 1:
        assert chisquare(counts[support], expected[support]).pvalue > 1e-4


def test_filters_do_not_change_the_reported_logprobs():
    """Pitfall 11: the log-prob is of the unfiltered distribution, as the trainer has it."""
    uniforms = torch.tensor([0.1])
    tokens, logprobs = sample_tokens(LOGITS, uniforms, Sampling(1, temperature=0.8, top_k=1))
    assert tokens.item() == 3
    expected = (LOGITS / 0.8).log_softmax(-1)[0, 3]
    torch.testing.assert_close(logprobs[0], expected)


def test_the_ends_of_the_unit_interval_draw_tokens_with_weight():
    """A zero-probability token first or last must not be drawn at u = 0 or u -> 1, which float32
    rounds to 1."""
    logits = torch.tensor([[-1e9, 0.0, 1.0, -1e9]])
    for u in (0.0, 1 - 2**-53, 1.0):
        tokens, logprobs = sample_tokens(logits, torch.tensor([u], dtype=torch.float64), Sampling())
        assert tokens.item() in (1, 2)
        assert torch.isfinite(logprobs).all()


def test_diverged_weights_stop_the_engine():
    """Pitfalls 15, 39: NaN logits are no tokens."""
    player = policy()
    with torch.no_grad():
        player.model.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="must be finite"):
        HFEngine().generate(player, prompts(3), Sampling(4), seed=0)


def test_no_prompts_give_no_completions_and_empty_prompts_are_refused():
    assert HFEngine().generate(policy(), [], Sampling(4), seed=0) == []
    with pytest.raises(ValueError, match="at least one token"):
        HFEngine().generate(policy(), [[]], Sampling(4), seed=0)


def test_a_model_in_training_stays_in_training():
    player = policy()
    player.model.train()
    HFEngine().generate(player, prompts(3), Sampling(2), seed=0)
    assert player.model.training


def test_what_does_not_fit_into_the_context_is_refused():
    """Rotary models run past it without an error, and say nonsense."""
    player = policy("qwen3")  # 512 positions
    prompts = [[8, 9], [8] * 505]
    assert HFEngine().generate(player, prompts, Sampling(max_new_tokens=7), seed=0)
    with pytest.raises(ValueError, match=r"505 tokens and 8 new ones do not fit .* context of 512"):
        HFEngine().generate(player, prompts, Sampling(max_new_tokens=8), seed=0)


def test_a_context_extended_by_yarn_counts_as_such():
    model = tiny_model("qwen3")
    assert context_of(model) == 512
    model.config.rope_parameters |= {"factor": 4.0, "original_max_position_embeddings": 512}
    assert context_of(model) == 2048
