# make setup   packages, programs and the Python package, in .venv
# make demo    two jobs of real programs share a store; prints what each policy does to them
# make check   formatting, linters and the fast tests of what differs from the branch main; BASE=COMMIT: from a commit
# make test    linters and every test; all of them run, whatever fails, and the last lines count. Without `make setup` before it, the
#              package is compiled as the tests are: with assertions, and less optimised
# make test-slurm  what runs under Slurm, as root: sweeps, stores in an allocation, storage of jobs; its daemons are installed for it alone
# make soak    an hour of random calls, then 100 random schedules of faults on several hosts, as root: a night; ARGUMENTS='--seed N'
#              goes on (docs/development/soak.md); make soak-calls ARGUMENTS='--minutes 5' the calls alone (docs/development/random-calls.md)
# make world   10,000 worlds of servers and clients that fail by a seed; ARGUMENTS='--seconds 60' for a minute; make world-mutants takes
#              rules out, and says which seed misses each (docs/development/world.md)
# make suites  suites that others wrote, on the store and on tmpfs; make suite-NAME one of them (docs/development/suites.md)
# make bench   every benchmark; make bench-NAME one of them (its last line is one JSON object)
# make docs    the documentation as one site with a search box, in target/site
# make pictures  the pictures of the control room in README and the guides, from a real store and a browser
# make clean   removes what was built

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup test-setup packages demo-packages fuse-device demo check test test-slurm lint lint-format lint-clippy lint-ruff lint-mypy \
	lint-benchmarks lint-stubs lint-imports test-rust test-python world world-mutants soak soak-calls suites suites-packages simulate-packages speed-packages bench docs pictures clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(CURDIR)/target/tools
WHEEL := target/wheel
# Tests run with the package that is installed.
TESTED := $(if $(wildcard $(VENV)/installed),$(VENV)/installed,$(VENV)/installed-for-tests)
# Tests that run at once: most of them wait for timers, disks and servers, so a processor has room for more than one.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
TEST_WORKERS ?= $(shell echo $$(($$(nproc) + 1)))

# Debian packages that the build and the demo need: a linker, C headers, tar, and the program that mounts for users.
DEMO_PACKAGES := fuse3 gcc libc6-dev tar
DEMO_PACKAGES += $(shell $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv)
# Those of the programs that run on the store in tests and benchmarks. What is there already is not asked for.
PACKAGES := $(DEMO_PACKAGES) acl attr bonnie++ chromium dbench dropbear-bin fio fsmark git iproute2 libmpich-dev lmdb-utils make mpich \
	netcdf-bin nftables openssh-client pkg-config procps redis-server redis-tools rocksdb-tools rsync sqlite3 strace
PACKAGES += $(shell command -v postgres >/dev/null || echo postgresql)
PACKAGES += $(shell command -v go >/dev/null || echo golang-go)
# Those of `make suites` alone.
SUITES_PACKAGES := lmdb-utils mpich postgresql rocksdb-tools stress-ng
# Those of `make bench-simulate` alone: the rival, and oracle, of the simulator's flow model.
SIMULATE_PACKAGES := g++ libsimgrid-dev
# Those of `make bench-speed` alone: a peer. Where they cannot be installed, the benchmark says so and measures the rest.
SPEED_PACKAGES := glusterfs-server
# Those of `make test-slurm` alone: they bring services that a machine may not want.
SLURM_PACKAGES := lua-cjson lua-posix lua5.1 munge slurm-client slurm-wlm-basic-plugins slurmctld slurmd

