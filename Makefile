# The commands of the house. `make` alone lists them; CONTRIBUTING.md says more.
PRESET ?= release
JOBS ?= $(shell nproc)
NAME ?=
CLUSTER ?=
VALUES ?=
BIN ?= $(HOME)/.local/bin
TO ?=
IMAGES ?= pitcrew
PULL_SECRET ?=
INSECURE ?=
TARGET ?=
SECONDS ?= 60
COUNT ?= 25
SEED ?= 1
ROOMS ?=
AT ?=
URL ?=
HOMEPAGE ?=
build := build/$(PRESET)
python := PYTHONDONTWRITEBYTECODE=1 python3
cluster := $(python) -m cluster
kinds := unit,golden,integration

.DEFAULT_GOAL := help
.PHONY: help setup build kubectl-plugin image programs up down cluster-status test test-unit test-golden \
        test-integration test-kernel test-e2e test-one asan tsan fuzz mutants bench lint format clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'
	@echo "Variables: PRESET=dev|release|release-arm64|asan|tsan|fuzz, CLUSTER=file, VALUES=file, NAME=..., JOBS=n"

setup: ## install what is missing (root on Debian 12), or name it
	@tools/setup.sh $(if $(filter %-arm64,$(PRESET)),arm64)

build: setup ## build everything of one preset (PRESET=release)
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build --preset $(PRESET) -j $(JOBS)

