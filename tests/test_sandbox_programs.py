"""Programs in a sandbox behave and end as outside; systems without walls say what they lack."""

import glob
import secrets

import pytest
from sandboxes import LIMITS, NAMED, printed, processes, run, slow

from agon_env.types import CodeTests, Problem
from agon_env.verifiers import VerifierPool, isolation, require_isolation
from agon_env.verifiers.probe import _find
from agon_env.verifiers.sandbox import Limits, Sandbox, SandboxError
from agon_env.verifiers.walls import Isolation


@pytest.mark.parametrize(
    "code",
    [
        "print(open('/dev/stdin').read())",
        slow("print(open(0).read())"),
        slow("import sys; sys.stdin.seek(0); print(sys.stdin.read())"),
        slow("import os; print(os.read(0, 99).decode())"),
        slow("import sys; print(''.join(iter(sys.stdin.readline, '')))"),
        "open('/dev/stdout', 'w').write(input())",
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())",
    ],
)
def test_input_and_output_work_in_every_style(way, code):
    assert printed(way, code, stdin=b"12 34\n") == "12 34"


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("print(1); raise ValueError", "crashed"),
        ("print(1); raise SystemExit(0)", "finished"),
        slow("print(1); raise SystemExit('no')", "crashed"),
        slow("import os; os.abort()", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        slow("import os; print(1, flush=True); os.kill(os.getpid(), 9)", "crashed"),
        slow("import atexit; atexit.register(print, 'late')", "finished"),
        slow("import threading; threading.Timer(0.2, print, ['late']).start()", "finished"),
        slow("import threading as t, time; t.Thread(target=time.sleep, args=(9,)).start()", "time"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True)"
         ".start()", "finished"),
        slow("import signal; signal.pause()", "time"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "time"),
        ("x = [0] * (1 << 27)", "memory"),
        ("import os\nwhile True: os.write(1, bytes(1 << 16))", "output"),
        slow("import sys; sys.stdout = None; sys.stderr = None", "finished"),
        ("import sys; sys.stderr.write('x' * 10_000_000)", "finished"),
    ],
)  # fmt: skip
def test_a_program_ends_as_it_would_outside(way, code, end):
    assert run(way, code, Limits(time_s=0.8, memory_mb=256, output_kb=256)).end == end


def test_deep_recursion_has_the_stack_of_a_contest_site(way):
    code = """
        import functools, sys, threading
        sys.setrecursionlimit(10**6)
        @functools.lru_cache(None)
        def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
        print(depth(40_000))
        threading.stack_size(1 << 28)
        thread = threading.Thread(target=lambda: print(depth(60_000)))
        thread.start(); thread.join()
    """
    result = run(way, code, Limits(time_s=10, memory_mb=512))
    assert result.output.split() == [b"40000", b"60000"]


def test_a_sandbox_that_does_not_start_says_so(monkeypatch):
    broken = Isolation("bubblewrap", user_namespace=False)
    monkeypatch.setattr(Isolation, "command", lambda *_: ["/bin/false"])
    with pytest.raises(SandboxError, match="does not start"):
        Sandbox(b"", LIMITS, broken)


@pytest.fixture
def no_walls(monkeypatch):
    monkeypatch.delenv("AGON_ISOLATION", raising=False)
    monkeypatch.setattr("agon_env.verifiers.probe._candidates", lambda: iter(()))
    _find.cache_clear()
    yield
    _find.cache_clear()


def test_without_walls_code_is_refused_with_the_way_out(no_walls):
    assert isolation() == "none"
    with pytest.raises(RuntimeError, match="install bubblewrap"):
        require_isolation()
    tests = CodeTests(({"input": "", "output": "1"},))
    with VerifierPool() as pool, pytest.raises(RuntimeError, match="AGON_ISOLATION=none"):
        pool.submit(Problem("p", "q", "", verifier="code", tests=tests), "print(1)")


def test_an_unknown_isolation_is_named(monkeypatch):
    monkeypatch.setenv("AGON_ISOLATION", "docker")
    with pytest.raises(ValueError, match="got 'docker'"):
        isolation()


def test_without_walls_limits_and_cleaning_still_hold_when_allowed(monkeypatch):
    monkeypatch.setenv("AGON_ISOLATION", "none")
    way = require_isolation()
    mark = secrets.token_hex(6)
    daemon = NAMED + f"print(input())\nif os.fork() == 0:\n name('{mark}'); time.sleep(60)"
    folders = set(glob.glob("/tmp/agon-*"))
    with Sandbox(daemon.encode(), LIMITS, way) as sandbox:
        assert sandbox.run(b"5\n").output == b"5\n"
        assert processes(mark) == []
    assert run(way, "while True: pass", Limits(time_s=0.5)).end == "time"
    assert run(way, "x = [0] * (1 << 27)").end == "memory"
    assert set(glob.glob("/tmp/agon-*")) <= folders
