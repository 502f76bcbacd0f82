# `make demo` needs Python 3.11 or newer and nothing else; with a C++ compiler it is faster. `make test` needs the compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# SYSTEM_TORCH=1: see the packages that $(PYTHON) has already and do not pin torch, so that a suitable one is kept.
VENV_FLAGS := $(if $(SYSTEM_TORCH),--system-site-packages)
PINNED := $(if $(SYSTEM_TORCH),,--constraint constraints.txt)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PINNED)

# What the native engine is built from: a change of any of these builds it again.
ENGINE := CMakeLists.txt $(shell find native -type f)

.PHONY: demo test check format clean
.DEFAULT_GOAL := help
.PHONY: help
help:
	@echo "make demo    install and run the main job: who speaks? (about three minutes)"
	@echo "make test    install what tests need, then style, types and all tests"
	@echo "make check   style and types only"
	@echo "make native-test   the C++ core alone: its tests, then the same under the address, undefined and thread sanitizers"
	@echo "make native-fuzz   search for problems that break the C++ core (needs clang++; RUNS=1000000)"
	@echo "make lab     build the interactive page from lab/ (needs Node and npm)"
	@echo "make assembly      do the inner loops keep their sums in registers?"
	@echo "make arm-test      the C++ core cross-compiled for Arm and run in an emulator"
	@echo "make format  rewrite the files in the house style"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unrolled needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)

$(VENV)/.train: $(BIN)/python pyproject.toml constraints.txt $(ENGINE)
	$(PIP) --editable '.[train]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt $(ENGINE)
	UNROLLED_REQUIRE_NATIVE=1 $(PIP) --editable '.[test]'
	touch $@ $(VENV)/.train

demo: $(VENV)/.train
	$(BIN)/unrolled demo

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The page as it is committed in src/unrolled/lab/static. Tests need node_modules too: they build the page again and compare.
lab/node_modules/.package-lock.json: lab/package.json lab/package-lock.json
	cd lab && npm ci --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: lab
lab: $(VENV)/.test lab/node_modules/.package-lock.json
	$(BIN)/python tools/build_lab.py

# Two workers with one thread each: results do not depend on it, and two cores are not fought over.
test: check native-test lab/node_modules/.package-lock.json
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

# The C++ core without Python. A sanitizer needs no speed and builds what it can find faults in: memory is watched with
# short and long vectors; threads and arithmetic are the same code on every target.
CMAKE := $(BIN)/cmake -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -S tests/native
RUN_NATIVE = $(BIN)/cmake --build $(1) && $(BIN)/ctest --test-dir $(1) --output-on-failure
.PHONY: native-test assembly arm-test
native-test: $(VENV)/.test
	$(CMAKE) -B build/native && $(call RUN_NATIVE,build/native)
	$(CMAKE) -B build/native-address -DUNROLLED_SANITIZE=address -DUNROLLED_TARGETS=avx2 && $(call RUN_NATIVE,build/native-address)
	$(CMAKE) -B build/native-undefined -DUNROLLED_SANITIZE=undefined -DUNROLLED_TARGETS=generic && $(call RUN_NATIVE,build/native-undefined)
	$(CMAKE) -B build/native-thread -DUNROLLED_SANITIZE=thread -DUNROLLED_TARGETS=generic && $(call RUN_NATIVE,build/native-thread)

# A million problems take hours; what reached new code is kept in build/native-fuzz/corpus. Debian: clang libclang-rt-14-dev.
RUNS ?= 1000000
.PHONY: native-fuzz
native-fuzz: $(VENV)/.test
	$(CMAKE) -B build/native-fuzz -DCMAKE_CXX_COMPILER=clang++ -DUNROLLED_FUZZ=ON "-DUNROLLED_SANITIZE=address,undefined" -DUNROLLED_TARGETS=avx2
	$(BIN)/cmake --build build/native-fuzz --target fuzz_scan
	mkdir -p build/native-fuzz/corpus
	build/native-fuzz/fuzz_scan build/native-fuzz/corpus -max_len=600 -len_control=0 -timeout=20 -runs=$(RUNS) -artifact_prefix=build/native-fuzz/

assembly: $(VENV)/.test
	$(CMAKE) -B build/native && $(BIN)/cmake --build build/native
	$(BIN)/python tools/assembly.py build/native

# Needs Debian's g++-aarch64-linux-gnu and qemu-user.
arm-test: $(VENV)/.test
	$(CMAKE) -B build/native-arm -DCMAKE_TOOLCHAIN_FILE=$(abspath tests/native/aarch64.cmake) && $(call RUN_NATIVE,build/native-arm)
	$(BIN)/python tools/assembly.py build/native-arm --objdump aarch64-linux-gnu-objdump

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
