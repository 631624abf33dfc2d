"""The engine of vLLM servers against a loopback server: refusals, retries, what is sent and pushed.

Against a real vLLM: `test_engine_vllm_server.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import probe_task
import pytest
import server_probe
import tiny_llm
from loopback_llm import loopback
from loopback_vllm import FakeVLLM, completion, refused, said
from test_processes import HERE, compare_runs, launch

from learners.adapters import perturb_adapter
from learners.cascade import Pair
from learners.config import PairConfig
from learners.engines import Completion, Sampling, VLLMServerConfig, VLLMServerEngine
from learners.pair import PairTrainer
from learners.policy import LoRA, Policy, policy_pair

PROMPTS = [[20, 21, 22], [30, 31], [20, 21, 22], [40]]


@contextmanager
def serving(fake: FakeVLLM, **options: Any) -> Iterator[VLLMServerConfig]:
    with loopback(fake) as server:
        yield VLLMServerConfig(urls=(server.url,), backoff_s=0.01, retries=2, **options)


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_llm.save(tmp_path_factory.mktemp("llama"), "llama", seed=3)


@pytest.fixture
def pair(name: str) -> tuple[Policy, Policy]:
    return policy_pair((name, name), lora=LoRA(rank=2, alpha=4), noise=0.05, seed=1)


def refusal(name: str, fake: FakeVLLM) -> str:
    """What the check at the start says; one line."""
    with serving(fake) as config, pytest.raises((ValueError, ConnectionError)) as caught:
        VLLMServerEngine(name, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_request_says_everything_that_sampling_depends_on(pair):
    """Nothing is left to the server, which would take it from the model's generation config."""
    fake = FakeVLLM()
    sampling = Sampling(5, temperature=0.7, top_p=0.9, top_k=7, min_p=0.1)
    with serving(fake) as config:
        VLLMServerEngine("tiny", config).generate(pair[0], PROMPTS, sampling, [1, 2, 3, 4])
    sent = sorted(fake.asked("/v1/completions"), key=lambda body: body["seed"])
    assert [body.pop("prompt") for body in sent] == PROMPTS
    assert [body.pop("seed") for body in sent] == [1, 2, 3, 4]
    assert {body.pop("model") for body in sent} == {fake.loaded[0]}
    assert sent == [sent[0]] * 4
    assert sent[0] == {
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [],
        "stop_token_ids": list(pair[0].stop_ids),
        "logprobs": 0,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def test_completions_come_back_in_order_with_their_logprobs(pair):
    def complete(number: int, body: dict) -> Any:
        first = body["prompt"][0]
        if first == 30:
            return completion([7, 2], [-0.5, -1.5], "stop")
        return completion([first, 9, 9], [-1.0, -2.0, -3.0], "length")

    with serving(FakeVLLM(complete=complete)) as config:
        found = VLLMServerEngine("tiny", config).generate(pair[0], PROMPTS, Sampling(3), 0)
    assert found[1] == Completion((7, 2), (-0.5, -1.5), True)
    assert found[0] == found[2] == Completion((20, 9, 9), (-1.0, -2.0, -3.0), False)


def test_a_sample_depends_on_its_place_and_not_on_its_batch(pair):
    with serving(FakeVLLM()) as config:
        engine = VLLMServerEngine("tiny", config)
        together = engine.generate(pair[0], PROMPTS, Sampling(9), 5)
        assert engine.generate(pair[0], PROMPTS[2:], Sampling(9), 5, first=2) == together[2:]
    assert together[0] != together[2], "equal prompts, other seeds"


def test_an_adapter_has_a_new_name_after_an_update_and_the_old_one_goes(pair, tmp_path):
    first, second = pair
    fake = FakeVLLM()
    with serving(fake, adapter_folder=str(tmp_path / "shared")) as config:
        engine = VLLMServerEngine("tiny", config)
        for policy in (first, second, first):
            engine.sync(policy)
        assert len(fake.asked("/v1/load_lora_adapter")) == 3, "the check's and one for each"
        before = list(fake.loaded)
        perturb_adapter(first.model, "agent_0", 0.05, 8)
        engine.generate(first, PROMPTS, Sampling(3), 0)
        assert fake.loaded[0] == before[1], "agent_1's stays"
        assert fake.loaded[1] not in before
        (folder,) = (tmp_path / "shared").iterdir()
        assert {path.name for path in folder.iterdir()} == set(fake.loaded)
        last = fake.asked("/v1/load_lora_adapter")[-1]
        assert last == {"lora_name": fake.loaded[1], "lora_path": str(folder / fake.loaded[1])}


def test_requests_are_shared_by_the_servers_of_a_model(pair):
    """Each has the adapters; equal prompts, which are neighbours, meet at one."""
    fakes = [FakeVLLM("other"), FakeVLLM("tiny"), FakeVLLM("tiny")]
    with ExitStack() as stack:
        urls = tuple(stack.enter_context(loopback(fake)).url for fake in fakes)
        engine = VLLMServerEngine("tiny", VLLMServerConfig(urls=urls))
        engine.generate(pair[0], [[20]] * 3 + [[30]] * 3, Sampling(3), 0)
    asked = [[body["prompt"] for body in fake.asked("/v1/completions")] for fake in fakes]
    assert asked == [[], [[20]] * 3, [[30]] * 3]
    assert [len(fake.loaded) for fake in fakes] == [0, 1, 1]


@pytest.mark.parametrize("status", [502, 503, 504, None], ids=str)
def test_what_may_pass_is_tried_again(pair, status):
    """None: the connection is cut."""
    fake = FakeVLLM()

    def behave(number: int, body: dict) -> Any:
        path, answer = body["path"], fake(number, body)
        if path == "/v1/completions" and 0 < len(fake.asked(path)) < 3:
            return None if status is None else refused(status, "not yet")
        return answer

    with loopback(behave) as server:
        config = VLLMServerConfig(urls=(server.url,), backoff_s=0.01, retries=2)
        engine = VLLMServerEngine("tiny", config)
        assert len(engine.generate(pair[0], PROMPTS[:1], Sampling(3), 0)) == 1
    assert len(fake.asked("/v1/completions")) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500])
