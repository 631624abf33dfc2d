"""The verifier pool: one bad reply costs its own verdict and nothing else."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pool_judges
import pytest

from agon_env.types import Problem, Verdict
from agon_env.verifiers import VerifierPool, find_verifier, register, verify
from agon_env.verifiers.jail.wire import GarbageError, pack, unpack

REPOSITORY = str(Path(__file__).resolve().parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY}/tests"}
LIMIT_S = 0.6
OBEY = Problem("p", "q", "good", verifier="test-obey")


@pytest.fixture(scope="module", autouse=True)
def judges():
    register("test-obey", pool_judges.judge_obey, limit_s=LIMIT_S)
    register("test-patient", pool_judges.judge_obey, limit_s=60.0)
    register("test-inline", pool_judges.judge_echo, where="inline")
    register("test-missing", "no_such_module_anywhere:judge")


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=2) as pool:
        yield pool


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_death(pid: int, seconds: float = 3.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def test_verdicts_come_in_the_order_of_the_pairs(pool):
    replies = ["good" if i % 3 == 0 else f"bad {i}" for i in range(60)]
    verdicts = pool.verify_many((OBEY, reply) for reply in replies)
    assert [v.correct for v in verdicts] == [reply == "good" for reply in replies]
    assert [v.answer for v in verdicts] == replies


@pytest.mark.parametrize(
    ("order", "correct", "reason"),
    [
        ("hang", False, "timeout"),
        pytest.param("sleep 60", False, "timeout", marks=pytest.mark.slow),
        ("die", False, "error"),
        ("raise", False, "error"),
        ("quit", False, "error"),
        ("fill", False, "error"),
        ("print", False, "mismatch"),
        ("garble 4", False, "error"),
        ("answer_for_another 4", False, "error"),
        ("wrong_type", None, "unscorable"),
    ],
)
def test_only_the_culprit_says_what_it_did(pool, order, correct, reason):
    verdicts = pool.verify_many([(OBEY, "good"), (OBEY, order), *[(OBEY, "good ")] * 3])
    assert [(v.correct, v.reason) for v in verdicts] == [
        (True, "match"),
        (correct, reason),
        *[(False, "mismatch")] * 3,
    ]


def test_a_timeout_is_reported_close_to_its_limit(pool):
    start = time.monotonic()
    verdict = pool.submit(OBEY, "hang").result()
    assert verdict.reason == "timeout"
    assert LIMIT_S <= verdict.seconds < LIMIT_S + 0.5
    assert time.monotonic() - start < 3.0


@pytest.mark.slow
def test_time_in_the_queue_does_not_count_against_the_limit():
    """Pitfall 61: ten replies of 0.15 s each on one worker, limit 0.6 s."""
    with VerifierPool(workers=1) as pool:
        verdicts = pool.verify_many([(OBEY, f"sleep 0.15{i}") for i in range(10)])
    assert [v.reason for v in verdicts] == ["mismatch"] * 10


@pytest.mark.slow
def test_a_hung_worker_delays_no_other_reply(pool):
    """Pitfall 60: nothing joins the hung worker."""
    pool.verify_many([(OBEY, "good"), (OBEY, "sleep 0.1")])  # both workers are up
    hung = pool.submit(OBEY, "hang")
    start = time.monotonic()
    others = pool.verify_many([(OBEY, f"bad {i}") for i in range(100)])
    assert time.monotonic() - start < LIMIT_S
    assert not hung.done()
    assert {v.reason for v in others} == {"mismatch"}
    assert hung.result().reason == "timeout"


def test_one_death_that_the_reply_did_not_cause_is_forgiven(pool, tmp_path):
    verdict = pool.submit(OBEY, f"die_once {tmp_path / 'mark'}").result()
    assert verdict.reason == "mismatch"


def test_a_worker_killed_while_idle_is_replaced(pool):
    pid = int(pool.submit(OBEY, "pid").result().answer)
    os.kill(pid, signal.SIGKILL)
    assert wait_for_death(pid)
    verdicts = pool.verify_many([(OBEY, f"good{i}") for i in range(20)])
    assert {v.reason for v in verdicts} == {"mismatch"}


def test_a_judge_that_cannot_be_imported_is_our_fault(pool):
    verdict = pool.submit(Problem("p", "q", "a", verifier="test-missing"), "a").result()
    assert (verdict.correct, verdict.reason) == (None, "unscorable")


def test_workers_that_cannot_start_leave_replies_unscored(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with VerifierPool(workers=2) as pool:
        verdicts = pool.verify_many([(OBEY, "good"), (OBEY, "bad")])
    assert [v.correct for v in verdicts] == [None, None]


def test_an_unknown_verifier_is_named_with_its_close_match(pool):
    with pytest.raises(ValueError, match="did you mean 'math'"):
        pool.submit(Problem("p", "q", "a", verifier="maths"), "a")


def test_submit_returns_at_once(pool):
    start = time.monotonic()
    futures = [pool.submit(OBEY, f"sleep 0.0{i}") for i in range(5)]
    assert time.monotonic() - start < 0.1
    assert not all(future.done() for future in futures)


def test_the_same_reply_is_judged_once_in_a_batch(pool):
    start = time.monotonic()
    verdicts = pool.verify_many([(OBEY, "sleep 0.3")] * 30)
    assert time.monotonic() - start < 2.0
    assert len(verdicts) == 30


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "𝔸" * 100_000, "x" * 3_000_000])
def test_any_string_crosses_the_pipe_unchanged(pool, text):
    assert pool.submit(OBEY, text).result().answer == text


def test_works_from_many_threads(pool):
    """Pitfall 58: no signal and no alarm, so no thread is special."""
    results: dict[int, list[Verdict]] = {}

    def work(n):
        results[n] = pool.verify_many([(OBEY, f"{n}-{i}") for i in range(20)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        assert [v.answer for v in results[n]] == [f"{n}-{i}" for i in range(20)]


def test_the_callers_alarm_survives(pool):
    """Pitfall 58: math-verify in this process would cancel it."""
    previous = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(30)
    try:
        pool.submit(OBEY, "hang").result()
        assert signal.alarm(0) > 0
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_forked_child_gets_workers_of_its_own(pool):
    parents = {pool.submit(OBEY, "pid").result().answer for _ in range(5)}
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "nothing"
        with contextlib.suppress(Exception):
            answer = pool.submit(OBEY, "pid").result(timeout=20).answer
        os.write(write, answer.encode())
        pool.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        answer = file.read()
    os.waitpid(child, 0)
    assert answer.isdigit()
    assert answer not in parents
    assert wait_for_death(int(answer))
    assert pool.submit(OBEY, "good").result().correct


def test_close_leaves_no_process_and_cancels_what_waits():
    pool = VerifierPool(workers=1)
    worker = int(pool.submit(OBEY, "pid").result().answer)
    child = int(pool.submit(OBEY, "child").result().answer)
    running = pool.submit(OBEY, "hang")
    waiting = pool.submit(OBEY, "good")
    start = time.monotonic()
    pool.close()
    assert time.monotonic() - start < 1.0
    assert wait_for_death(worker)
    assert wait_for_death(child)
    assert running.cancelled() or running.exception() is not None
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(OBEY, "good")


def test_a_worker_loads_only_what_judging_needs():
    """Each replaced worker would pay for it: torch, environments, algebra that nobody asked for."""
    with VerifierPool(workers=1) as pool:
        assert pool.submit(OBEY, "modules").result().answer == ""


def test_a_judge_may_use_the_whole_package(pool):
    patient = Problem("p", "q", "good", verifier="test-patient")
    assert pool.submit(patient, "package").result().answer == "Problem"


def test_a_worker_is_recycled_after_its_share():
    with VerifierPool(workers=1, recycle_after=3) as pool:
        pids = [v.answer for v in pool.verify_many([(OBEY, f"pid {i}") for i in range(6)])]
    assert len(set(pids)) == 2
    assert len(set(pids[:3])) == 1


SCRIPT = """
    import os, signal, time
    import pool_judges
    from agon_env.types import Problem
    from agon_env.verifiers import VerifierPool, register, verify
    if __name__ != "__main__":
        raise SystemExit("a worker imported the main script")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    register("test-obey", pool_judges.judge_obey, limit_s=30.0)
    problem = Problem("p", "q", "good", verifier="test-obey")
    pool = VerifierPool(workers=2)
    print(pool.submit(problem, "pid").result().answer, flush=True)
    pool.submit(problem, "hang"), pool.submit(problem, "hang 2")
    time.sleep(0.3)
    {ending}
