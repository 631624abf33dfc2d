"""The registry, the procedural tasks and the sampler."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import sympy

from agon_env.prompts import CODE_TEMPLATE, MATH_TEMPLATE
from agon_env.tasks import (
    SPLITS,
    ProblemSampler,
    Rejected,
    find_task,
    load_problems,
    load_report,
    register_task,
    tasks,
)
from agon_env.tasks import registry as registry_module
from agon_env.tasks.algebra import (
    LEVELS,
    derivative_at,
    integral_by_parts,
    polynomial_integral,
)
from agon_env.tasks.arithmetic import ArithmeticLevel, draw_expression, register_arithmetic
from agon_env.tasks.procedural import content_split, endless
from agon_env.tasks.shots import MATH_SHOTS, Shot, with_examples
from agon_env.types import Problem
from agon_env.verifiers.math import gold_problem, judge_final

PROCEDURAL = [f"{kind}-{level}" for kind in ("arithmetic", "algebra") for level in LEVELS]


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks registered in a test are gone after it."""
    monkeypatch.setattr(registry_module, "_TASKS", dict(registry_module._TASKS))
    monkeypatch.setattr(registry_module, "_LISTENERS", [])


@pytest.mark.parametrize("name", PROCEDURAL)
def test_splits_never_share_a_question_whatever_the_seed(name: str) -> None:
    questions = {
        split: {
            p.question
            for seed in (0, 1)
            for p in load_problems(name, split, limit=40 if split == "train" else 12, seed=seed)
        }
        for split in SPLITS
    }
    for split, found in questions.items():
        others = set().union(*(questions[other] for other in SPLITS if other != split))
        assert found
        assert not found & others


@pytest.mark.parametrize("name", [n for n in PROCEDURAL if n.startswith("algebra")])
def test_the_split_of_a_question_is_a_function_of_its_text(name: str) -> None:
    for split in SPLITS:
        for problem in load_problems(name, split, limit=10):
            assert content_split(problem.question) == split


def test_a_sum_and_its_commuted_copy_are_one_question() -> None:
    """Otherwise 3 * 8 could be trained on and 8 * 3 tested on."""
    seen: dict[frozenset[str], str] = {}
    for split, limit in (("train", 1500), ("validation", 200), ("test", 200)):
        for problem in load_problems("arithmetic-easy", split, limit=limit):
            left, operator, right = problem.question.removeprefix("What is ").rstrip("?").split()
            if operator != "-":
                assert frozenset((left, operator, right)) not in seen, problem
                seen[frozenset((left, operator, right))] = split


@pytest.mark.parametrize("name", PROCEDURAL)
def test_a_seed_gives_the_same_problems_and_another_seed_others(name: str) -> None:
    first = load_problems(name, "train", limit=20, seed=3)
    assert load_problems(name, "train", limit=20, seed=3) == first
    assert load_problems(name, "train", limit=10, seed=3) == first[:10]
    other = load_problems(name, "train", limit=20, seed=4)
    assert {p.id for p in other} != {p.id for p in first}


@pytest.mark.parametrize("name", PROCEDURAL)
def test_every_generated_gold_is_usable_and_accepted_in_a_reply(name: str) -> None:
    for problem in load_problems(name, "train", limit=25):
        assert gold_problem(problem.answer) is None
        reply = f"<think>...</think><answer>{problem.answer}</answer>"
        assert problem.verifier == "math-final"
        assert judge_final(problem, reply).correct is True, problem


@pytest.mark.parametrize("name", PROCEDURAL)
def test_an_echo_of_the_question_is_never_paid(name: str) -> None:
    """An expression equals its value; what is to be worked out may not be the answer."""
    for problem in load_problems(name, "train", limit=25):
        asked = re.search(r"\$(.+?)\$|is (.+?)\?", problem.question)
        assert asked
        echo = next(filter(None, asked.groups()))
        modulus = re.search(r"divided by \$(\d+)\$", problem.question)
        echoes = [echo, f"({echo})", f"{echo} = {echo}", f"0 + {echo}"]
        if modulus:
            echoes.append(rf"({echo}) \bmod {modulus.group(1)}")
        if problem.topic == "derivative":
            echoes.append(rf"\frac{{d}}{{dx}}\left({echo.split('=')[-1]}\right)")
        for text in echoes:
            assert judge_final(problem, f"<answer>{text}</answer>").correct is False, text


