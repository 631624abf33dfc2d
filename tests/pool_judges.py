"""Judges that misbehave on request, for the tests of the pool: the reply says what happens."""

import os
import signal
import sys
import time

from agon_env.types import Problem, Verdict
from agon_env.verifiers import process


def judge_echo(problem: Problem, text: str) -> Verdict:
    """Right when the reply is the answer."""
    right = text == problem.answer
    return Verdict(right, "match" if right else "mismatch", text)


def judge_obey(problem: Problem, text: str) -> Verdict:
    """Do what the reply says, then compare."""
    order, _, argument = text.partition(" ")
    if order == "hang":
        while True:
            pass
    elif order == "sleep":
        time.sleep(float(argument))
    elif order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif order == "die_once":
        if not os.path.exists(argument):
            open(argument, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
    elif order == "raise":
        raise RuntimeError("a judge that raises")
    elif order == "quit":
        sys.exit(0)
    elif order == "fill":
        return Verdict(True, "match", str(len(bytearray(64 << 30))))
    elif order == "print":
        print("\n" * 100_000, flush=True)
        os.write(2, b"noise")
    elif order == "garble":
        os.write(int(argument), b"HTTP/1.1 200 OK")
    elif order == "answer_for_another":
        os.write(int(argument), process.pack(b'{"job": 1000000, "correct": true}'))
    elif order == "wrong_type":
        return True
    elif order == "pid":
        return Verdict(True, "match", str(os.getpid()))
    elif order == "modules":
        heavy = ("torch", "gymnasium", "pettingzoo", "sympy")
        return Verdict(True, "match", " ".join(name for name in heavy if name in sys.modules))
    elif order == "package":
        import agon_env

        return Verdict(True, "match", agon_env.Problem.__name__)
    elif order == "child":
        return Verdict(True, "match", str(_child_in_its_own_session()))
    return judge_echo(problem, text)


def _child_in_its_own_session() -> int:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return pid