def test_what_will_not_pass_ends_at_once_with_the_servers_words(pair, status):
    fake = FakeVLLM(complete=lambda number, body: refused(status, "no,\nnever"))
    with serving(fake) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match=f"got HTTP {status}: no, never") as caught:
            engine.generate(pair[0], PROMPTS[:1], Sampling(3), 0)
    assert len(fake.asked("/v1/completions")) == 1
    assert ("--resume" in str(caught.value)) == (status == 404)


def test_after_a_refusal_no_further_request_is_sent(pair):
    fake = FakeVLLM(complete=lambda number, body: refused(400, "no"))
    with serving(fake, concurrency=1) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match="got HTTP 400: no"):
            engine.generate(pair[0], PROMPTS * 10, Sampling(3), 0)
    assert len(fake.asked("/v1/completions")) < 10


def test_a_lost_server_is_one_line(pair):
    with serving(FakeVLLM()) as config:
        engine = VLLMServerEngine("tiny", config)
    with pytest.raises(ConnectionError, match=r"must answer .* \(3 attempts\); is it up") as caught:
        engine.generate(pair[0], PROMPTS, Sampling(3), 0)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConnectionError, match="must answer /v1/models"):
        VLLMServerEngine("tiny", config)


def test_a_server_that_takes_too_long_is_not_asked_again(pair):
    def complete(number: int, body: dict) -> Any:
        time.sleep(0.6)

    fake = FakeVLLM(complete=complete)
    with serving(fake, timeout_s=0.3) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ConnectionError, match=r"within 0\.3 s, got nothing"):
            engine.generate(pair[0], PROMPTS[:1], Sampling(3), 0)
    assert len(fake.asked("/v1/completions")) == 1


def test_an_adapter_that_was_loaded_by_a_lost_request_counts_as_loaded(pair):
    fake = FakeVLLM()

    def behave(number: int, body: dict) -> Any:
        if body.get("lora_name") in fake.loaded:
            return refused(400, "The lora adapter 'x' has already been loaded.")
        answer = fake(number, body)
        return None if body.get("lora_name") else answer  # the answer is lost, not the request

    with loopback(behave) as server:
        config = VLLMServerConfig(urls=(server.url,), backoff_s=0.01, retries=1)
        VLLMServerEngine("tiny", config).sync(pair[0])
    assert len(fake.loaded) == 1


