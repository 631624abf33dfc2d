"""Requests on a pipe -> programs run one at a time in forked children -> what they printed.

The first process of the sandbox. It holds the source and the input of the present test, never an
expected output, and nothing that it says decides more than what the program could print itself.
After each program every other process of the sandbox is killed; a program that leaves files behind
makes the sandbox unfit for another one, and the answer says so.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import time

import enter
import wire

COMPILE, RUN, CALL = "compile", "run", "call"
OPEN_FILES = 128
CPU_GRACE_S = 2
TICK_S = 0.05


class Task:
    """What a child has to do."""

    def __init__(self, kind, source_path, fn_name, data):
        self.kind = kind
        self.source_path = source_path
        self.fn_name = fn_name
        self.data = data
        self.result_fd = None


def serve(config):
    """Answer requests until the pipe ends. Returns, in a forked child, the child's Task."""
    inbox, outbox = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir(config["work"])
    source = wire.read_frame(inbox)
    path = os.path.join(config["work"], "solution.py")
    with open(path, "wb") as file:
        file.write(source or b"")
    spotless = _traces(config)
    gc.freeze()  # the children end in half the time when they need not collect what is ours
    _send(outbox, {"ready": os.getpid()})
    while (frame := wire.read_frame(inbox)) is not None:
        request = json.loads(frame)
        task = Task(request["do"], path, request.get("fn_name"), wire.read_frame(inbox))
        answer, output = _run_child(config, inbox, request, task)
        if answer is None or output is None:
            return task
        answer["reusable"] = answer["reusable"] and _traces(config) == spotless
        _send(outbox, answer, output)
    os._exit(0)


def _send(outbox, answer, output=b""):
    wire.write_all(outbox, wire.pack(json.dumps(answer).encode()) + wire.pack(output))


def _run_child(config, inbox, request, task):
    """Fork a program and see it through; (None, None) in the child."""
    files = _fresh_files(config["io"], task.data if task.kind == RUN else b"")
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become_program(request, task, files)
        return None, None
    timed_out, overweight = _wait(pid, inbox, start + request["time_s"], request["total_mb"])
    status = _clear_away(pid)
    seconds = time.monotonic() - start
    limit = request["output_bytes"]
    output = os.pread(files["result" if task.kind == CALL else "stdout"], limit + 1, 0)
    answer = {
        "status": status,
        "timed_out": timed_out,
        "overweight": overweight,
        "overflow": max(os.fstat(files["stdout"]).st_size, len(output)) > limit,
        "seconds": seconds,
        "reusable": _in_place(config["io"], files),
    }
    for fd in files.values():
        os.close(fd)
    return answer, output


def _fresh_files(folder, stdin):
    """Name -> descriptor of the program's new files; real files, so that no pipe can block."""
    files = {}
    for name in ("stdin", "stdout", "result"):
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        files[name] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    wire.write_all(files["stdin"], stdin)
    os.lseek(files["stdin"], 0, os.SEEK_SET)
    return files


def _in_place(folder, files):
    """Whether the folder holds these files still and nothing else."""
    try:
        there = {entry.name: entry.inode() for entry in os.scandir(folder)}
    except OSError:
        return False
    return there == {name: os.fstat(fd).st_ino for name, fd in files.items()}


def _become_program(request, task, files):
    """In the child: its own session, standard streams and limits."""
    os.setsid()
    os.dup2(files["stdin"], 0)
    os.dup2(files["stdout"], 1)
    kept = os.dup2(files["result"], 200) if task.kind == CALL else None
    os.closerange(3, 200)
    if kept is not None:
        task.result_fd = os.dup(kept)
        os.close(kept)
    enter.be_readable()
    cpu = int(request["time_s"]) + CPU_GRACE_S
    limits = {
        resource.RLIMIT_AS: request["memory_bytes"],
        resource.RLIMIT_FSIZE: request["file_bytes"],
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if request["processes"]:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    for kind, limit in limits.items():
        _limit(kind, limit, limit)
    _limit(resource.RLIMIT_CPU, cpu, cpu + 1)  # the soft one is told apart: SIGXCPU


def _limit(kind, soft, hard):
    """Set a limit, below a lower one that holds already."""
    _, present = resource.getrlimit(kind)
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(kind, (soft, hard))


def _wait(pid, inbox, end, total_mb):
    """Wait for the end of the program, of its time or of its memory: (timed out, overweight).

    The judge sends nothing meanwhile, so a stir of its pipe is its death: then all ends here.
    """
    watch = os.pidfd_open(pid)
    try:
        while (left := end - time.monotonic()) > 0:
            ready = select.select([watch, inbox], [], [], min(left, TICK_S))[0]
            if inbox in ready:
                _kill_others()
                os._exit(1)
            if ready:
                return False, False
            if _private_mb() > total_mb:
                return False, True
        return not select.select([watch], [], [], 0)[0], False
    finally:
        os.close(watch)


def _private_mb():
    """Memory of all processes of the sandbox together, without shared pages, MiB.

    The address-space limit holds for each process alone; this one stops a tree of them.
    """
    pages = 0
    if os.getpid() != 1:
        return 0
    with contextlib.suppress(FileNotFoundError):  # no /proc in this sandbox
        for name in os.listdir("/proc"):
            if name.isdigit() and name != "1":
                with contextlib.suppress(OSError), open(f"/proc/{name}/statm") as file:
                    fields = file.read().split()
                    pages += int(fields[1]) - int(fields[2])
    return pages * resource.getpagesize() >> 20


def _clear_away(pid):
    """Kill every process but this one, reap them all, and return the status of `pid`.

    Returns:
        The exit code, negative for a signal, as in `subprocess`.
    """
    status = None
    while True:
        _kill_others()
        try:
            ended, raw = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if ended == pid:
            status = os.waitstatus_to_exitcode(raw)


def _kill_others():
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # in this process namespace only
        return
    for child in _children():  # no namespace: what has been re-parented to this subreaper
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(child) for child in file.read().split()]


def _traces(config):
    """What a program could have left behind: names in the scratch folders, the source's stamp."""
    try:
        names = [os.listdir(folder) for folder, _ in config["scratch"] if folder != config["io"]]
        info = os.stat(os.path.join(config["work"], "solution.py"))
    except OSError:
        return None
    return [sorted(some) for some in names], info.st_ino, info.st_ctime_ns, info.st_size