@pytest.mark.slow
def test_the_worked_examples_are_no_questions_of_the_task() -> None:
    template = find_task("arithmetic-easy").template
    shown = {shot.question for shot in template.shots}
    shown |= {"What is 7 + 12?", "What is 3 * 6?"}
    for split in SPLITS:
        assert not shown & {problem.question for problem in load_problems("arithmetic-easy", split)}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCEDURAL)
def test_many_generated_golds_are_usable(name: str) -> None:
    for seed in range(3):
        for problem in load_problems(name, "train", limit=300, seed=seed):
            assert gold_problem(problem.answer) is None, problem


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_the_value_of_an_expression_is_that_of_its_text(level: str) -> None:
    for problem in load_problems(f"arithmetic-{level}", "train", limit=60):
        text = problem.question.removeprefix("What is ").removesuffix("?")
        assert sympy.sympify(text) == int(problem.answer), problem


def test_a_right_operand_keeps_its_brackets() -> None:
    level = ArithmeticLevel(operations=(2, 4), largest=9, operators="+-*/")
    rng = np.random.default_rng(0)
    for _ in range(300):
        node = draw_expression(rng, level)
        assert sympy.sympify(node.text) == node.value, node


def test_difficulty_grows_with_the_level() -> None:
    means = [
        np.mean([p.difficulty for p in load_problems(f"arithmetic-{level}", limit=50)])
        for level in ("easy", "medium", "hard")
    ]
    assert means[0] == 1.0
    assert means[0] < means[1] < means[2]


def test_the_easy_prompt_shows_replies_that_are_right_and_well_formed() -> None:
    template = find_task("arithmetic-easy").template
    seen = {"role": "solver", "problem": "What is 1 + 1?", "draft": "1 plus 1.\n[withheld]"}
    plain = {**seen, "role": "drafter", "draft": ""}
    for observation in (seen, plain):
        *shots, last = template.messages(observation)
        assert [m["role"] for m in shots] == ["user", "assistant"] * 3
        assert "What is 1 + 1?" in last["content"]
        assert (seen["draft"] in last["content"]) is (observation is seen)
        for question, reply in zip(shots[::2], shots[1::2], strict=True):
            text = question["content"].partition("?")[0].removeprefix("What is ")
            problem = Problem("shot", question["content"], str(sympy.sympify(text)))
            assert judge_final(problem, reply["content"]).correct is True
            read = template.read(problem, reply["content"])
            assert read.well_formed
            assert problem.answer not in read.summary.split()


@pytest.mark.parametrize("base", [MATH_TEMPLATE, CODE_TEMPLATE])
def test_the_examples_for_base_models_are_well_formed_and_their_drafts_hide_the_answer(base):
    template = with_examples(base)
    assert template is with_examples(template), "what shows examples already stays as it is"
    assert template.shots
    for shot in template.shots:
        problem = Problem("shot", shot.question, "0")
        read = template.read(problem, shot.reply)
        assert read.well_formed
        assert read.answer
        assert read == base.read(problem, shot.reply)
        assert "[withheld]" in shot.draft
        assert read.answer not in shot.draft.split()
    assert any(s.draft != template.read(problem, s.reply).summary for s in template.shots), "wrong"


@pytest.mark.parametrize(("shot", "gold"), list(zip(MATH_SHOTS, ("17", "7", "9"), strict=True)))
def test_the_mathematical_examples_are_right(shot: Shot, gold: str) -> None:
    assert judge_final(Problem("shot", shot.question, gold), shot.reply).correct is True


@pytest.mark.parametrize("outer", ["exp", "sin", "cos"])
def test_an_antiderivative_by_parts_differentiates_back(outer: str) -> None:
    x = sympy.Symbol("x")
    polynomial = 3 * x**2 - x + 4
    found = integral_by_parts(polynomial, outer, -2)
    integrand = polynomial * getattr(sympy, outer)(-2 * x)
    assert sympy.simplify(found.diff(x) - integrand) == 0


def test_answers_of_algebra_solve_the_questions_as_written() -> None:
    """Read the LaTeX of the question back and check the answer against it, not the generator."""
    x = sympy.Symbol("x")
    checked = 0
    for problem in load_problems("algebra-medium", "train", limit=120):
        if problem.topic != "equation":
            continue
        text = problem.question.partition("$")[2].partition(" = 0$")[0]
        f = sympy.sympify(re.sub(r"(\d) x", r"\1*x", text).replace("^{2}", "**2"))
        answer = problem.answer.removeprefix(r"\left\{").removesuffix(r"\right\}")
        answer = answer.replace(r"\frac{", "(").replace("}{", ")/(").replace("}", ")")
        roots = {sympy.sympify(part) for part in answer.split(",")}
        assert roots == set(sympy.solve(f, x)), problem
        checked += 1
    assert checked > 10