def test_the_check_refuses_servers_of_other_models():
    line = refusal("tiny", FakeVLLM("org/other"))
    assert "must serve 'tiny', got http://127.0.0.1" in line
    assert "['org/other']; start one with --model tiny" in line


def test_a_folder_is_the_model_of_a_server_that_names_its_path(name):
    with serving(FakeVLLM(str(Path(name).resolve()))) as config:
        VLLMServerEngine(name, config)


def test_the_check_refuses_a_server_that_takes_no_adapters():
    line = refusal("tiny", FakeVLLM(runtime_lora=False))
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment and --enable-lora" in line


@pytest.mark.parametrize("mode", ["raw_logprobs", "raw_logits", "processed_logits"])
def test_the_check_refuses_other_logprobs(mode):
    assert "--logprobs-mode processed_logprobs" in refusal("tiny", FakeVLLM(mode=mode))


def test_the_check_refuses_what_is_no_vllm_server(name):
    with loopback(lambda number, body: said(404, {"detail": "Not Found"})) as server:
        config = VLLMServerConfig(urls=(server.url,))
        with pytest.raises(ValueError, match="got no list of models"):
            VLLMServerEngine(name, config)


@pytest.mark.parametrize(
    ("status", "words", "what_to_do"),
    [
        (500, "Call to add_lora method failed: LoRA is not enabled.", "--enable-lora"),
        (500, "LoRA rank 16 is greater than max_lora_rank 8.", "larger --max-lora-rank"),
        (404, "Loading lora x failed: No adapter found for /x", "vllm_server.adapter_folder"),
        (500, "anything else", "see its log"),
    ],
)
def test_an_adapter_that_is_refused_says_what_to_do(pair, status, words, what_to_do):
    with serving(FakeVLLM(load=lambda body: refused(status, words))) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match="must load the adapter in") as caught:
            engine.sync(pair[0])
    assert words in str(caught.value)
    assert what_to_do in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (completion([5, 6], [-1.0, -1.0], "length"), "at a stop or at 3 tokens, got 2 tokens"),
        (completion([5, 6], [-1.0, -1.0], "abort"), "'abort'"),
        (completion([5, 6, 7], [-1.0], "length"), "1 log-probs"),
        (said(200, {"choices": [{"text": "hi"}]}), "must give token ids and log-probs"),
        ((200, b"<html>", {}), "must give token ids and log-probs"),
        ((200, b'{"choices": [{"token_ids": [Infinity]}]}', {}), "must give token ids"),
        ((200, b"[" * 100_000, {}), "must give token ids and log-probs"),
        (completion([5] * 9, [-1.0] * 9, "stop"), "at a stop or at 3 tokens, got 9 tokens"),
        (completion([-5], [-1.0], "stop"), "must sample ids below"),
        (completion([10**9], [-1.0], "stop"), "must sample ids below"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_refused(pair, answer, line):
    with serving(FakeVLLM(complete=lambda number, body: answer)) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match=line):
            engine.generate(pair[0], PROMPTS[:1], Sampling(3), 0)


def test_a_logprob_of_minus_infinity_is_an_error(pair):
    """vLLM's server says -9999 where it is minus infinity."""
    fake = FakeVLLM(complete=lambda number, body: completion([5], [-9999.0], "stop"))
    with serving(fake) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(FloatingPointError):
            engine.generate(pair[0], PROMPTS[:1], Sampling(3), 0)


def test_prompts_must_fit_into_the_server(pair):
    with serving(FakeVLLM(max_length=8)) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match="must fit into the 8 of the server"):
            engine.generate(pair[0], PROMPTS, Sampling(6), 0)
        with pytest.raises(ValueError, match="at least one token"):
            engine.generate(pair[0], [[]], Sampling(6), 0)


def test_a_model_whose_weights_all_train_is_refused(name):
    with pytest.raises(ValueError, match='engine "vllm-server" needs lora'):
        PairConfig(models=(name, name), engine="vllm-server")
    with serving(FakeVLLM()) as config:
        engine = VLLMServerEngine("tiny", config)
        with pytest.raises(ValueError, match="got a policy of which all weights train"):
            engine.sync(tiny_llm.policy("llama"))


@pytest.mark.parametrize(
    "wrong", [{"urls": ()}, {"urls": ("node:8000",)}, {"concurrency": 0}, {"timeout_s": 0.0}]
)
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(ValueError, match="vllm_server"):
        VLLMServerConfig(**wrong)


