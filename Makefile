PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/installed: pyproject.toml constraints.txt setup.py $(wildcard wds_tools/_*.[ch] wds_tools/pictures/_pixels*.[ch])
	@echo 'making .venv: torch and what the tests need, some minutes' >&2
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: .venv/installed  ## make .venv with everything the tests need

lint: .venv/installed  ## ruff, bandit, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive wds_tools shardwriter loaders
	$(BIN)/mypy
	$(BIN)/lint-imports

# Three for two cores: a fifth of the time the tests wait for processes and servers. By file, since jobs of several ranks
# are run once for all tests of a file.
TESTS_AT_ONCE ?= 3

test: lint  ## lint and the tests, nine minutes
	$(BIN)/pytest -n $(TESTS_AT_ONCE) --dist loadfile -m 'not long and not cuda' --cov --cov-report=

coverage: .venv/installed  ## the lines and branches that `make test` did not come to
	$(BIN)/coverage report

test-all: .venv/installed  ## the long tests: kills, soak
	$(BIN)/pytest -n 2 -m 'long and not cuda' --timeout 900

test-cuda: .venv/installed  ## what needs a CUDA device, two minutes; skipped where there is none
	$(BIN)/pytest -m cuda

OTHER := build/python
WITHOUT_TORCH := numpy pillow simplejpeg urllib3 click xxhash rich braceexpand webdataset zstandard msgpack cbor2 \
	safetensors pyarrow pillow-jxl-plugin matplotlib pytest pytest-xdist pytest-timeout hypothesis protobuf trustme fsspec

test-python:  ## what needs no torch, with another Python: make test-python PYTHON=python3.13
	$(PYTHON) -m venv --clear $(OTHER)
	grep -v '^torch' constraints.txt > $(OTHER)/constraints.txt
	$(OTHER)/bin/pip install --quiet --disable-pip-version-check -c $(OTHER)/constraints.txt $(WITHOUT_TORCH)
	$(OTHER)/bin/pip install --quiet --disable-pip-version-check --no-deps -e .  # the tests see what is in the tree
	$(OTHER)/bin/pytest -n 2 -m 'not long and not cuda' tests/wds_tools tests/shardwriter tests/loaders tests/cases tests/platforms

demo: .venv/installed  ## real pictures to shards to a small model that learns
	$(BIN)/wds demo

FUZZ_SECONDS ?= 90

fuzz: .venv/installed  ## what is in C under sanitizers, and the parsers in Python: an hour, longer with FUZZ_SECONDS=600
	$(BIN)/python -m tests.fuzz.fuzz_walk 120
	$(BIN)/python -m tests.fuzz.fuzz_pixels 540
	$(BIN)/python -m tests.fuzz.fuzz_huffman 540
	$(BIN)/python -m tests.fuzz.fuzz_python $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.fuzz_samples 120

odd-pictures: .venv/installed  ## other projects' test pictures by every decoder; fetches 70 MB with pip and apt
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.odd_pictures

kills: .venv/installed  ## writer, packer, cache and loader killed 200 times at random moments, ten minutes
	$(BIN)/python -m tests.kills 200

soak: .venv/installed  ## training for ten minutes while shards, server, disk and workers fail
	$(BIN)/python -m tests.soak 600

docs: .venv/installed  ## the site, into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1'

notebooks: .venv/installed  ## run the notebooks and keep their outputs
	$(BIN)/python notebooks/execute.py

bench: .venv/installed  ## the benchmark table
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks

format: .venv/installed  ## ruff's formatter and safe mends
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: help install lint test coverage test-all test-cuda test-python demo fuzz kills soak odd-pictures docs notebooks bench format