@pytest.mark.parametrize("seed", range(8))
def test_integrals_and_derivatives_agree_with_sympys_general_routines(seed: int) -> None:
    """The answers come from coefficients; sympy's integrate and diff get the question's text."""
    x = sympy.Symbol("x")

    def read(latex: str) -> sympy.Expr:
        plain = re.sub(r"(\d) x", r"\1*x", latex.replace("^{", "**").replace("}", ""))
        return sympy.sympify(plain)

    sketch = polynomial_integral(np.random.default_rng(seed))
    found = re.search(r"int_\{(-?\d+)\}\^\{(-?\d+)\} \\left\((.*)\\right\)", sketch.question)
    assert found
    value = sympy.integrate(read(found[3]), (x, int(found[1]), int(found[2])))
    assert sketch.solve() == sympy.latex(value)

    sketch = derivative_at(np.random.default_rng(seed))
    found = re.search(r"h\(x\) = (.*)\$\. Find \$h'\((-?\d+)\)", sketch.question)
    assert found
    if fraction := re.fullmatch(r"\\frac\{(.*)\}\{([^{}]*)\}", found[1]):
        h = read(fraction[1]) / read(fraction[2])
    else:
        left, right = re.findall(r"\\left\((.*?)\\right\)", found[1])
        h = read(left) * read(right)
    assert sketch.solve() == sympy.latex(h.diff(x).subs(x, int(found[2])))


def test_a_level_of_ones_own_is_one_call(clean_registry: None) -> None:
    register_arithmetic("sums", ArithmeticLevel(operations=(2, 2), largest=5, operators="+"))
    assert all(p.question.count("+") == 2 for p in load_problems("sums", limit=10))


@pytest.mark.slow
def test_an_exhausted_level_says_how_much_it_holds(clean_registry: None) -> None:
    register_arithmetic("tiny", ArithmeticLevel(operations=(1, 1), largest=3, operators="+"))
    with pytest.raises(ValueError, match=r"tiny/train has only about \d different questions"):
        load_problems("tiny", limit=1000)


def test_procedural_tasks_have_a_default_size() -> None:
    assert len(load_problems("arithmetic-easy", "validation")) == 200


def test_an_unknown_task_names_the_close_ones_and_the_list() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*'arithmetic-hard'.*Choose one of aime24"):
        load_problems("arithmetic-hrad")


def test_an_unknown_split_names_the_splits() -> None:
    with pytest.raises(ValueError, match=r"no split 'dev'; choose one of \['train'"):
        load_problems("arithmetic-easy", "dev")


def test_every_task_states_its_facts() -> None:
    built_in = [task for task in tasks() if task.source != "user"]  # other tests register theirs
    assert len(built_in) > 20
    for task in built_in:
        assert task.licence != "unknown", task.name
        assert task.description, task.name
        assert set(task.sizes) <= set(SPLITS)
        assert find_task(task.name) == task


def numbered(split: str) -> Iterator[Problem | Rejected]:
    for i in range(10):
        yield Problem(f"{split}-{i}", f"What is {i}?", str(i))
    yield Rejected("row 10", "broken")


def test_a_users_loader_is_shuffled_by_seed_and_cut(clean_registry: None) -> None:
    register_task("mine", numbered)
    stored = load_problems("mine", "test")
    assert [p.id for p in stored] == [f"test-{i}" for i in range(10)]
    shuffled = load_problems("mine", "test", seed=1)
    assert shuffled != stored
    assert sorted(p.id for p in shuffled) == sorted(p.id for p in stored)
    assert load_problems("mine", "test", limit=3, seed=1) == shuffled[:3]
    assert load_report("mine", "test").rejected == {"broken": 1}


def test_golds_of_a_registered_math_task_are_checked_at_load(clean_registry: None) -> None:
    """Guards pitfall 64: a gold that does not verify against itself would pay nobody."""
    rows = [Problem("1", "What is 1 + 1?", "2"), Problem("2", "And 1 / 0?", r"\frac{1}{0}")]
    register_task("two-rows", lambda split: rows)
    loaded = load_report("two-rows")
    assert [p.id for p in loaded.problems] == ["1"]
    assert loaded.rejected == {"gold does not verify against itself": 1}
    register_task("two-rows", lambda split: rows, checks_golds=False)
    assert len(load_problems("two-rows")) == 2