def test_a_config_survives_its_file(name):
    server = VLLMServerConfig(urls=("http://a:1", "http://b:2/v1"), adapter_folder="x")
    lora = LoRA(rank=2, alpha=4)
    config = PairConfig(models=(name, name), lora=lora, engine="vllm-server", vllm_server=server)
    assert PairConfig.from_dict(config.to_dict()) == config


def test_a_server_that_refuses_the_adapters_leaves_no_run_behind(tmp_path):
    fake = FakeVLLM(load=lambda body: refused(500, "LoRA rank 2 > max_lora_rank"))
    config = probe_task.lora_config(tmp_path)
    fake.base = config.models[0]
    with serving(fake) as server:
        config = replace(config, engine="vllm-server", vllm_server=server)
        with pytest.raises(ValueError, match="larger --max-lora-rank"):
            PairTrainer(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_trains_through_a_server_and_its_pair_answers(tmp_path):
    config = probe_task.lora_config(tmp_path, steps=2, eval_every=0)
    fake = FakeVLLM(config.models[0])
    with serving(fake) as server:
        config = replace(config, engine="vllm-server", vllm_server=server)
        trainer = PairTrainer(config, tmp_path / "run")
        trainer.train()
        moved = [line[f"agent_{i}/moved"] for line in trainer.history for i in (0, 1)]
        assert 1.0 in moved
        loads = len(fake.asked("/v1/load_lora_adapter")) - 1  # without the check's
        assert loads == 2 + sum(moved), "both at the start, then those that moved"
        assert len(fake.loaded) == 2
        assert Pair.load(tmp_path / "run", drafter="agent_0").answer("question 1").draft


def test_a_run_goes_on_with_a_server_that_was_started_again_elsewhere(tmp_path):
    """It has lost the adapters; its new address goes into the run's config.json."""
    config = probe_task.lora_config(tmp_path, steps=2, eval_every=0)
    fake = FakeVLLM(config.models[0])
    with serving(fake) as server:
        config = replace(config, engine="vllm-server", vllm_server=server)
        trainer = PairTrainer(config, tmp_path / "run")
        trainer.train_step()
        trainer.save()
        player = trainer.players["agent_0"]
        player.sync()
        fake.loaded.clear()
        with pytest.raises(ValueError, match="go on with --resume"):
            player.engine.generate(player.policy, PROMPTS, Sampling(3), 0)
        trainer.close()
    with serving(FakeVLLM(config.models[0])) as server:
        file = tmp_path / "run" / "config.json"
        data = json.loads(file.read_text())
        data["vllm_server"]["urls"] = list(server.urls)
        file.write_text(json.dumps(data))
        resumed = PairTrainer.resume(tmp_path / "run")
        resumed.train()
    assert [line["step"] for line in resumed.history] == [1, 2]


def test_the_key_is_sent_and_in_no_message(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sesame\r\n")
    with loopback(lambda number, body: refused(401, "Unauthorized")) as server:
        config = VLLMServerConfig(urls=(server.url,))
        with pytest.raises(ValueError, match="OPENAI_API_KEY if the server has a key") as caught:
            VLLMServerEngine("tiny", config)
    assert server.headers[0]["Authorization"] == "Bearer sesame"
    assert "sesame" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "ses\name")
    with pytest.raises(ValueError, match="must be one line of printable") as caught:
        VLLMServerEngine("tiny", config)
    assert "ses" not in str(caught.value).replace("must", "")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_send_requests_and_the_first_loads_adapters(tmp_path):
    """The same run as one process; adapters are loaded as often."""
    loads = []
    with ExitStack() as stack:
        for count in (1, 2):
            root = tmp_path / str(count)
            fake = FakeVLLM(str(root / "llama"))
            url = stack.enter_context(loopback(fake)).url
            if count == 1:
                server_probe.main(root, url)
            else:
                done = launch(HERE / "server_probe.py", root, url, timeout=280)
                assert done.returncode == 0, done.stderr[-3000:]
            loads.append([b for b in fake.asked("/v1/load_lora_adapter") if b["lora_name"]])
        compare_runs(tmp_path / "1" / "run", tmp_path / "2" / "run")
    assert len(loads[0]) == len(loads[1]) > 2
