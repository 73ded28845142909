# The verbs of this project. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := bash
# Empty, so that the programs which tests start are compiled once.
PYTEST := PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest
# A file's tests share what is dear to make, and stay in one process; files are taken in the order of their names.
WORKERS ?= 2
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK ?=
VLLM_TESTS := tests/engine/models/local/test_local_vllm.py tests/engine/models/local/test_vllm_engines.py

.PHONY: help setup setup-vllm setup-prometheus setup-chromium demo test test-slow test-long test-vllm test-model check bench clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: .venv/.done ## make .venv with everything in it (once)

.venv/.done: pyproject.toml constraints.txt scripts/setup
	@scripts/setup

setup-vllm: .venv-vllm/.done ## make .venv-vllm, where vLLM runs without a GPU (once)

.venv-vllm/.done: pyproject.toml constraints-vllm.txt scripts/setup-vllm
	@scripts/setup-vllm

setup-prometheus: ## unpack Prometheus, which the tests of metrics and alerts need (once; Debian)
	@scripts/setup-prometheus

setup-chromium: ## install the browser that the tests of pages need (once; Debian)
	@scripts/setup-chromium

demo: setup ## the main job on real seeds: generate, verify, query, train, evaluate (QUICK=1: a few minutes)
	@QUICK=$(QUICK) scripts/demo

test: setup ## the quick tests, four in five, in under 10 minutes (WORKERS=2: so many at a time)
	$(PYTEST) $(PARALLEL)

test-slow: setup ## drills, clusters, browsers and trainings of seconds each; CI runs them after the quick ones
	@scripts/setup-chromium >/dev/null 2>&1 || echo "no chromium here: the tests that look at pages are skipped"
	$(PYTEST) $(PARALLEL) -m "slow and not long and not model" --timeout 900

test-long: setup setup-vllm ## the long crash drills, the full corpora, and 40 times the fuzzed inputs
	$(PYTEST) -m long --timeout 7200
	.venv-vllm/bin/python -m pytest -m long $(VLLM_TESTS)
	FOIL_FUZZ=40 $(PYTEST) $(PARALLEL) -m fuzz --timeout 7200

test-vllm: setup-vllm ## the local model over real vLLM, on the CPU
	.venv-vllm/bin/python -m pytest $(VLLM_TESTS)

test-model: setup setup-vllm ## a real small model on the CPU answers every recipe and judge
	.venv/bin/python -m pytest tests/model -m model

check: setup ## style, types, layers, sizes, no large file and no key (.pre-commit-config.yaml has the same)
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && $(PYTEST) tests/test_layers.py
	.venv/bin/python scripts/code_figures.py --check
	git ls-files -z | xargs -0 .venv/bin/python scripts/check_files.py

bench: setup ## every benchmark, quickly
	@set -e; for script in benchmarks/[a-z]*.py; do name=benchmarks.$$(basename $$script .py); \
		echo "== $$name"; .venv/bin/python -m $$name --quick; done

clean: ## remove the demo's data and caches
	rm -rf datasets_out/data .pytest_cache .mypy_cache .ruff_cache .hypothesis
