"""The tiny models, what they are taught, and the folders that hold them."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon_env.tasks import load_problems
from agon_env.tasks.carry import CARRY
from agon_env.tasks.chains import FAMILIES, judge, read_question, write_derivation
from agon_env.tasks.modchain import MODCHAIN
from agon_env.tasks.procedural import content_split
from agon_env.types import Problem
from learners.models import load_model
from learners.tiny_models import KINDS, tiny_model, tiny_tokenizer, vocabulary
from learners.warm_models import SHIPPED, warm_models
from learners.warmup import (
    WarmUp,
    batches,
    encode,
    example_tokens,
    folder_name,
    knowledge_of,
    pair_folders,
    train,
    warm_up,
    warm_up_pair,
)
from learners.warmup_data import Curriculum, Knowledge, draw_examples, training_rows

SHORT = WarmUp(steps=2, batch_size=8)
VOCABULARY = vocabulary(MODCHAIN)
FACTS = MODCHAIN.facts


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def drawn(copy: bool, size: int = 400, **changes):
    curriculum = replace(Curriculum(), **changes)
    knowledge = knowledge_of(MODCHAIN, "qwen3", 0, curriculum)
    rng = np.random.default_rng(5)
    return knowledge, draw_examples(knowledge, curriculum, rng, size=size, copy=copy)


def steps_of(examples):
    """(row, step, operation, value before, value written) of every valid step."""
    for row, length in enumerate(examples.lengths_B):
        value = examples.start_B[row]
        for step in range(length):
            written = examples.values_BL[row, step]
            yield row, step, examples.operations_BL[row, step], value, written
            value = written


# --- the tokenizer and the models ---------------------------------------------------------------


@pytest.mark.parametrize("draft", ["", "+4 7 *2 3 +10 ?"])
def test_chat_template_gives_the_prompt_tokens_and_nothing_else(draft):
    observation = {"role": "solver", "problem": "3 +4 *2 +10", "draft": draft}
    tokenizer = tiny_tokenizer(MODCHAIN)
    messages = MODCHAIN.template.messages(observation)
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    prompt = "< 3 +4 *2 +10 D: +4 7 *2 3 +10 ? A:" if draft else "< 3 +4 *2 +10 A:"
    assert tokenizer.convert_ids_to_tokens(ids) == prompt.split()


def test_decoded_tokens_are_the_text_that_the_template_reads():
    problem = load_problems("modchain-hard", limit=1)[0]
    chain = read_question(MODCHAIN, problem.question)
    text = write_derivation(chain.operations, chain.values())
    tokenizer = tiny_tokenizer(MODCHAIN)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    assert len(ids) == 17
    for skip in (True, False):
        assert judge(MODCHAIN, problem, tokenizer.decode(ids, skip_special_tokens=skip)).correct


def test_padding_is_not_the_stop_token():
    """Pitfall 3: a pad id that equals the stop id cannot be told from a real stop."""
    tokenizer = tiny_tokenizer(MODCHAIN)
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert len(set(VOCABULARY)) == len(VOCABULARY) == len(tokenizer)


@pytest.mark.parametrize("kind", KINDS)
def test_model_is_tiny_knows_its_stop_id_and_depends_on_the_seed_alone(kind):
    state = torch.get_rng_state()
    first, again, other = (tiny_model(MODCHAIN, kind, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    model = tiny_model(MODCHAIN, kind, 1)
    assert 200_000 < sum(p.numel() for p in model.parameters()) < 250_000
    assert model.generation_config.eos_token_id == tiny_tokenizer(MODCHAIN).eos_token_id


def test_unknown_family_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="unknown tiny model 'llama'; choose one of"):
        tiny_model(MODCHAIN, "llama", 0)


# --- what they are taught -----------------------------------------------------------------------


def test_gaps_are_disjoint_and_of_the_size_asked_for():
    knowledge = Knowledge.draw(MODCHAIN, np.random.default_rng(0), unknown=0.15, mistaken=0.15)
    assert FACTS.size == 209
    assert (~knowledge.known).sum() == knowledge.mistaken.sum() == 31  # floor(0.15 * 209)
    assert not (knowledge.mistaken & ~knowledge.known).any()


def test_the_two_families_have_different_gaps():
    first, second = (knowledge_of(MODCHAIN, kind, 0, Curriculum()) for kind in KINDS)
    assert (~first.known & ~second.known).sum() < 15  # 31 * 31 / 209 = 4.6 by chance


@pytest.mark.parametrize("copy", [True, False])
def test_an_unknown_fact_never_appears_in_a_target(copy):
    knowledge, examples = drawn(copy)
    assert all(knowledge.known[op, value] for _, _, op, value, _ in steps_of(examples))


def test_operations_of_an_example_are_distinct():
    _, examples = drawn(copy=False)
    for row in range(50):
        operations = examples.chain(row).operations
        assert len(set(operations)) == len(operations)


def test_copying_targets_follow_the_draft_up_to_the_withheld_value():
    _, examples = drawn(copy=True, with_draft=1.0, mistake_shown=0.0)
    contradictions = 0
    for row, step, op, value, written in steps_of(examples):
        if step == examples.lengths_B[row] - 1:
            assert written == FACTS[op, value]
        else:
            assert written == examples.draft_BL[row, step]
            contradictions += written != FACTS[op, value]
    assert contradictions > 100


def test_later_targets_follow_a_wrong_draft_as_often_as_asked():
    _, examples = drawn(copy=False, size=3000, with_draft=1.0, mistake_shown=0.0)
    followed = [
        written == examples.draft_BL[row, step]
        for row, step, op, value, written in steps_of(examples)
        if step < examples.lengths_B[row] - 1 and examples.draft_BL[row, step] != FACTS[op, value]
    ]
    assert len(followed) > 2000
    assert np.mean(followed) == pytest.approx(Curriculum().follow, abs=0.04)  # 4 sd at n = 2000


def test_misconceptions_are_shown_as_often_as_asked_and_nowhere_else():
    knowledge, examples = drawn(copy=False, size=3000, with_draft=0.0)
    wrong = {True: [], False: []}
    for _, _, op, value, written in steps_of(examples):
        wrong[bool(knowledge.mistaken[op, value])].append(written != FACTS[op, value])
    assert len(wrong[True]) > 1000
    assert np.mean(wrong[True]) == pytest.approx(Curriculum().mistake_shown, abs=0.06)
    assert not any(wrong[False])


def test_every_length_of_the_task_is_taught():
    _, examples = drawn(copy=False)
    assert set(examples.lengths_B) == {
        length for lengths in MODCHAIN.lengths.values() for length in lengths
    }


def test_held_out_problems_are_not_taught():
    _, examples = drawn(copy=False)
    rows = training_rows(examples)
    assert 0.7 < len(rows) / 400 < 0.9
    assert {content_split(examples.chain(row).question) for row in rows} == {"train"}


def test_last_value_of_a_draft_is_withheld_from_the_prompt():
    _, examples = drawn(copy=False, with_draft=1.0)
    for row in range(50):
        prompt, target = example_tokens(examples, row)
        length = len(examples.chain(row).operations)
        assert prompt[-2:] == ["?", "A:"]
        assert prompt.count("?") == 1
        assert len(prompt) == 1 + 1 + length + 1 + 2 * length + 1
        assert len(target) == 2 * length + 1
        assert target[-1] == "!"


def test_prompts_are_tokenized_as_the_chat_template_does():
    """Pitfall 53: what a model was taught and what it is asked are the same ids."""
    _, examples = drawn(copy=False, size=30)
    tokenizer = tiny_tokenizer(MODCHAIN)
    for row in range(30):
        prompt, target = example_tokens(examples, row)
        draft = " ".join(prompt[prompt.index("D:") + 1 : -1]) if "D:" in prompt else ""
        observation = {"problem": examples.chain(row).question, "draft": draft}
        messages = MODCHAIN.template.messages(observation)
        asked = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        token_ids, labels = encode(MODCHAIN, [(prompt, target)])
        assert token_ids[0, : len(prompt)].tolist() == asked
        assert (labels[0, : len(prompt)] == -100).all()
        assert tokenizer.convert_ids_to_tokens(token_ids[0, len(prompt) :].tolist()) == target


def test_pads_carry_no_label():
    """Pitfall 2: padding must not enter the targets."""
    token_ids, labels = encode(MODCHAIN, [(["<", "3", "A:"], ["!"]), (["<", "A:"], ["!"])])
    assert token_ids[1].tolist() == [VOCABULARY.index(t) for t in ("<", "A:", "!", "<pad>")]
    assert labels[1].tolist() == [-100, -100, VOCABULARY.index("!"), -100]


def test_chunks_leave_the_gradient_of_a_step_unchanged():
    """Pitfall 31: the loss is a mean over the step's tokens, not a mean of the chunks' means."""
    recipe = replace(SHORT, steps=1, batch_size=24, max_grad_norm=1e9, lr={"qwen3": 0.0})
    chunked = tiny_model(MODCHAIN, "qwen3", 0)
    losses = []
    train(chunked, MODCHAIN, "qwen3", 0, recipe, lambda step, loss: losses.append(loss))
    whole = tiny_model(MODCHAIN, "qwen3", 0)
    total, count = torch.zeros(()), 0
    for token_ids, labels in next(batches(MODCHAIN, "qwen3", 0, recipe)):
        for ids, wanted in zip(token_ids, labels, strict=True):
            length = int((wanted != -100).nonzero()[-1]) + 1
            logits = whole(input_ids=ids[None, :length]).logits[0, :-1]
            targets = wanted[1:length]
            chosen = logits.log_softmax(-1)[targets != -100, targets[targets != -100]]
            total, count = total - chosen.sum(), count + len(chosen)
    (total / count).backward()
    assert losses == [pytest.approx((total / count).item(), rel=1e-5)]
    for (name, p), q in zip(chunked.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-6, msg=name)


def test_learning_rate_rises_to_its_peak_and_falls_to_its_floor():
    recipe = WarmUp()
    rates = [recipe.lr_at("qwen3", step) for step in range(recipe.steps)]
    assert rates[0] == pytest.approx(4e-3 / 30)
    assert rates[-1] == pytest.approx(4e-4)
    assert 20 <= int(np.argmax(rates)) <= 35


# --- the folders --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_up_moves_every_weight_and_writes_a_folder_that_loads(kind, tmp_path):
    folder = warm_up(MODCHAIN, kind, 3, tmp_path / "model", SHORT)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = tiny_model(MODCHAIN, kind, 3).state_dict()
    after = model.state_dict()
    assert after.keys() == before.keys()
    unmoved = {name for name in before if torch.equal(before[name], after[name])}
    assert not unmoved
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == tiny_tokenizer(MODCHAIN).chat_template
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert json.loads((folder / "warmup.json").read_text())["recipe"]["steps"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # no partial folder is left


def test_a_seed_gives_the_same_weights_twice():
    first, again = tiny_model(MODCHAIN, "gemma3", 0), tiny_model(MODCHAIN, "gemma3", 0)
    for model in (first, again):
        train(model, MODCHAIN, "gemma3", 0, SHORT)
    for p, q in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)


def test_an_existing_folder_is_not_overwritten(tmp_path):
    with pytest.raises(FileExistsError, match="must not exist yet"):
        warm_up(MODCHAIN, "qwen3", 0, tmp_path, SHORT)


def test_a_folder_that_another_process_finished_first_is_taken(tmp_path, monkeypatch):
    """Two processes that make the same model at the same time."""
    first = warm_up(MODCHAIN, "qwen3", 0, tmp_path / "first", SHORT)
    out = tmp_path / "model"
    replace_folder = os.rename

    def be_late(source, target):
        shutil.copytree(first, target)
        replace_folder(source, target)

    monkeypatch.setattr("learners.warmup.os.rename", be_late)
    assert warm_up(MODCHAIN, "qwen3", 0, out, SHORT) == out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "model"]


def test_a_folder_is_named_after_all_that_shaped_it():
    other = replace(SHORT, curriculum=Curriculum(follow=0.3))
    names = [
        folder_name("qwen3", 0, SHORT),
        folder_name("gemma3", 0, SHORT),
        folder_name("qwen3", 1, SHORT),
        folder_name("qwen3", 0, other),
    ]
    assert len(set(names)) == 4
    assert folder_name("qwen3", 0, replace(SHORT)) == names[0]


def test_the_shipped_models_are_those_of_todays_recipe_and_load(tmp_path):
    """A changed recipe must come with new weights, or seed 0 would silently warm up again."""
    assert all(folder.exists() for folder in pair_folders(MODCHAIN, SHIPPED, 0).values())
    names = warm_models("modchain-hard", 0, tmp_path)
    kinds = [load_model(name)[0].config.model_type for name in names]
    assert kinds == ["qwen3", "gemma3_text"]
    assert list(tmp_path.iterdir()) == [], "nothing was made"


def test_a_pair_that_is_there_is_not_made_again(tmp_path):
    folders = [tmp_path / "modchain" / folder_name(kind, 0, SHORT) for kind in KINDS]
    for folder in folders:
        folder.mkdir(parents=True)
    assert list(warm_up_pair(MODCHAIN, tmp_path, 0, SHORT)) == folders
    assert not any(any(folder.iterdir()) for folder in folders)


@pytest.mark.slow
def test_a_pair_is_made_in_two_processes(tmp_path):
    folders = warm_up_pair(MODCHAIN, tmp_path, 0, SHORT, quiet=True)
    kinds = [json.loads((folder / "config.json").read_text())["model_type"] for folder in folders]
    assert kinds == ["qwen3", "gemma3_text"]
    assert sorted((tmp_path / "modchain").iterdir()) == sorted(folders)


@pytest.mark.slow
def test_a_failure_in_a_process_reaches_the_caller(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        warm_up_pair(MODCHAIN, tmp_path / "file", 0, SHORT, quiet=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_short_warm_up_learns_most_of_the_table():
    """An eighth of the time of a real one: the facts are learned, the gaps are left."""
    curriculum = Curriculum(with_draft=0.0, levels=(("easy", 1.0),))
    recipe = WarmUp(steps=250, curriculum=curriculum)
    model = tiny_model(MODCHAIN, "gemma3", 0)
    losses = []
    train(model, MODCHAIN, "gemma3", 0, recipe, lambda step, loss: losses.append(loss))
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20])
    problems = load_problems("modchain-easy", split="test", limit=100)
    tokenizer = tiny_tokenizer(MODCHAIN)
    right = 0
    for problem in problems:
        messages = MODCHAIN.template.messages({"problem": problem.question, "draft": ""})
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        out = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)
        text = tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)
        right += judge(MODCHAIN, problem, text).correct
    assert 0.3 < right / len(problems) < 0.9  # (0.7 + some of 0.15) ^ 2.5 = 0.5


@pytest.mark.parametrize("rules", FAMILIES.values(), ids=FAMILIES)
def test_what_a_model_is_taught_is_judged_right_where_it_knows_the_facts(rules):
    """Examples of a model without gaps are right solutions of their own problems."""
    curriculum = Curriculum(unknown=0, mistaken=0, follow=0)
    knowledge = knowledge_of(rules, "qwen3", 0, curriculum)
    examples = draw_examples(knowledge, curriculum, np.random.default_rng(0), size=50, copy=False)
    for row in range(50):
        chain = examples.chain(row)
        problem = Problem("p", chain.question, chain.answer(), verifier=rules.name)
        assert judge(rules, problem, " ".join(example_tokens(examples, row)[1])).correct


def test_a_gap_of_carry_is_a_column_with_one_of_its_carries():
    knowledge = knowledge_of(CARRY, "qwen3", 0, Curriculum())
    assert knowledge.known.shape == (100, 2)
    assert (~knowledge.known).sum() == 30
    rng = np.random.default_rng(0)
    examples = draw_examples(knowledge, Curriculum(), rng, size=400, copy=False)
    states = np.array(CARRY.states)
    assert all(knowledge.known[op, states[value]] for _, _, op, value, _ in steps_of(examples))
