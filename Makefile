# Everything a clone needs: Python 3.11 or newer, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# processes that the tests run in
WORKERS ?= auto
RUNTIME := $(VENV)/.runtime-installed
DEVELOPMENT := $(VENV)/.development-installed
# the other planner lives apart: it brings sixty packages that nothing here needs
SECOND_VENV := .venv-second-opinion
AICONFIGURATOR := 0.12.0
SECOND := $(SECOND_VENV)/.aiconfigurator-$(AICONFIGURATOR)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-quick oracles check format shots samples calibrate accuracy second-opinion bench-planner clean

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: $(RUNTIME) ## Install into .venv if need be, and open the planner (ARGS="…" are passed on)
	@"$(BIN)/gpu-planner" $(ARGS)

test: $(DEVELOPMENT) ## Lint, types, contracts and tests: what has to pass
	@$(MAKE) --no-print-directory --jobs 2 check tests-together
	"$(BIN)/pytest" -q -m alone

# all but the tests that judge times, which nothing else may disturb
tests-together: $(DEVELOPMENT)
	"$(BIN)/pytest" -q -n $(WORKERS) -m "not alone"

test-quick: $(DEVELOPMENT) ## The tests that need no process, terminal, screen or PyTorch
	"$(BIN)/pytest" -q -n $(WORKERS) -m "not (process or pty or screen or torch or alone)"

oracles: $(DEVELOPMENT) ## Compute the golden values of the tests anew, which takes a minute; fails where one differs
	"$(BIN)/python" tests/oracles/recompute.py

check: $(DEVELOPMENT) ## Lint, types and contracts, without the tests
	"$(BIN)/ruff" check .
	"$(BIN)/ruff" format --check .
	"$(BIN)/mypy"
	"$(BIN)/lint-imports"

format: $(DEVELOPMENT) ## Format the code and apply the safe fixes
	"$(BIN)/ruff" check --fix .
	"$(BIN)/ruff" format .

shots: $(DEVELOPMENT) ## Draw the screenshot of README with the program itself
	"$(BIN)/python" scripts/shots.py docs

samples: $(DEVELOPMENT) ## Print the samples of README and docs/usage.md anew
	"$(BIN)/python" scripts/samples.py

calibrate: $(DEVELOPMENT) ## Fit the ranges to DIR, a folder of published measurements, each source left out in turn
	"$(BIN)/python" scripts/calibration/fit_ranges.py "$(DIR)"

accuracy: $(DEVELOPMENT) ## Write docs/accuracy.md from DIR, a folder of published measurements (OPERATORS: of operator timings)
	"$(BIN)/python" scripts/calibration/accuracy.py "$(DIR)" $(if $(OPERATORS),--operators "$(OPERATORS)")

second-opinion: $(DEVELOPMENT) $(SECOND) ## Write docs/second-opinion.md: aiconfigurator's errors beside ours on the measurements in DIR
	"$(BIN)/python" scripts/calibration/second_opinion.py "$(DIR)" --answers "$(SECOND_VENV)/answers.jsonl" --out docs/second-opinion.md

bench-planner: $(DEVELOPMENT) ## Time the planner itself: start, plan, re-rank, estimate
	"$(BIN)/python" scripts/bench_planner.py

clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) $(SECOND_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11")'
	"$(PYTHON)" -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(VENV)/bin/python
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

$(DEVELOPMENT): $(RUNTIME) pyproject.toml
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

$(SECOND):
	"$(PYTHON)" -m venv --clear $(SECOND_VENV)
	"$(SECOND_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check 'aiconfigurator==$(AICONFIGURATOR)'
	@touch $@
