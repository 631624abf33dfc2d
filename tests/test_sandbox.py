"""The sandbox: whatever a submission tries, it finds nothing, reaches nothing, leaves nothing."""

import os
import secrets
import socket
import textwrap
import time

import pytest
from sandboxes import LIMITS, NAMED, printed, processes, run, slow

from agon_env.types import CodeTests, Problem
from agon_env.verifiers import VerifierPool
from agon_env.verifiers.sandbox import Limits, Sandbox


def behind(monkeypatch, way):
    """Let the pool's workers judge behind the same kind of wall."""
    monkeypatch.setenv("AGON_ISOLATION", way.way)


def test_a_daemon_in_its_own_session_does_not_survive(way):
    mark = secrets.token_hex(6)
    code = NAMED + textwrap.dedent(f"""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                name("{mark}")
                time.sleep(60)
            os._exit(0)
        time.sleep(0.3)
        print("done", flush=True)
    """)
    with Sandbox(code.encode(), LIMITS, way) as sandbox:
        assert sandbox.run(b"").output == b"done\n"
        assert processes(mark) == []


@pytest.mark.slow
def test_a_fork_bomb_ends_with_its_time(way):
    mark = secrets.token_hex(6)
    code = NAMED + f"name('{mark}')\n" + "while True:\n try: os.fork()\n except OSError: pass"
    start = time.monotonic()
    with Sandbox(code.encode(), Limits(time_s=1), way) as sandbox:
        assert sandbox.run(b"").end in ("time", "memory")
        assert processes(mark) == []
    assert time.monotonic() - start < 10


@pytest.mark.slow
def test_a_tree_of_processes_shares_a_memory_limit(way):
    code = """
        import os, time
        for _ in range(12):
            if os.fork() == 0:
                kept = bytearray(os.urandom(1 << 20) * 200)
                time.sleep(20)
        time.sleep(20)
    """
    with Sandbox(textwrap.dedent(code).encode(), Limits(time_s=15, memory_mb=256), way) as sandbox:
        result = sandbox.run(b"")
    assert result.end in ("memory", "time")  # without /proc inside only the time ends it


def test_the_network_is_out_of_reach(way):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"""
            import socket
            for address in (("127.0.0.1", {listener.getsockname()[1]}), ("192.0.2.1", 80)):
                try:
                    socket.create_connection(address, timeout=1)
                    print("open")
                except OSError:
                    print("closed")
        """
        assert printed(way, code).split() == ["closed", "closed"]


def test_an_abstract_socket_of_the_host_is_out_of_reach(way):
    name = "\0agon-" + secrets.token_hex(6)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        code = f"""
            import socket
            try:
                socket.socket(socket.AF_UNIX).connect({name!r})
                print("open")
            except OSError:
                print("closed")
        """
        assert printed(way, code) == "closed"


def test_nothing_outside_the_scratch_folders_can_be_written(way):
    code = """
        import os, sys
        places = ["/", "/usr", "/etc", "/dev", "/root", "/home", "/proc/sys/kernel", "/jail"]
        places += ["/sys", sys.prefix, os.path.dirname(os.__file__), "/proc/1", "/run", "/var"]
        written = []
        for place in places:
            for path in (place + "/mark", place + "/core_pattern", place + "/oom_score_adj"):
                try:
                    with open(path, "w") as file:
                        file.write("0")
                    written.append(path)
                except OSError:
                    pass
        print(written)
    """
    assert printed(way, code) == "[]"


def test_the_home_of_the_judge_cannot_be_listed(way):
    code = """
        import os, pathlib
        for place in ("/root", "/home"):
            try:
                print(os.listdir(place))
            except OSError:
                print("closed")
        print(pathlib.Path.home())
    """
    assert printed(way, code).split() == ["closed", "closed", "/tmp"]


def test_the_first_process_shows_neither_memory_nor_descriptors(way):
    """What the pid 1 holds is no secret, but a way in would be a way to forge its reports."""
    code = """
        import os
        for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd/0",
                     "/proc/1/fd/4", "/proc/1/root", "/proc/1/cwd"):
            try:
                os.close(os.open(path, os.O_RDONLY))
                print("open", path)
            except OSError:
                pass
        print("end")
    """
    assert printed(way, code) == "end"


