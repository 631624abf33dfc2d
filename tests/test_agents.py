"""Agents from strings: functions, people, servers that misbehave, and real tiny models."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import bench_agents
import pytest
from loopback_llm import answer, loopback

from learners.agents import AgentError, AgentOptions, Decoding, Request, make_agents

OPTIONS = AgentOptions(device="cpu", batch=3, concurrency=3, retries=2, backoff_s=0.01, timeout_s=5)
DECODING = Decoding(max_new_tokens=9, temperature=0.5, top_p=0.9)
FILE = str(Path(bench_agents.__file__))


def requests(count: int, text: str = "value {}?") -> list[Request]:
    return [Request(({"role": "user", "content": text.format(i)},), 100 + i) for i in range(count)]


def ask(spec: str, count: int = 4, **options):
    """Texts by request, in order."""
    (agent,) = make_agents([spec], OPTIONS)
    found = dict(agent.replies(requests(count, **options), DECODING))
    assert sorted(found) == list(range(count))
    return [found[i] for i in range(count)]


def ask_server(behave, count: int = 4):
    with loopback(behave) as server:
        return ask(f"openai:{server.url}#m", count), server


# --- strings ---


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("gpt", "kind:name"),
        ("hf:", "kind:name"),
        ("openai:localhost#m", "needs a URL"),
        ("openai:http://localhost/v1", "needs a URL"),
        ("scripted:no_such_module_here:f", "cannot import"),
        ("scripted:no/such/file.py:f", "no file"),
        (f"scripted:{FILE}:absent", "no function 'absent'"),
        ("human:x", "nothing behind"),
    ],
)
def test_a_string_that_names_nothing_is_one_clear_line(spec, says):
    with pytest.raises(ValueError, match=says) as caught:
        make_agents([spec], OPTIONS)
    assert "\n" not in str(caught.value)


def test_the_same_string_twice_is_one_agent():
    first, other, again = make_agents(
        [f"scripted:{FILE}:{name}" for name in ("alpha", "beta", "alpha")], OPTIONS
    )
    assert first is again
    assert first is not other


# --- functions and people ---


def test_a_function_answers_and_its_words_are_counted():
    replies = ask(f"scripted:{FILE}:alpha")
    assert [("sound" in reply.text) for reply in replies] == [True, True, False, False]
    assert replies[0].prompt_tokens == 2
    assert replies[0].completion_tokens == len(replies[0].text.split())


def test_a_function_may_take_the_seed():
    replies = ask(f"scripted:{FILE}:coin")
    assert [("sound" in reply.text) for reply in replies] == [True, False, True, False]


def test_a_function_that_raises_stops_with_its_reason():
    with pytest.raises(AgentError, match="broken raised RuntimeError: no such thing"):
        ask(f"scripted:{FILE}:broken")


def test_a_person_types_until_a_single_dot(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n.\nthe next\n.\n"))
    assert [reply.text for reply in ask("human", 2)] == ["two\nlines", "the next"]
    assert "value 1?" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("half a rep"))
    with pytest.raises(AgentError, match="input ended"):
        ask("human", 1)


# --- servers ---


def test_a_server_gets_messages_decoding_and_the_key_and_its_counts_are_kept(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    replies, server = ask_server(lambda i, body: answer(body["messages"][0]["content"]))
    assert [reply.text for reply in replies] == [f"value {i}?" for i in range(4)]
    assert {(r.prompt_tokens, r.completion_tokens, r.finished) for r in replies} == {(11, 7, True)}
    body = next(body for body in server.bodies if body["seed"] == 102)
    assert body["messages"] == [{"role": "user", "content": "value 2?"}]
    wanted = {"model": "m", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9}
    assert wanted.items() <= body.items()
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"


def test_requests_run_side_by_side_up_to_the_limit():
    def behave(i, body):
        time.sleep(0.05)
        return answer("x")

    _, server = ask_server(behave, 9)
    assert server.most_at_once == 3


@pytest.mark.parametrize(
    "fault",
    [
        (429, b"slow down", {"Retry-After": "0"}),
        (500, b"oops", {}),
        (503, b"", {"Retry-After": "soon"}),
        (200, b"{not json", {}),
        (200, b'{"choices": []}', {}),
        (200, b'{"choices": [{"message": null}]}', {}),
        (200, b'{"choices": [{"message": {"content": 5}}]}', {}),
        None,
    ],
)
def test_what_may_pass_is_asked_again(fault):
    replies, server = ask_server(lambda i, body: fault if i < 2 else answer("fine"), 1)
    assert replies[0].text == "fine"
    assert len(server.bodies) == 3


def test_a_server_that_stays_down_is_one_line_after_the_retries():
    with pytest.raises(AgentError, match=r"HTTP 503.*3 attempts") as caught:
        ask_server(lambda i, body: (503, b"line one\nline two", {}), 1)
    assert "\n" not in str(caught.value)


def test_no_server_at_all_is_one_line():
    with pytest.raises(AgentError, match=r"no answer: .*refused.*is the server up"):
        ask("openai:http://127.0.0.1:9/v1#m", 1)


def test_a_wrong_key_or_path_is_not_asked_again(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for status, hint in ((401, "set OPENAI_API_KEY"), (404, "check the URL")):
        seen = []

        def behave(i, body, status=status, seen=seen):
            seen.append(i)
            return status, b"no", {}

        with pytest.raises(AgentError, match=f"HTTP {status}.*{hint}") as caught:
            ask_server(behave, 1)
        assert len(seen) == 1
        assert "sk-secret" not in str(caught.value)


def test_replies_before_a_server_dies_are_given_first():
    """The dead endpoint in the middle: nothing that was there is lost."""
    got = {}
    with loopback(lambda i, body: answer("x") if i < 5 else None) as server:
        (agent,) = make_agents([f"openai:{server.url}#m"], OPTIONS)
        with pytest.raises(AgentError, match="no answer"):
            got.update(agent.replies(requests(12), DECODING))
    assert len(got) == 5


def test_a_prompt_that_is_refused_after_others_were_answered_is_a_reply_with_an_error():
    def behave(i, body):
        long = "value 3?" in body["messages"][0]["content"]
        return (400, b"context length exceeded", {}) if long else answer("x")

    (agent_options,) = (AgentOptions(concurrency=1, retries=0),)
    with loopback(behave) as server:
        (agent,) = make_agents([f"openai:{server.url}#m"], agent_options)
        found = dict(agent.replies(requests(5), DECODING))
    assert [found[i].error is None for i in range(5)] == [True, True, True, False, True]
    assert "context length" in (found[3].error or "")
    with pytest.raises(AgentError, match="HTTP 400"):
        ask_server(lambda i, body: (400, b"unknown model", {}), 1)


def test_empty_cut_split_and_uncounted_replies_are_read():
    cases = [
        answer(None),
        answer("", finish_reason="length"),
        answer("", message={"content": "b", "reasoning_content": "a"}),
        (200, json.dumps({"choices": [{"message": {"content": "abcde"}}]}).encode(), {}),
        (200, b'{"choices": [{"message": {"content": "n"}, "logprobs": NaN}], "usage": null}', {}),
    ]
    with loopback(lambda i, body: cases[i]) as server:
        (agent,) = make_agents([f"openai:{server.url}#m"], AgentOptions(concurrency=1))
        found = [reply for _, reply in agent.replies(requests(5), DECODING)]
    assert [reply.text for reply in found] == ["", "", "<think>a</think>b", "abcde", "n"]
    assert [reply.finished for reply in found] == [True, False, True, True, True]
    assert (found[3].prompt_tokens, found[3].completion_tokens) == (2, 2)  # 8 and 5 characters


def test_a_prompt_that_does_not_fit_gets_its_reason_and_the_others_their_reply():
    import tiny_llm

    from learners.agents.local import LocalAgent
    from learners.engines import HFEngine

    player = tiny_llm.policy("llama")
    limit = player.model.config.max_position_embeddings
    chats = ["1 + 1", "long " * limit, "2 + 2"]
    asked = [Request(({"role": "user", "content": text},), seed) for seed, text in enumerate(chats)]
    agent = LocalAgent("m", player, 3, HFEngine())
    found = dict(agent.replies(asked, Decoding(max_new_tokens=4)))
    assert sorted(found) == [0, 1, 2]
    assert f"model's context of {limit}" in found[1].error
    assert (found[1].text, found[1].completion_tokens) == ("", 0)
    for i in (0, 2):
        assert found[i].error is None
        assert found[i].completion_tokens > 0


# --- base models ---


def completion(text: str) -> tuple[int, bytes, dict[str, str]]:
    choice = {"text": text, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    return 200, json.dumps({"choices": [choice], "usage": usage}).encode(), {}


def test_a_base_model_behind_a_server_continues_plain_text_up_to_the_next_question():
    said = [completion(" <answer>4</answer>\n\nQuestion: and"), completion("")]
    with loopback(lambda i, body: said[i % 2]) as server:
        (agent,) = make_agents([f"completions:{server.url}#m"], AgentOptions(concurrency=1))
        replies = [reply for _, reply in agent.replies(requests(2), DECODING)]
    assert agent.needs_examples
    assert agent.name == f"completions:{server.url}#m"
    assert [reply.text for reply in replies] == ["<answer>4</answer>", ""]
    body = server.bodies[0]
    assert "messages" not in body
    assert body["prompt"] == "Question: value 0?\n\nAnswer:"
    assert body["stop"] == ["\nQuestion:"]


def test_a_chat_answer_to_a_completion_is_one_line():
    with loopback(lambda i, body: answer("x")) as server:
        options = AgentOptions(concurrency=1, retries=0)
        (agent,) = make_agents([f"completions:{server.url}#m"], options)
        with pytest.raises(AgentError, match="no completion"):
            list(agent.replies(requests(1), DECODING))


@pytest.mark.slow
def test_a_model_without_a_chat_template_is_shown_examples_and_others_are_not(tmp_path):
    import tiny_llm

    base = tiny_llm.save(tmp_path / "base", "llama", chat=None)
    chat = tiny_llm.save(tmp_path / "chat", "llama")
    agents = make_agents([f"hf:{base}", f"hf:{chat}", f"scripted:{FILE}:alpha"], OPTIONS)
    assert [agent.needs_examples for agent in agents] == [True, False, False]


@pytest.mark.slow
def test_a_base_model_stops_at_the_next_question(tmp_path):
    """A real model that has learnt nothing but to write the next question."""
    import tiny_llm
    import torch

    from learners.agents.local import LocalAgent
    from learners.engines import HFEngine
    from learners.policy import Policy

    words = tiny_llm.tokenizer(None)
    model = tiny_llm.model("llama", hidden=64)
    prompt = "Question: value 0?\n\nAnswer:"
    text = " <answer>4</answer>\n\nQuestion: value 1?\n\nAnswer: 5"
    asked, said = words(prompt)["input_ids"], words(text)["input_ids"]
    ids = torch.tensor([asked + said])
    labels = torch.tensor([[-100] * len(asked) + said])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(ids, labels=labels).loss
        loss.backward()
        optimizer.step()
    agent = LocalAgent("m", Policy(model.eval(), words), 2, HFEngine(), needs_examples=True)
    found = dict(agent.replies(requests(1), Decoding(max_new_tokens=60, temperature=0)))
    assert found[0].text == "<answer>4</answer>"
    assert found[0].finished
    assert found[0].completion_tokens == len(
        words(text[: text.index(": value 1")] + ":")["input_ids"]
    )


# --- real models ---


@pytest.mark.slow
def test_a_model_replies_the_same_in_any_batch_and_order(tmp_path):
    """Pitfall 70: a resumed benchmark asks in other batches and gets the same."""
    import tiny_llm

    spec = "hf:" + tiny_llm.save(tmp_path / "m", "llama")
    replies = ask(spec, 7)
    (agent,) = make_agents([spec], OPTIONS)
    backwards = dict(agent.replies(requests(7)[::-1], DECODING))
    assert [reply.text for reply in replies] == [backwards[6 - i].text for i in range(7)]
    assert len({reply.text for reply in replies}) > 1
    assert all(0 < reply.completion_tokens <= 9 for reply in replies)
    assert all(reply.finished or reply.completion_tokens == 9 for reply in replies)


@pytest.mark.slow
def test_an_adapter_changes_what_its_base_says(tmp_path):
    import tiny_llm
    import torch
    from peft import get_peft_model_state_dict

    from learners.adapters import adapted, perturb_adapter, save_adapter

    name = tiny_llm.save(tmp_path / "m", "llama")
    model = adapted(tiny_llm.model("llama"), tiny_llm.SMALL_LORA, ["a"], seed=1)
    perturb_adapter(model, "a", 1.0, seed=1)
    save_adapter(model, "a", tmp_path / "adapter")
    (agent,) = make_agents([f"hf:{name}#{tmp_path / 'adapter'}"], OPTIONS)
    loaded = get_peft_model_state_dict(agent.policy.model, adapter_name="default")  # pyright: ignore
    for key, value in get_peft_model_state_dict(model, adapter_name="a").items():
        torch.testing.assert_close(loaded[key], value)
    (base,) = make_agents([f"hf:{name}"], OPTIONS)
    texts = [[r.text for _, r in a.replies(requests(4), DECODING)] for a in (agent, base)]
    assert texts[0] != texts[1]
    with pytest.raises(ValueError, match="cannot load adapter"):
        make_agents([f"hf:{name}#{tmp_path / 'nothing'}"], OPTIONS)


@pytest.mark.slow
def test_weights_that_are_not_numbers_stop_with_one_line(tmp_path):
    """Pitfall 39."""
    import tiny_llm
    import torch

    model = tiny_llm.model("llama")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    model.save_pretrained(tmp_path)
    tiny_llm.tokenizer().save_pretrained(tmp_path)
    with pytest.raises(AgentError, match="weights have diverged"):
        ask(f"hf:{tmp_path}", 1)


@pytest.mark.slow
def test_an_agent_of_a_run_is_its_newest_checkpoint(tmp_path):
    import tiny_llm
    import torch

    from learners.config import PairConfig
    from learners.run_folder import RunFolder

    names = [tiny_llm.save(tmp_path / family, family) for family in ("llama", "qwen3")]
    config = PairConfig(models=tuple(names), task="arithmetic-easy")  # pyright: ignore
    folder = RunFolder(tmp_path / "run")
    folder.create(config.to_dict())
    with pytest.raises(ValueError, match="no checkpoint yet"):
        make_agents([f"run:{tmp_path / 'run'}#agent_1"], OPTIONS)
    trained = {"agent_0": tiny_llm.policy("llama", seed=5), "agent_1": tiny_llm.policy(seed=6)}

    def write(path: Path) -> None:
        for agent, policy in trained.items():
            policy.save(path / agent)

    folder.save_checkpoint(12, write, keep=1, best=None)
    (agent,) = make_agents([f"run:{tmp_path / 'run'}#agent_1"], OPTIONS)
    assert agent.name.endswith("#agent_1@step_12")
    torch.testing.assert_close(agent.policy.fingerprint(), trained["agent_1"].fingerprint())  # pyright: ignore
    with pytest.raises(ValueError, match="needs a folder and one of"):
        make_agents(["run:somewhere"], OPTIONS)
