# Everything here sets up its own environment in .venv; nothing needs to be installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Handed to pip, for instance: make demo PIP_FLAGS="--extra-index-url <the CPU index of PyTorch>"
PIP_FLAGS ?=
# Handed to the command, for instance: make demo ARGS="--compare --json out.json"
ARGS ?=
# How long make fuzz goes on, seconds
FUZZ_SECONDS ?= 60
# How many objects make fuzz-objects makes
FUZZ_OBJECTS ?= 1000000
# How long make properties goes on, seconds: make properties SECONDS=600. A bash that calls make may have
# exported a SECONDS of its own, which counts how long it runs and is not meant.
PROPERTIES_SECONDS := $(if $(findstring environment,$(origin SECONDS)),600,$(or $(SECONDS),600))

# Where make images pushes to (nowhere), which builder it takes (the first that works), and which images (all)
PUSH ?=
BUILDER ?=
IMAGES ?=
# The address of the repository that a chart is released from, and which helm packages it
SOURCE ?=
HELM ?= helm
# Files of PyPI only, whatever index or folder of wheels this machine is set up with: a lock names no other place.
LOCK = env -u UV_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS $(VENV)/lock/bin/uv pip compile --quiet --no-config --upgrade \
	--default-index https://pypi.org/simple --python-version 3.11 --python-platform linux --only-binary :all: \
	--generate-hashes --custom-compile-command "make lock"

# Tests and demo start hundreds of processes. Where Python may not keep what it compiles, each of them, and each
# worker of the tests, compiles anew: a sidecar then starts in twice the time.
unexport PYTHONDONTWRITEBYTECODE

# One worker more than there are cores: tests with real processes wait more than they compute.
PYTEST = $(BIN)/python -m pytest --numprocesses=$$(($$(nproc) + 1)) --maxprocesses=4 --maxschedchunk=16 --durations=15 --durations-min=1

.DEFAULT_GOAL := help
.PHONY: help demo frameworks test test-long check lint prose types contracts format bench fuzz fuzz-objects properties outages docs recording audit sbom images chart wheel lock clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## run the main job: twelve training jobs on the virtual nodes of this machine
	$(BIN)/specon demo $(ARGS)

test: $(VENV)/.dev  ## run the tests but the long ones, and say how long the slowest took
	$(PYTEST) -m "not long" $(ARGS)

test-long: $(VENV)/.dev  ## run the long ones: kills, outages, gangs, random worlds, small benchmarks
	$(PYTEST) -m long $(ARGS)

check: lint prose types contracts  ## lint, formatting, English, types and import contracts

lint: $(VENV)/.dev  ## ruff, all rules, and its formatter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

