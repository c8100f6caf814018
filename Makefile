# make setup   packages, programs and the Python package, in .venv
# make demo    two jobs of real programs share a store; prints what each policy does to them
# make test    linters and every test
# make suites  suites that others wrote, on the store and on tmpfs; make suite-NAME one of them (docs/development/suites.md)
# make bench   every benchmark; make bench-NAME one of them (its last line is one JSON object)
# make clean   removes what was built

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup packages fuse-device demo test lint test-rust test-python suites suites-packages bench clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(CURDIR)/target/tools

# Debian packages of the programs that run on the store in tests and benchmarks. What is there already is not asked for.
PACKAGES := acl attr bonnie++ dbench fio fsmark fuse3 gcc git libmpich-dev lmdb-utils make mpich pkg-config redis-server \
	redis-tools rocksdb-tools rsync sqlite3 strace tar
PACKAGES += $(shell command -v go >/dev/null || echo golang-go)
PACKAGES += $(shell $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv)
# Those of `make suites` alone.
SUITES_PACKAGES := lmdb-utils mpich postgresql rocksdb-tools stress-ng

RUST_SOURCES := $(shell find crates -type f \( -name '*.rs' -o -name Cargo.toml \))
PYTHON_SOURCES := $(shell find python -type f \( -name '*.py' -o -name '*.pyi' -o -name py.typed \))
# `bench-adapt` runs the forecasts, and `bench-place` the others of these, so `make bench` does not run them again.
BENCHMARK_PARTS := $(patsubst %,benchmarks/%.py,allocation forecast lookup prediction replay)
BENCHMARKS := $(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_% $(BENCHMARK_PARTS),$(wildcard benchmarks/*.py)))

export CARGO_TERM_COLOR ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK := 1

setup: fuse-device $(VENV)/installed $(TOOLS)/bin/fsx

packages:
	@missing=(); for package in $(PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing+=($$package); \
	done; \
	if [ $${#missing[@]} -eq 0 ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "error: these packages are missing: $${missing[*]}" >&2; \
		echo "hint: this machine has no apt-get; install them under the names they have here" >&2; exit 1; \
	fi; \
	if [ $$(id -u) -eq 0 ]; then root=; \
	elif command -v sudo >/dev/null; then root=sudo; \
	else \
		echo "error: these packages are missing: $${missing[*]}" >&2; \
		echo "hint: install them as root" >&2; exit 1; \
	fi; \
	echo "installing $${missing[*]}"; \
	$$root apt-get update -qq; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null

# Debian's udev rule opens the FUSE device to every user, who mounts through fusermount3. Containers run no udev.
fuse-device: packages
	@if [ -c /dev/fuse ] && [ $$(id -u) -eq 0 ] && [ $$(stat -c %a /dev/fuse) != 666 ]; then chmod 666 /dev/fuse; fi

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# Build tools and test tools lie beside the package, so that a second build downloads and isolates nothing.
$(VENV)/tooled: $(VENV)/created pyproject.toml
	$(BIN)/pip install --quiet --upgrade 'setuptools>=77' 'setuptools-rust>=1.12' wheel
	$(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print("\n".join(project["dependencies"] + project["optional-dependencies"]["test"]))' \
		| $(BIN)/pip install --quiet --requirement /dev/stdin
	touch $@

# setuptools copies what lies in build/, also what is gone from the sources, so it goes first.
$(VENV)/installed: $(VENV)/tooled Cargo.toml Cargo.lock $(RUST_SOURCES) $(PYTHON_SOURCES)
	rm -rf build
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/pip install --quiet --no-build-isolation --no-deps --force-reinstall .
	touch $@

# The file system exerciser, in the test suite's own place.
$(TOOLS)/bin/fsx:
	cargo install --quiet --locked --root $(TOOLS) fsx

# Programs of suites that are packages or crates. What is neither is looked for below WEIR_SUITES, and never downloaded.
suites-packages: $(TOOLS)/bin/pjdfstest
	@$(MAKE) --no-print-directory packages PACKAGES='$(SUITES_PACKAGES)'

$(TOOLS)/bin/pjdfstest:
	cargo install --quiet --locked --root $(TOOLS) pjdfstest

demo: setup
	$(BIN)/python examples/demo.py

test: lint test-rust test-python

lint: setup
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd benchmarks && $(CURDIR)/$(BIN)/mypy --strict .
	$(BIN)/python -m mypy.stubtest --concise weir._core
	$(BIN)/lint-imports

test-rust: lint
	cargo test --quiet --workspace --locked

# Last, so that its closing line ends the output.
test-python: test-rust
	PATH="$(CURDIR)/$(BIN):$(TOOLS)/bin:$$PATH" $(BIN)/pytest

# make suites SUITE='lmdb ltp' ARGUMENTS='--way mount'
suites: setup suites-packages
	PYTHONPATH=tests $(BIN)/python -m suites $(SUITE) $(ARGUMENTS)

suite-%: setup suites-packages
	PYTHONPATH=tests $(BIN)/python -m suites $* $(ARGUMENTS)

bench: $(BENCHMARKS)

bench-%: setup
	@mkdir -p benchmarks/out
	$(BIN)/python benchmarks/$*.py

clean:
	rm -rf target build $(VENV) python/*.egg-info benchmarks/out
