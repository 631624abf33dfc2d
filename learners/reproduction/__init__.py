"""The paper's table at any scale: methods, their training runs, their held-out results.

`methods.py` says what is compared, `runs.py` trains one (run, seed) and measures it, `table.py`
turns the stored results into numbers with intervals. `benchmarks/reproduce.py` is the command.
"""