def test_a_loader_that_takes_a_seed_may_be_endless(clean_registry: None) -> None:
    def draws(split: str, seed: int) -> Iterator[Problem]:
        i = 0
        while True:
            yield Problem(f"{seed}-{i}", f"{split} {i}", "1")
            i += 1

    register_task("endless", draws, sizes={"train": 7})
    assert [p.id for p in load_problems("endless", seed=5)] == [f"5-{i}" for i in range(7)]
    assert len(load_problems("endless", limit=9)) == 9


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ([Problem("a", "q", "1"), Problem("a", "p", "2")], r"row 1: field 'id'.*'a' is row 0 too"),
        ([Problem("a", " ", "1")], r"row 0 \(id 'a'\): field 'question' must not be empty"),
        ([Problem("a", "q", " ")], r"row 0 \(id 'a'\): a problem needs an answer .* or tests"),
        ([Problem("", "q", "1")], r"row 0: field 'id' must not be empty"),
        ([], r"bad/train holds no problem"),
    ],
)
def test_a_bad_problem_is_one_line_with_row_and_field(
    clean_registry: None, problems: list[Problem], message: str
) -> None:
    register_task("bad", lambda split: problems)
    with pytest.raises(ValueError, match=message) as caught:
        load_problems("bad")
    assert "\n" not in str(caught.value)


def no_split() -> list[Problem]:
    return []


def test_a_loader_of_the_wrong_shape_is_refused_at_registration() -> None:
    with pytest.raises(TypeError, match=r"must take \(split\) or \(split, seed\)"):
        register_task("none", no_split)  # type: ignore[misc]


def test_a_task_may_not_be_named_like_a_url() -> None:
    with pytest.raises(ValueError, match="plain text"):
        register_task("hf:mine", numbered)


def some(n: int) -> list[Problem]:
    return [Problem(str(i), "q", "1") for i in range(n)]


def test_an_epoch_shows_every_problem_once_and_wraps_without_dropping() -> None:
    sampler = ProblemSampler(some(10), batch_size=4, seed=0)
    ids = [p.id for _ in range(5) for p in sampler.next_batch()]
    assert sorted(ids[:10]) == sorted(ids[10:]) == sorted(str(i) for i in range(10))
    assert ids[:10] != ids[10:]


def test_a_resumed_sampler_gives_the_same_batches() -> None:
    """Pitfall 66: a resumed run neither restarts the stream nor skips in it."""
    whole = ProblemSampler(some(7), batch_size=3, seed=1)
    batches = [whole.next_batch() for _ in range(9)]
    first = ProblemSampler(some(7), batch_size=3, seed=1)
    for _ in range(4):
        first.next_batch()
    state = json.loads(json.dumps(first.state_dict()))
    resumed = ProblemSampler(some(7), batch_size=3, seed=1)
    resumed.load_state_dict(state)
    assert [resumed.next_batch() for _ in range(5)] == batches[4:]


def test_a_position_in_other_problems_is_refused() -> None:
    """Pitfall 66."""
    state = ProblemSampler(some(7), 3).state_dict()
    with pytest.raises(ValueError, match="resume with the same task, split, limit and seed"):
        ProblemSampler(some(8), 3).load_state_dict(state)


def test_a_batch_may_be_larger_than_the_problems() -> None:
    ids = [p.id for p in ProblemSampler(some(3), 7).next_batch()]
    assert sorted(ids[:3]) == sorted(ids[3:6]) == ["0", "1", "2"]


@pytest.mark.parametrize("arguments", [([], 1, 0), (some(1), 0, 0), (some(1), 1, -1)])
def test_a_sampler_refuses_what_it_cannot_sample(arguments: tuple[list[Problem], int, int]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs at least one"):
        ProblemSampler(*arguments)


def test_an_endless_loader_draws_lazily() -> None:
    def draw(rng: np.random.Generator) -> object:
        raise RuntimeError("drawn too early")

    load = endless("lazy", draw)  # type: ignore[arg-type]
    problems = load("train", 0)
    with pytest.raises(RuntimeError, match="drawn too early"):
        next(islice(problems, 1))


def test_importing_the_tasks_loads_no_data_library() -> None:
    code = (
        "import sys, agon_env.tasks; print(sorted({'torch', 'datasets', 'transformers', 'pyarrow', "
        "'huggingface_hub', 'reasoning_gym', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
