"""In a forked child: a Task -> the submission, compiled, run as main module, or called.

Everything that the submission can reach from here is its own: the source, the present input, and
in call mode the arguments. Results leave as JSON, so the judge compares plain data.
"""

import builtins
import json
import os
import sys
import types

OUT_OF_MEMORY = 86
"""Exit code for an uncaught MemoryError."""
NOT_PLAIN = 87
"""Exit code for a result that JSON does not know."""
PRELUDE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string
import sys, time
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import ceil, comb, floor, gcd, inf, isqrt, lcm, log2, sqrt
from typing import *
"""
"""What the editors of function-call sites have imported. Call mode only."""


def execute(task):
    """Do the task; ends with an exception, `sys.exit`, or by returning."""
    with open(task.source_path, "rb") as file:
        source = file.read()
    if task.kind == "compile":
        _check(source)
    _fresh_streams()
    sys.argv = [task.source_path]
    sys.path.insert(0, os.path.dirname(task.source_path))
    for name in ("enter", "program", "runner", "syscalls", "wire"):
        sys.modules.pop(name, None)
    try:
        if task.kind == "run":
            _run(source, task.source_path)
        else:
            _call(source, task)
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


def _check(source):
    """Exit with 0 if it compiles."""
    try:
        builtins.compile(source, "solution.py", "exec", dont_inherit=True)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _fresh_streams():
    """Text streams on the new descriptors; the interpreter's own know them as pipes."""
    options = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    sys.stdin = sys.__stdin__ = open(0, **options)  # noqa: SIM115 - it lives as long as the process
    sys.stdout = sys.__stdout__ = open(1, "w", **options)  # noqa: SIM115


def _module(name, path):
    module = types.ModuleType(name)
    module.__file__ = path
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    return module


def _run(source, path):
    module = _module("__main__", path)
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def _call(source, task):
    arguments = json.loads(task.data)
    encode = json.JSONEncoder(ensure_ascii=True).encode
    module = _module("solution", task.source_path)
    names = dict(builtins.__dict__)  # as built-ins the prelude hides no name of the module
    exec(PRELUDE, names)
    module.__dict__["__builtins__"] = names
    exec(compile(source, task.source_path, "exec", dont_inherit=True), module.__dict__)
    owner = getattr(module, "Solution", None)
    if isinstance(owner, type) and hasattr(owner, task.fn_name):
        function = getattr(owner(), task.fn_name)
    else:
        function = getattr(module, task.fn_name)
    result = function(*arguments)
    try:
        data = encode(result).encode()
    except (TypeError, ValueError, RecursionError):
        sys.exit(NOT_PLAIN)
    while data:
        data = data[os.write(task.result_fd, data) :]