image: build ## build the container images and print their sizes
	@$(python) deploy/image/build.py --build $(build) --into $(build)/images deploy/image/recipes/*.yaml

# For both architectures where the second has been built before: `make image PRESET=release-arm64`.
pushed := release $(patsubst build/%/CMakeCache.txt,%,$(wildcard build/release-arm64/CMakeCache.txt))
.PHONY: push
push: ## push the image to a registry and write the Helm values that use it (TO=registry/path)
	@test -n "$(TO)" || { echo "make push TO=registry/path, for example TO=registry.example.com/team" >&2; exit 2; }
	@tools/setup.sh push
	@for preset in $(pushed); do $(MAKE) --no-print-directory image PRESET=$$preset || exit 1; done
	@$(python) deploy/image/push.py --to '$(TO)' $(if $(INSECURE),--insecure) $(if $(PULL_SECRET),--pull-secret '$(PULL_SECRET)') \
	  $(foreach preset,$(pushed),$(IMAGES:%=build/$(preset)/images/%.tar))

# No part of `make test`: the cross build takes as long as the whole release build again.
.PHONY: release
release: ## make the files of a release, for both architectures (URL=where they will lie, HOMEPAGE=a page)
	@tools/setup.sh arm64 release
	@for preset in release release-arm64; do $(MAKE) --no-print-directory image PRESET=$$preset || exit 1; done
	@$(cluster) programs helm
	@$(python) tests/arm64/smoke_test.py
	@$(python) deploy/release/release.py --build build/release --build build/release-arm64 --into build/release-artifacts \
	  $(if $(URL),--url '$(URL)') $(if $(HOMEPAGE),--homepage '$(HOMEPAGE)')

# NVIDIA's files are yours to have, not ours to give out. No part of `make test`, which has a stand-in for them.
RUNFILE ?=
SYSTEM ?= ubuntu24.04
KERNEL ?=
BASE ?=
ENGINE ?=
.PHONY: driver-image
driver-image: build ## build a driver image from NVIDIA's run file (RUNFILE=file) or packages (PACKAGES='names' VERSION=... KERNEL=...), or one of GPUDirect Storage or GDRCopy (MODULE=folder/nvidia-fs-2.28.4); SYSTEM=ubuntu24.04, TO=registry/path
	@test -n "$(RUNFILE)$(PACKAGES)$(MODULE)" || { echo "make driver-image RUNFILE=NVIDIA-Linux-x86_64-580.95.05.run [SYSTEM=ubuntu24.04]" >&2; exit 2; }
	@$(python) deploy/driver-image/build.py --build $(build) --system '$(SYSTEM)' \
	  $(if $(RUNFILE),--run-file '$(RUNFILE)') $(if $(PACKAGES),--packages '$(PACKAGES)' --driver-version '$(VERSION)') \
	  $(if $(MODULE),--module-sources '$(MODULE)') \
	  $(if $(KERNEL),--kernel '$(KERNEL)') $(if $(BASE),--base '$(BASE)') $(if $(ENGINE),--engine '$(ENGINE)') \
	  $(if $(TO),--repository '$(TO)')

programs: setup ## find or build the Kubernetes programs (once; into $PITCREW_CACHE)
	@tools/setup.sh test
	@$(cluster) programs

up: image ## bring a cluster up and run a pod that uses a GPU (CLUSTER=file, VALUES=Helm values)
	@$(cluster) up --build $(build) $(addprefix --values ,$(VALUES)) $(CLUSTER)

kubectl-plugin: build ## put `kubectl pitcrew` on the path (BIN=~/.local/bin)
	@mkdir -p $(BIN)
	@ln -sf $(abspath $(build))/bin/pitcrew $(BIN)/kubectl-pitcrew
	@echo "$(BIN)/kubectl-pitcrew: kubectl pitcrew status, doctor, dashboard, plan"

down: ## take the cluster down and leave nothing (NAME=cluster)
	@$(cluster) down $(NAME)

cluster-status: ## show the cluster's nodes, processes and GPUs (NAME=cluster)
	@$(cluster) status $(NAME)

# Whole clusters run while the sanitizers' presets are built and tried; two at a time, since they wait most of theirs.
test: programs image ## all tests but long-kernel: rooms under sanitizers, processes and whole clusters with what ships
	@$(python) tools/run_tests.py --jobs $(JOBS) --clusters 2 --build --suite asan:$(kinds),fuzz --suite tsan:$(kinds) \
	  --suite $(PRESET):$(kinds) --beside $(PRESET):e2e,kernel

test-unit: ## unit tests
	@$(MAKE) --no-print-directory build PRESET=dev
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite dev:unit

test-golden: ## golden tests
	@$(MAKE) --no-print-directory build PRESET=dev
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite dev:golden

test-integration: programs ## integration tests, with real programs on loopback
	@$(MAKE) --no-print-directory build PRESET=dev
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite dev:integration

test-kernel: programs ## tests on a kernel of their own, in a virtual machine, with the long ones
	@$(MAKE) --no-print-directory build PRESET=dev
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite dev:kernel,long-kernel

test-e2e: image programs ## end-to-end tests, with a whole cluster
	@$(python) tools/run_tests.py --clusters 2 --suite $(PRESET):e2e

# No part of `make test`: each of these engines is built from its Go module, once, for minutes.
.PHONY: engines
engines: build programs ## try the toolkit on more versions of containerd and on CRI-O, built from their Go modules (NAME=test class)
	@$(python) tests/engines/build.py
	@PITCREW_BUILD=$(abspath $(build)) $(python) tests/engines/built_test.py -v $(NAME)

test-one: programs ## the tests whose name matches (NAME=regular expression, for example kube/WorkQueue or e2e)
	@test -n "$(NAME)" || { echo "make test-one NAME='regular expression'" >&2; exit 2; }
	@$(MAKE) --no-print-directory $(if $(filter e2e%,$(NAME)),image,build PRESET=dev)
	@$(python) tools/run_tests.py --jobs $(JOBS) --only '$(NAME)' \
	  $(if $(filter e2e%,$(NAME)),--suite $(PRESET):e2e,--suite dev:$(kinds))

asan: ## unit, golden and integration tests and short fuzzing under address and undefined sanitizers
	@$(MAKE) --no-print-directory build programs PRESET=asan
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite asan:$(kinds),fuzz

tsan: ## the tests of io, kube and operator under the thread sanitizer
	@$(MAKE) --no-print-directory build programs PRESET=tsan
	@$(python) tools/run_tests.py --jobs $(JOBS) --suite tsan:$(kinds)

fuzz: ## look for inputs that break a parser (TARGET=name, SECONDS=60 for each)
	@tools/setup.sh fuzz
	@$(MAKE) --no-print-directory build PRESET=fuzz
	@$(python) tools/fuzz.py --jobs $(JOBS) --seconds $(SECONDS) $(TARGET)

mutants: programs ## change the product token by token and see which changes no test notices (COUNT=25, SEED=1, ROOMS=a,b, AT=file:line, PRESET=asan|dev)
	@$(python) tools/mutants.py --jobs $(JOBS) --count $(COUNT) --seed $(SEED) $(if $(ROOMS),--rooms $(ROOMS)) $(if $(AT),--at $(AT)) \
	  $(if $(filter command%,$(origin PRESET)),--preset $(PRESET))

bench: image programs ## the measures of docs/performance.md
	@for bench in tests/bench/*.py; do echo "== $$bench"; $(python) $$bench --build $(build) || exit 1; done

sources = $(shell git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.c')
# Not what others wrote, nor what is generated. clang-tidy parses many files at a time (preset lint): most of its time goes
# into the headers of libraries.
comma := ,
looked_at := ^(?!.*(/generated/|/embedded_|cmake_pch|pitcrew_precompiled|\.c$$)).*$(if $(ROOMS),/src/(node/)?($(subst $(comma),|,$(ROOMS)))/,/(src|simulation)/)
lint: ## clang-format (check), clang-tidy and the room table (ROOMS=a,b: clang-tidy only there)
	@tools/setup.sh lint
	@clang-format-19 --dry-run --Werror $(sources)
	@$(if $(ROOMS),,cmake --preset dev --log-level=WARNING && cmake --build --preset dev -j $(JOBS))
	@cmake --preset lint --log-level=WARNING && cmake --build --preset lint -j $(JOBS)
	@run-clang-tidy-19 -quiet -p build/lint -j $(JOBS) '$(looked_at)'
	@$(python) tools/check_rooms.py

format: ## rewrite all sources with clang-format
	@tools/setup.sh lint
	@clang-format-19 -i $(sources)

clean: ## remove the build folders (the cache and a running cluster stay)
	@rm -rf build/dev build/release build/release-arm64 build/asan build/tsan build/fuzz build/lint build/mutants \
	  build/release-artifacts build/pushed-values.yaml