RUST_SOURCES := $(shell find crates -type f \( -name '*.rs' -o -name Cargo.toml \))
# With the tables and pages that come with the package.
PYTHON_SOURCES := $(shell find python -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*' -not -name '*.so')
DOCUMENTS := setup.py $(shell find packaging -type f -not -name "*.pyc")
# `bench-adapt` runs the forecasts, and `bench-place` the others of these, so `make bench` does not run them again.
BENCHMARK_PARTS := $(patsubst %,benchmarks/%.py,allocation forecast lookup prediction traffic)
# `bench-papers` takes the figures of the others, so it is the last.
BENCHMARKS := $(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_% benchmarks/papers.py $(BENCHMARK_PARTS),$(wildcard benchmarks/*.py))) \
	bench-papers

export CARGO_TERM_COLOR ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes of the tests import the same modules: without their bytecode each would compile them.
unexport PYTHONDONTWRITEBYTECODE
# What makes the next compilation quick makes the first one dearer by a seventh, and a clean clone has no next one.
ifeq ($(filter test,$(MAKECMDGOALS))$(wildcard target/debug/incremental),test)
export CARGO_INCREMENTAL := 0
endif

setup: packages fuse-device $(VENV)/installed $(VENV)/tooled $(TOOLS)/bin/fsx $(TOOLS)/bin/sshd $(TOOLS)/bin/promtool

test-setup: packages fuse-device $(TESTED) $(VENV)/tooled $(TOOLS)/bin/fsx $(TOOLS)/bin/sshd $(TOOLS)/bin/promtool

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

demo-packages:
	@$(MAKE) --no-print-directory packages PACKAGES='$(DEMO_PACKAGES)'

# Debian's udev rule opens the FUSE device to every user, who mounts through fusermount3. Containers run no udev.
fuse-device:
	@if [ -c /dev/fuse ] && [ $$(id -u) -eq 0 ] && [ $$(stat -c %a /dev/fuse) != 666 ]; then chmod 666 /dev/fuse; fi

# The order of the prerequisites holds in `make -j` too: packages of the machine first.
$(VENV)/created: | demo-packages
	@echo 'making a Python environment in $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Build tools lie beside the package, so that a second build downloads and isolates nothing; with them what the demo uses.
$(VENV)/equipped: $(VENV)/created pyproject.toml
	@echo 'downloading the build tools and the Python packages that the demo uses'
	@$(BIN)/pip install --quiet --upgrade 'click-man>=0.6' 'setuptools>=77' 'setuptools-rust>=1.12' wheel
	@$(call requirements,dependencies h5py)
	@touch $@

$(VENV)/tooled: $(VENV)/equipped
	@echo 'downloading the Python packages that the tests use'
	@$(call requirements,dependencies test)
	@touch $@

# Installs lists of pyproject.toml: `dependencies`, or the name of an extra.
requirements = $(BIN)/python -c 'import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	lists = {"dependencies": project["dependencies"], **project["optional-dependencies"]}; \
	print("\n".join(line for name in sys.argv[1:] for line in lists[name]))' $(1) \
	| $(BIN)/pip install --quiet --requirement /dev/stdin

# setuptools copies what lies in build/, also what is gone from the sources, so it goes first. It is called directly: below pip
# the compiler would have no terminal to show its progress on.
install_package = echo 'building the programs and libraries: the first time takes minutes'; rm -rf build $(WHEEL) $(VENV)/installed*; \
	SETUPTOOLS_RUST_CARGO_PROFILE=$(1) $(BIN)/python -W ignore -c \
		'from setuptools import build_meta; build_meta.build_wheel("$(WHEEL)", {"quiet": "true"})'; \
	echo 'installing the package into $(VENV)'; \
	$(BIN)/pip install --quiet --no-deps --force-reinstall $(WHEEL)/*.whl
PACKAGE_SOURCES := Cargo.toml Cargo.lock $(RUST_SOURCES) $(PYTHON_SOURCES) $(DOCUMENTS)

$(VENV)/installed: $(VENV)/equipped $(PACKAGE_SOURCES)
	@$(call install_package,release)
	@touch $@

# The package as the tests of the crates are compiled, with assertions: in a clean clone they have it, and nothing is compiled twice.
$(VENV)/installed-for-tests: $(VENV)/equipped $(PACKAGE_SOURCES)
	@$(call install_package,dev)
	@touch $@

# The file system exerciser, in the test suite's own place.
$(TOOLS)/bin/fsx:
	cargo install --quiet --locked --root $(TOOLS) fsx

# OpenSSH's server for tests. It is unpacked beside them and not installed: a package of Debian would start it as a service. Tests
# that want it are skipped without it, so a machine that cannot download it is set up, too.
$(TOOLS)/bin/sshd:
	@mkdir -p $(TOOLS)/openssh $(TOOLS)/bin; cd $(TOOLS)/openssh; \
	if apt-get -qq download openssh-server libwrap0 2>/dev/null; then \
		for package in *.deb; do dpkg -x $$package .; done; rm *.deb; \
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$$@"\n' "$$(echo $(TOOLS)/openssh/usr/lib/*-linux-gnu)" $(TOOLS)/openssh/usr/sbin/sshd >$@; \
		chmod 755 $@; \
	else echo 'no openssh-server can be downloaded: its tests are skipped'; fi

# Prometheus and its checker for tests, unpacked beside them for the same reason.
$(TOOLS)/bin/promtool:
	@mkdir -p $(TOOLS)/prometheus $(TOOLS)/bin; cd $(TOOLS)/prometheus; \
	if apt-get -qq download prometheus 2>/dev/null; then \
		dpkg -x prometheus_*.deb .; mv usr/bin/prometheus usr/bin/promtool ../bin/; rm -r *; \
	else echo 'no prometheus can be downloaded: its tests are skipped'; fi

# Programs of suites that are packages or crates. What is neither is looked for below WEIR_SUITES, and never downloaded.
suites-packages: $(TOOLS)/bin/pjdfstest
	@$(MAKE) --no-print-directory packages PACKAGES='$(SUITES_PACKAGES)'

$(TOOLS)/bin/pjdfstest:
	cargo install --quiet --locked --root $(TOOLS) pjdfstest

demo: demo-packages fuse-device $(VENV)/installed
	@echo 'starting the demo'
	@$(BIN)/python examples/demo.py

# What was built once is there; a check after a change builds no package.
check: $(VENV)/tooled $(if $(wildcard $(TESTED)),,test-setup)
	@$(BIN)/python tests/changed.py $(BASE)

test: test-setup
	@$(BIN)/python tests/everything.py test-python+test-rust+lint

lint: lint-format lint-clippy lint-ruff lint-mypy lint-benchmarks lint-stubs lint-imports

lint-format:
	cargo fmt --all --check

lint-clippy:
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings

lint-ruff: test-setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-mypy: test-setup
	$(BIN)/mypy

lint-benchmarks: test-setup
	cd benchmarks && $(CURDIR)/$(BIN)/mypy --strict --cache-dir=$(CURDIR)/.mypy_cache .

lint-stubs: test-setup
	$(BIN)/python -m mypy.stubtest --concise weir._core

lint-imports: test-setup
	$(BIN)/lint-imports

test-rust: test-setup
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --quiet --workspace --locked --no-fail-fast

test-python: test-setup
	PATH="$(CURDIR)/$(BIN):$(TOOLS)/bin:$$PATH" $(BIN)/pytest --numprocesses=$(TEST_WORKERS) --dist=loadfile --no-loadscope-reorder -rs

test-slurm: setup
	@$(MAKE) --no-print-directory packages PACKAGES='$(SLURM_PACKAGES)'
	$(BIN)/pytest -rs -k slurm tests/python/test_sweeps.py tests/python/test_classes_build.py tests/python/test_slurm_resources.py tests/python/test_sbatch_scripts.py \
		tests/end_to_end/test_deployment_slurm.py tests/end_to_end/test_slurm_storage.py \
		tests/end_to_end/test_slurm_storage_on_hosts.py

world:
	cargo run --quiet --release --locked --package weir-world -- --log target/world.log $(or $(ARGUMENTS),--seeds 10000)

world-mutants:
	cargo run --quiet --release --locked --package weir-world -- --log target/world.log --mutants $(ARGUMENTS)

soak: setup
	PYTHONPATH=tests $(BIN)/python -m random_calls --minutes 60
	PYTHONPATH=tests $(BIN)/python tests/soak.py $(ARGUMENTS)

soak-calls: setup
	PYTHONPATH=tests $(BIN)/python -m random_calls $(ARGUMENTS)

# make suites SUITE='lmdb ltp' ARGUMENTS='--way mount'; make suite-xfstests XFSTESTS=DIR
suites: setup suites-packages
	PYTHONPATH=tests $(BIN)/python -m suites $(SUITE) $(ARGUMENTS)

suite-%: setup suites-packages
	PYTHONPATH=tests $(BIN)/python -m suites $* $(ARGUMENTS)

bench: $(BENCHMARKS)

bench-simulate: simulate-packages

simulate-packages:
	@$(MAKE) --no-print-directory packages PACKAGES='$(SIMULATE_PACKAGES)'

bench-speed: speed-packages

speed-packages:
	@$(MAKE) --no-print-directory packages PACKAGES='$(SPEED_PACKAGES)' || echo 'no $(SPEED_PACKAGES): the benchmark runs without'

bench-%: setup
	@mkdir -p benchmarks/out
	$(BIN)/python benchmarks/$*.py $(ARGUMENTS)

docs: $(VENV)/equipped
	@$(call requirements,docs)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file packaging/site/mkdocs.yml
	@echo 'the site begins at target/site/index.html'

pictures: setup
	$(BIN)/python packaging/pictures.py

clean:
	rm -rf target build $(VENV) python/*.egg-info benchmarks/out