prose: $(VENV)/.dev  ## the English of docs, help texts, chart, alerts and panels
	$(BIN)/python -m specon_tools.prose

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy
	MYPYPATH=samples/training $(BIN)/mypy samples/training/*.py

contracts: $(VENV)/.dev  ## the layers, with import-linter
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## write what the linter and the formatter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## the benchmarks, as ratios against baselines of the same run
	$(BIN)/python benchmarks/run.py $(ARGS)

fuzz: $(VENV)/.fuzz  ## look for logs that break the readers, for FUZZ_SECONDS (60)
	$(BIN)/python tests/fuzz/fuzz_formats.py $(FUZZ_SECONDS)

fuzz-objects: $(VENV)/.dev  ## look for objects that break what the manager reads and reviews, FUZZ_OBJECTS (1000000) of them
	$(BIN)/python tests/fuzz/fuzz_objects.py $(FUZZ_OBJECTS)

properties: $(VENV)/.dev  ## run the property machines with fresh seeds, for SECONDS (600)
	$(BIN)/python tests/properties/explore.py $(PROPERTIES_SECONDS)

outages: $(VENV)/.dev  ## kill, freeze and restart a manager with moves in flight, and say what it cost (half an hour)
	$(BIN)/python tests/support/local/outages.py $(ARGS)

frameworks: $(VENV)/.frameworks  ## install the frameworks, and test that unchanged scripts of each can be moved
	$(BIN)/python -m pytest --numprocesses=0 tests/trainer/frameworks tests/docs/test_frameworks.py $(ARGS)

docs: $(VENV)/.dev  ## write the generated pages and build the site into build/site, offline and strictly
	$(BIN)/python -m specon_tools.documentation
	$(BIN)/mkdocs build --strict --site-dir build/site
	@echo "build/site/index.html"

recording: $(VENV)/.dev  ## record the status page while the demo runs, into docs/images (needs Chromium)
	$(BIN)/python -m specon_tools.recording docs/images $(ARGS)

audit: $(VENV)/.dev $(VENV)/.audit  ## compare the packages installed here, and those of the images, with the known vulnerabilities
	@mkdir -p build
	@# A local version, as builds of PyTorch for one kind of machine have it, is in no database.
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+.*//' > build/dependencies.txt
	$(VENV)/audit/bin/pip-audit --progress-spinner off --strict --no-deps --disable-pip --requirement build/dependencies.txt
	for lock in locks/*.txt; do $(VENV)/audit/bin/pip-audit --progress-spinner off --strict --require-hashes --disable-pip --requirement $$lock || exit 1; done

sbom: $(VENV)/.audit  ## list what the two images contain beside the system, as CycloneDX, in build/
	@mkdir -p build
	rm -rf build/shipped && $(PYTHON) -m venv build/shipped
	build/shipped/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --require-hashes --requirement locks/sidecar.txt
	build/shipped/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --no-deps .
	$(VENV)/audit/bin/cyclonedx-py environment build/shipped/bin/python --pyproject pyproject.toml --output-reproducible --output-file build/sidecar.cdx.json
	build/shipped/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --require-hashes --requirement locks/manager.txt
	$(VENV)/audit/bin/cyclonedx-py environment build/shipped/bin/python --pyproject pyproject.toml --output-reproducible --output-file build/manager.cdx.json
	@rm -rf build/shipped
	@echo "build/sidecar.cdx.json build/manager.cdx.json"

images:  ## build the images with docker, podman or buildah; PUSH=registry.example/team also pushes them
	PYTHONPATH=tools $(PYTHON) -m specon_tools.release.images --push=$(PUSH) --builder=$(BUILDER) --pip-flags="$(PIP_FLAGS)" $(IMAGES)

chart:  ## package the chart into build/, with the digests of what make images pushed; SOURCE=https://... is its home
	PYTHONPATH=tools $(PYTHON) -m specon_tools.release.chart --source=$(SOURCE) --helm=$(HELM)

wheel:  ## build the wheel into build/dist
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check $(PIP_FLAGS) --no-deps --wheel-dir build/dist .

lock: $(VENV)/.lock  ## pin anew, with hashes, what the images install: the newest versions on PyPI that pyproject.toml allows
	@mkdir -p locks
	$(LOCK) --extra manager --output-file locks/manager.txt pyproject.toml
	$(LOCK) --constraints locks/manager.txt --output-file locks/sidecar.txt pyproject.toml
	$(LOCK) --constraints locks/manager.txt --extra tensorboard --output-file locks/sidecar-tensorboard.txt pyproject.toml

$(VENV)/.demo: pyproject.toml
	@echo "setting up $(VENV): minutes the first time, and nothing is printed meanwhile"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module: install your distribution's python3-venv package" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --editable ".[demo]"
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --editable ".[dev]"
	@touch $@

$(VENV)/.frameworks: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --editable ".[dev,frameworks]"
	@touch $@

# Not one of the dev dependencies: it has wheels for some versions of Python only, and building it needs clang.
$(VENV)/.fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --only-binary atheris "atheris>=3" || { echo "atheris cannot be installed: it may have no wheel for $$($(BIN)/python --version) on this machine; make clean, then make fuzz PYTHON=python3.11" >&2; exit 1; }
	@touch $@

# In an environment of their own: the auditing packages are no part of the audited ones.
$(VENV)/.audit: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) "pip-audit>=2.10,<3" "cyclonedx-bom>=7.2,<8"
	@touch $@

$(VENV)/.lock: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) "uv>=0.9,<1"
	@touch $@

clean:  ## remove the environment and everything that tools leave behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
