# Everything a clone needs: Python 3.11 or newer, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# processes that the tests run in: two more than there are processors, as they wait for programs and terminals half of the time
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# and those that wait for nothing: each process more would read all tests again
COMPUTING ?= $(shell getconf _NPROCESSORS_ONLN)
# the tests start hundreds of processes: without compiled modules they take twice as long
unexport PYTHONDONTWRITEBYTECODE
RUNTIME := $(VENV)/.runtime-installed
DEVELOPMENT := $(VENV)/.development-installed
# the other planner lives apart: it brings sixty packages that nothing here needs
SECOND_VENV := .venv-second-opinion
AICONFIGURATOR := 0.12.0
SECOND := $(SECOND_VENV)/.aiconfigurator-$(AICONFIGURATOR)

# versions and hashes of the development environment; LOCK= takes whatever versions there are
LOCK := requirements-dev.txt
# what pins, audits and lists lives apart too
SUPPLY_VENV := .venv-supply
SUPPLY := $(SUPPLY_VENV)/.installed
# and so does what builds the documentation site
SITE_VENV := .venv-site
SITE := $(SITE_VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-quick test-sweep test-measuring fuzz oracles check format shots samples frames calibrate accuracy second-opinion bench-planner lock audit sbom dist docs soak clean

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: $(RUNTIME) ## Install into .venv if need be, and open the planner (ARGS="…" are passed on)
	@"$(BIN)/gpu-planner" $(ARGS)

test: $(DEVELOPMENT) ## Lint, types, contracts and tests: what has to pass
	@$(MAKE) --no-print-directory --jobs 2 tests-with-torch tests-beside

test-sweep: $(DEVELOPMENT) ## The sweeps of which `make test` tries a part, whole, and new examples of its rules; run them when the screen or its words change
	"$(BIN)/pytest" -q -n $(WORKERS) -m "thorough"
	"$(BIN)/pytest" -q -n $(WORKERS) -m "hypothesis and not thorough" --hypothesis-profile "new examples"

test-measuring: $(DEVELOPMENT) ## The tests that measure this machine for real: two minutes; run them when bench or planner/observe changes
	"$(BIN)/pytest" -q -n 2 -m "measuring and not alone"
	"$(BIN)/pytest" -q -m "measuring and alone"

tests-beside: $(DEVELOPMENT)
	"$(BIN)/pytest" -q -n $(WORKERS) -m "not (measuring or thorough or torch_inside)"

# in one process, as each that loads PyTorch and transformers needs five seconds and a gigabyte
tests-with-torch: $(DEVELOPMENT) check
	"$(BIN)/pytest" -q -m "torch_inside and not (measuring or thorough)"

test-quick: $(DEVELOPMENT) ## The tests that need no process, terminal, screen, server or PyTorch, and no sweep over many cases
	"$(BIN)/pytest" -q -n $(COMPUTING) -m "not (process or pty or screen or server or sweep or thorough or torch or measuring)"

fuzz: $(DEVELOPMENT) ## Try random lines, presets and commands for MINUTES (1), with new seeds each time
	"$(BIN)/python" tests/fuzz/run.py $(or $(MINUTES),1)

oracles: $(DEVELOPMENT) ## Compute the golden values of the tests anew, ten minutes; fails where one differs
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

frames: $(DEVELOPMENT) ## Draw the screens that the tests compare anew
	"$(BIN)/pytest" -q -n $(WORKERS) tests/screen/screens/test_frames.py tests/screen/test_snapshots.py tests/screen/screens/test_study_screen.py --snapshot-update

samples: $(DEVELOPMENT) ## Print the samples of README and docs/guide/usage.md anew
	"$(BIN)/python" scripts/samples.py

calibrate: $(DEVELOPMENT) ## Fit the ranges to DIR, a folder of published measurements, each source left out in turn
	"$(BIN)/python" scripts/calibration/fit_ranges.py "$(DIR)"
	"$(BIN)/python" scripts/calibration/fit_classes.py "$(DIR)"

accuracy: $(DEVELOPMENT) ## Write docs/evidence/accuracy.md from DIR, a folder of published measurements (OPERATORS: of operator timings)
	"$(BIN)/python" scripts/calibration/accuracy.py "$(DIR)" $(if $(OPERATORS),--operators "$(OPERATORS)")

second-opinion: $(DEVELOPMENT) $(SECOND) ## Write docs/evidence/second-opinion.md: aiconfigurator's errors beside ours on the measurements in DIR
	"$(BIN)/python" scripts/calibration/second_opinion.py "$(DIR)" --answers "$(SECOND_VENV)/answers.jsonl" --out docs/evidence/second-opinion.md

bench-planner: $(DEVELOPMENT) ## Time the planner itself: start, plan, re-rank, estimate
	"$(BIN)/python" scripts/bench_planner.py

lock: $(SUPPLY) ## Pin the newest versions of the development environment and their hashes in requirements-dev.txt
	"$(SUPPLY_VENV)/bin/uv" pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade --generate-hashes \
		--no-config --no-header --no-annotate --quiet --output-file $(LOCK) > /dev/null

audit: $(SUPPLY) ## Ask a public database for known vulnerabilities of what is pinned; needs a network
	"$(SUPPLY_VENV)/bin/pip-audit" --requirement $(LOCK) --require-hashes --disable-pip --strict

sbom: $(DEVELOPMENT) $(SUPPLY) ## Build the wheel, and list what an installation of it consists of in dist/sbom.json (CycloneDX)
	"$(BIN)/python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	"$(PYTHON)" -m venv --clear build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check dist/gpu_planner-*.whl
	build/sbom/bin/python -m pip uninstall --quiet --yes pip setuptools
	"$(SUPPLY_VENV)/bin/cyclonedx-py" environment --pyproject pyproject.toml --output-reproducible --output-file dist/sbom.json build/sbom

dist: $(SUPPLY) ## Build wheel and sdist into dist/, check what they say of themselves, and run each from an installation of its own
	rm -rf build/dist && mkdir -p build/dist
	"$(SUPPLY_VENV)/bin/uv" build --quiet --out-dir build/dist .
	"$(SUPPLY_VENV)/bin/twine" check --strict build/dist/*.whl build/dist/*.tar.gz
	"$(PYTHON)" scripts/try_distribution.py build/dist "$(SUPPLY_VENV)/bin/uv"
	mkdir -p dist && mv build/dist/*.whl build/dist/*.tar.gz dist/

docs: $(RUNTIME) $(SITE) ## Build the documentation site into site/, with a page of every command; fails on a warning or a link that leads nowhere
	"$(BIN)/python" scripts/site_pages.py build/pages
	NO_MKDOCS_2_WARNING=1 "$(SITE_VENV)/bin/mkdocs" build --strict --quiet --config-file build/pages.yml --site-dir "$(CURDIR)/site"

soak: $(DEVELOPMENT) ## Eight hours of use in some ten minutes (SHARE=0.1: a tenth): memory, handles and threads have to stay flat
	"$(BIN)/python" scripts/soak.py $(SHARE)

clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) $(SECOND_VENV) $(SUPPLY_VENV) $(SITE_VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11")'
	"$(PYTHON)" -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(VENV)/bin/python
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.3'
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --editable '.[bench,hub]'
	@touch $@

# everything by its hash but torch, which is another file for each kind of GPU (docs/decisions/021-locked-but-torch.md)
$(DEVELOPMENT): pyproject.toml $(LOCK) | $(VENV)/bin/python
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check $(if $(LOCK),--require-hashes --requirement $(LOCK),--upgrade 'pip>=25.3')
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check $(if $(LOCK),--no-build-isolation,--group dev) --editable '.[bench]'
	@touch $(RUNTIME) $@

$(SUPPLY):
	"$(PYTHON)" -m venv --clear $(SUPPLY_VENV)
	"$(SUPPLY_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check 'uv==0.13.9' 'cyclonedx-bom==7.5.0' 'pip-audit==2.10.1' 'twine==7.0.0'
	@touch $@

$(SITE):
	"$(PYTHON)" -m venv --clear $(SITE_VENV)
	"$(SITE_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check 'mkdocs-material==9.8.1' 'mkdocs==1.6.1'
	@touch $@

$(SECOND):
	"$(PYTHON)" -m venv --clear $(SECOND_VENV)
	"$(SECOND_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check 'aiconfigurator==$(AICONFIGURATOR)'
	@touch $@