def test_dangerous_system_calls_are_refused(way):
    code = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        refused = [
            libc.unshare(0x10000000), libc.unshare(0x00020000), libc.shmget(0, 1 << 20, 0o1600),
            libc.mount(b"x", b"/tmp", b"tmpfs", 0, None), libc.ptrace(16, os.getppid(), 0, 0),
            libc.setresuid(0, 0, 0) if os.getuid() else -1, libc.chroot(b"/tmp"),
            libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000011, 0, 0, 0, 0),
        ]
        print(set(refused))
    """
    assert printed(way, code) == "{-1}"


def test_limits_cannot_be_raised(way):
    code = """
        import resource
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
            try:
                resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
                print("raised")
            except (OSError, ValueError):
                print("held")
    """
    assert printed(way, code).split() == ["held"] * 3


def test_files_are_bounded(way):
    code = """
        def fill(path, megabytes):
            try:
                with open(path, "wb") as file:
                    for _ in range(megabytes):
                        file.write(bytes(1 << 20))
                return "kept"
            except OSError:
                return "stopped"
        print(fill("/tmp/one", 17))
        print([fill(f"/tmp/{i}", 15) for i in range(6)][-1])
    """
    assert printed(way, code).split() == ["stopped", "stopped"]


@pytest.mark.parametrize("signal", [9, slow(15), slow(19)])
def test_signals_reach_nobody_else(way, signal):
    code = f"""
        import os
        os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None
        for victim in (1, -1, os.getppid()):
            try:
                os.kill(victim, {signal})
            except OSError:
                pass
        print("alive")
    """
    with Sandbox(textwrap.dedent(code).encode(), LIMITS, way) as sandbox:
        assert sandbox.run(b"").output == b"alive\n"
        assert sandbox.run(b"").output == b"alive\n"


@pytest.mark.parametrize(
    "trick", [slow("os.mkfifo"), slow("os.mkdir"), "lambda p: os.symlink('/dev/zero', p)"]
)
def test_a_program_that_replaces_its_own_files_fools_nobody(way, trick):
    code = f"""
        import os
        print(input(), flush=True)
        for name in ("stdin", "stdout", "result"):
            os.unlink("/io/" + name)
            ({trick})("/io/" + name)
    """
    with Sandbox(textwrap.dedent(code).encode(), LIMITS, way) as sandbox:
        assert sandbox.run(b"first\n").output == b"first\n"
        assert sandbox.run(b"second\n").output == b"second\n"


def test_what_one_test_leaves_behind_the_next_does_not_find(way):
    code = """
        import glob, os
        print(sorted(glob.glob("/tmp/*") + glob.glob("/dev/shm/*") + glob.glob("/tmp/.*")))
        for path in ("/tmp/a", "/tmp/.b", "/dev/shm/c", "/tmp/json.py"):
            open(path, "w").close()
        os.makedirs("/tmp/deep/er")
        os.chmod("/tmp/deep", 0)
    """
    with Sandbox(textwrap.dedent(code).encode(), LIMITS, way) as sandbox:
        first, second = sandbox.run(b""), sandbox.run(b"")
    assert first.output == second.output == b"['/tmp/solution.py']\n"


def test_a_program_that_rewrites_itself_runs_as_it_was(way):
    code = """
        print("original")
        with open(__file__, "w") as file:
            file.write("print('rewritten')")
    """
    with Sandbox(textwrap.dedent(code).encode(), LIMITS, way) as sandbox:
        assert [sandbox.run(b"").output for _ in range(2)] == [b"original\n"] * 2


def test_a_clean_test_lets_the_sandbox_serve_the_next(way):
    code = "import os; print(os.stat('/tmp').st_ino, os.stat('/tmp/solution.py').st_ctime_ns)"
    with Sandbox(code.encode(), LIMITS, way) as sandbox:
        assert sandbox.run(b"").output == sandbox.run(b"").output


def test_frames_forged_on_every_descriptor_change_nothing(way):
    code = """
        import os, struct
        body = b'{"status": 0, "timed_out": false, "overflow": false, "seconds": 0}'
        frame = struct.pack("<4sI", b"AGON", len(body)) + body
        for fd in range(3, 300):
            try:
                os.write(fd, frame)
            except OSError:
                pass
        for path in ("/proc/1/fd/4", "/proc/self/fd/4", "/proc/1/fd/1"):
            try:
                open(path, "wb").write(frame)
            except OSError:
                pass
        raise SystemExit(1)
    """
    assert run(way, code).end == "crashed"


def test_the_environment_is_not_inherited(way, monkeypatch):
    monkeypatch.setenv("AGON_TEST_SECRET", "swordfish")
    assert "swordfish" not in printed(way, "import os; print(dict(os.environ))")


def test_expected_outputs_are_nowhere_inside(monkeypatch, way):
    """Memory, files, environment and command lines of everything that can be seen."""
    behind(monkeypatch, way)
    secret = secrets.token_hex(8)
    code = f"""
        import glob, os, re
        wanted = re.compile("{secret[:4]}" + "[0-9a-f]" * 12)
        texts, places = [], ("/tmp/*", "/io/*", "/jail/*", "/dev/shm/*")
        places += ("/proc/*/environ", "/proc/*/cmdline")
        for path in [path for place in places for path in glob.glob(place)]:
            try:
                texts.append(open(path, "rb").read().decode("latin-1"))
            except OSError:
                pass
        for line in open("/proc/self/maps") if os.path.exists("/proc/self/maps") else []:
            fields = line.split()
            if "r" in fields[1] and "[v" not in line:
                start, end = (int(x, 16) for x in fields[0].split("-"))
                try:
                    with open("/proc/self/mem", "rb", 0) as memory:
                        memory.seek(start)
                        texts.append(memory.read(min(end - start, 1 << 24)).decode("latin-1"))
                except (OSError, ValueError, OverflowError):
                    pass
        found = [match for text in texts for match in wanted.findall(text)]
        print(found[0] if found else "nothing")
    """
    text = f"```python\n{textwrap.dedent(code)}\n```"
    tests = CodeTests(({"input": "", "output": secret},), time_s=8)
    with VerifierPool(workers=1) as pool:
        verdict = pool.submit(Problem("p", "q", "", verifier="code", tests=tests), text).result()
    assert verdict.reason == "wrong_answer"


def test_a_killed_judge_takes_its_sandbox_along(monkeypatch, way):
    behind(monkeypatch, way)
    mark = secrets.token_hex(6)
    text = f"```python\n{NAMED}\nname('{mark}')\ntime.sleep(60)\n```"
    tests = CodeTests(({"input": "", "output": "1"},), time_s=50)
    with VerifierPool(workers=1) as pool:
        pool.submit(Problem("p", "q", "", verifier="code", tests=tests), text)
        end = time.monotonic() + 20
        while not processes(mark) and time.monotonic() < end:
            time.sleep(0.02)
        assert processes(mark)
    end = time.monotonic() + 3
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.02)
    assert processes(mark) == []


def test_closing_leaves_no_pipe_open(way):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(way, "print(1)")
    assert len(os.listdir("/proc/self/fd")) == before