"""


@pytest.mark.parametrize(
    "ending",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        pytest.param("pass", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), signal.SIGINT)", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", marks=pytest.mark.slow),
        pytest.param("pool.verify_many([(problem, 'hang 3')])", marks=pytest.mark.slow),
    ],
    ids=["kill -9", "end", "ctrl-c", "exit", "ctrl-c in a batch"],
)
def test_workers_never_outlive_their_process(tmp_path, ending):
    """The guard in the script fails if a worker imports the user's main module."""
    script = tmp_path / "main.py"
    script.write_text(textwrap.dedent(SCRIPT.format(ending=ending)))
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    pid = int(process.stdout.readline())
    if "verify_many" in ending:
        time.sleep(0.6)
        process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stdout.close()
    assert wait_for_death(pid)


@pytest.mark.slow
def test_a_spawned_process_can_verify(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing
        import pool_judges
        from agon_env.types import Problem
        from agon_env.verifiers import register, verify

        def work(text):
            register("test-obey", pool_judges.judge_obey)
            return verify(Problem("p", "q", "good", verifier="test-obey"), text).reason

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, ["good", "bad"]))
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(pool.map(work, ["good", "bad"]))
        """)
    )
    output = subprocess.check_output(
        [sys.executable, script], text=True, timeout=60, env=ENVIRONMENT
    )
    assert output.splitlines() == ["['match', 'mismatch']"] * 2


def test_an_inline_judge_runs_in_the_caller():
    assert verify(Problem("p", "q", "good", verifier="test-inline"), "good").correct
    future = VerifierPool().submit(Problem("p", "q", "a", verifier="test-inline"), "b")
    assert future.done()
    assert future.result().reason == "mismatch"


def test_an_inline_judge_that_raises_gives_a_verdict():
    register("test-raise", pool_judges.judge_obey, where="inline")
    verdict = verify(Problem("p", "q", "a", verifier="test-raise"), "raise")
    assert (verdict.correct, verdict.reason) == (False, "error")


@pytest.mark.parametrize("text", [None, 7, b"7"])
def test_what_is_no_text_is_the_callers_mistake(text):
    with pytest.raises(TypeError, match=f"got Problem and {type(text).__name__}"):
        verify(OBEY, text)


@pytest.mark.parametrize(
    "settings",
    [
        *({"limit_s": limit} for limit in (0, -1, float("nan"), "2")),
        *({"workers": 1.5}, {"workers": "2"}, {"workers": 0}, {"memory_mb": 0}),
    ],
)
def test_a_pool_refuses_settings_that_cannot_work(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be a"):
        VerifierPool(**settings)


@pytest.mark.parametrize("score", [7.0, -0.1, float("nan")])
def test_partial_credit_outside_zero_and_one_is_refused(score):
    with pytest.raises(ValueError, match=r"Verdict.score must be None or in \[0, 1\]"):
        Verdict(True, "match", score=score)


def test_a_judge_that_no_worker_can_import_is_refused():
    with pytest.raises(ValueError, match="module-level function"):
        register("test-lambda", lambda problem, text: Verdict(True, "match"))
    with pytest.raises(ValueError, match="where must be"):
        register("test-where", pool_judges.judge_echo, where="elsewhere")


def test_a_registered_judge_is_known_by_its_import_path():
    assert find_verifier("test-obey").judge == "pool_judges:judge_obey"


def test_frames_survive_any_split_of_the_stream():
    bodies = [b"", b"a" * 70_000, pickle.dumps({"x": 1})]
    stream = b"".join(pack(body) for body in bodies)
    buffer, seen = bytearray(), []
    for i in range(0, len(stream), 1009):
        buffer += stream[i : i + 1009]
        seen += unpack(buffer)
    assert seen == bodies
    assert not buffer


@pytest.mark.parametrize("stream", [b"A!", b"\x00\x00\x00\x05hello", b"AGON\xff\xff\xff\xff"])
def test_a_stream_that_is_no_frame_is_garbage(stream):
    with pytest.raises(GarbageError):
        unpack(bytearray(stream))
