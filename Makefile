# GNU make 4.3. Every target makes what it needs from a bare Python 3.11 or newer with venv and pip.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-fast lint demo-vllm serve-vllm test-releases new-release check-releases bench-startup bench-vote bench-serving bench-trust bench-fingerprint bench-listing clean overlay

# The version is asked for by running it: a name on PATH may be a stub for a Python that is not there.
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python3.12 python3.13,$(if $(shell \
  $(name) -c 'import sys; print("yes" * (sys.version_info >= (3, 11)))' 2>/dev/null),$(name))))
PORT ?= 8123
CACHE ?= build/serve-cache
RANKS ?= 8
WORKERS ?= 2
RELEASES := 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0 0.34.0

ENVIRONMENT := .venv/bin/python tools/vllm_environment.py
# WARMCURVE_VLLM_CPU and its directory on PYTHONPATH: the stand-ins, in this process and in those that vLLM spawns.
VLLM := WARMCURVE_VLLM_CPU=1 OMP_NUM_THREADS=1
VLLM_PATH := $(CURDIR)/build/overlay:$(CURDIR)/examples/vllm_cpu
# vLLM and what it imports warn of their own affairs: only our core tests turn warnings into errors.
VLLM_PYTEST := -m pytest -p no:cacheprovider -o filterwarnings=ignore --timeout 600
PARALLEL := -n $(WORKERS)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | column -t -s '|'

demo: .venv/.installed ## boot the embedded engine cold and warm, and serve: no GPU, no torch; JSON=1, OUT=DIR for a page
	@.venv/bin/warmcurve demo $(if $(filter-out 0,$(JSON)),--json) $(if $(OUT),--out "$(OUT)")

test: test-fast overlay ## the core tests, then those of the real vLLM on the CPU: in this process, as processes, two ranks
	@vllm=$$($(ENVIRONMENT))
	$(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" $(VLLM_PYTEST) $(PARALLEL) -m 'not full' tests/vllm

test-fast: .venv/.installed ## the core tests alone
	@.venv/bin/python -m pytest $(PARALLEL) -m 'not full' tests --ignore=tests/vllm

test-all: overlay ## every test; SLICE=K/N, the K-th of N parts of what `make test` leaves out; tests/README.md says what that is
	@vllm=$$($(ENVIRONMENT))
	slice="$(if $(SLICE),--slice=$(SLICE))"
	.venv/bin/python -m pytest $(PARALLEL) $$slice tests --ignore=tests/vllm || [ $$? = 5 ] # none in this part
	$(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" $(VLLM_PYTEST) $(PARALLEL) $$slice tests/vllm

lint: .venv/.installed ## ruff and mypy
	@.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

demo-vllm: overlay ## boot the real vLLM cold, then warm; JSON=1 prints one JSON document, KEEP=DIR leaves the store
	@vllm=$$($(ENVIRONMENT))
	$(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" examples/demo_vllm.py

serve-vllm: overlay ## the real `vllm serve` on tiny models until Ctrl-C, warm from the second time; PORT=8123, CACHE=DIR
	@vllm=$$($(ENVIRONMENT))
	exec env $(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" examples/vllm_cpu/command_line.py "$(PORT)" "$(CACHE)"

test-releases: overlay ## the warm boot on every supported release of vLLM; gate and fingerprint on the newest
	@vllm=$$($(ENVIRONMENT))
	table=; failed=0
	for version in $(RELEASES); do
	  path="$(VLLM_PATH)"
	  [ "$$version" = 0.32.0 ] || path="$$(.venv/bin/python tools/releases.py $$version):$$path"
	  tests=test_warm_boot
	  [ "$$version" != "$(lastword $(RELEASES))" ] || tests="test_warm_boot test_factors test_configuration test_places test_gate test_two_calibrations test_new_release"
	  result=passed
	  $(VLLM) VLLM_TARGET_DEVICE=cpu PYTHONPATH="$$path" "$$vllm/bin/python" $(VLLM_PYTEST) \
	    $$(printf 'tests/vllm/%s.py ' $$tests) || { result=failed; failed=1; }
	  table+="$$version  $$result  $$tests"$$'\n'
	done
	printf '\nvLLM    result  tests\n%s' "$$table"
	exit $$failed

new-release: overlay ## what is left to do to support another release of vLLM; VERSION=x.y.z
	@[ -n "$(VERSION)" ] || { echo "name one: make new-release VERSION=x.y.z"; exit 2; }
	.venv/bin/python tools/new_release.py "$(VERSION)"

check-releases: .venv/.installed ## whether the newest vLLM on the package index is supported; fails if not
	@.venv/bin/python tools/new_release.py --newest

bench-startup: overlay ## vLLM's own start-up benchmark, with warmcurve off and on
	@vllm=$$($(ENVIRONMENT))
	$(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" bench/startup.py

bench-vote: overlay ## what the votes of a warm boot cost; RANKS=8
	@vllm=$$($(ENVIRONMENT))
	OMP_NUM_THREADS=1 PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" bench/vote.py "$(RANKS)"

bench-serving: .venv/.installed ## the embedded engine at four loads, in every mode, as ratios
	@.venv/bin/python bench/serving.py

bench-trust: .venv/.installed ## what a confirmed curve is worth: writes docs/trust.md; some minutes
	@.venv/bin/python bench/trust.py --docs docs

bench-fingerprint: overlay ## what reading the factors of a live vLLM costs, and the import hook where nothing calibrates
	@vllm=$$($(ENVIRONMENT))
	$(VLLM) PYTHONPATH="$(VLLM_PATH)" "$$vllm/bin/python" bench/fingerprint.py 2>/dev/null | grep -v ' INFO \| WARNING '

bench-listing: .venv/.installed ## ls and verify where a store has ENTRIES=10000; AGAINST=the src of another checkout
	@.venv/bin/python bench/listing.py --entries "$(or $(ENTRIES),10000)" $(if $(AGAINST),--against "$(AGAINST)")

clean: ## remove what was made in this directory, not vLLM's environment in the cache
	@rm -rf build dist .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools examples -name __pycache__ -prune -exec rm -rf {} +

# Named by the pins: other pins, another stamp, and .venv is made anew.
PINS := .venv/.pins-$(shell sha256sum requirements/dev.txt | cut -c1-12)

$(PINS): | requirements/dev.txt
	@exec >&2
	python="$(PYTHON)"
	[ -n "$$python" ] || { echo "no Python 3.11 or newer found; name one: make PYTHON=..."; exit 1; }
	echo "making .venv from requirements/dev.txt"
	"$$python" -m venv --clear .venv
	.venv/bin/python -m pip install -qq "$$(grep '^pip==' requirements/dev.txt)"
	.venv/bin/python -m pip install -qq --no-deps -r requirements/dev.txt
	touch $@

# Editable, for the command line and the entry points; again when what the metadata is made from changes.
.venv/.installed: $(PINS) pyproject.toml src/warmcurve/_version.py
	@.venv/bin/python -m pip install -qq --no-deps --no-build-isolation --no-index -e . >&2
	touch $@

overlay: .venv/.installed
	@.venv/bin/python tools/overlay.py
