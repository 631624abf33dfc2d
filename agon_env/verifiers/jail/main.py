"""Script: the first process of a sandbox. A configuration (JSON argument) -> a served submission.

Enters the namespaces if nobody did it before, gives up its privileges, then runs one program after
another in forked children (`runner`). In such a child `serve` returns, and the submission runs
below as the main module, so that the interpreter itself deals with its exceptions, exit codes,
threads and buffers.
"""

import json
import os
import site
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import enter
import program
import runner

del sys.path[0]

config = json.loads(sys.argv[1])
if config["enter"]:
    enter.enter_namespaces(config)
enter.give_up_privileges(config)
site.setquit()  # the interpreter starts without `site`: no packages, 5 times faster; keep `exit()`
task = runner.serve(config)  # returns in the children only
program.execute(task)
