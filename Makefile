# The only list of commands. Each one sets up what it needs: Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready

# Spark needs an older pandas than the rest, so it has an environment of its own.
SPARK_VENV := .venv-spark
SPARK_BIN := $(SPARK_VENV)/bin
with_spark = if ! command -v java > /dev/null && ! test -x "$${JAVA_HOME:-none}/bin/java"; then \
		echo "skipped: there is no Java, which Spark needs; install Java 17 or set JAVA_HOME"; \
	elif ! $(MAKE) --no-print-directory $(SPARK_VENV)/.ready; then \
		echo "skipped: pyspark could not be installed in $(SPARK_VENV)"; \
	else $(1); fi

WHEEL_VENV := .venv-wheel
WHEEL_BIN := $(WHEEL_VENV)/bin
WHEEL_TESTS := hypothesis mpmath polars pytest pytest-xdist

export OMP_NUM_THREADS ?= 1
each_experiment = for name in `$(BIN)/python -m reproductions --names`; do \
	$(BIN)/python -m reproductions $$name --jobs 2 $(1) || exit 1; done

# The parts of the suite of benchmarks, in order; each writes benchmarks/results/<part>.json.
BENCHMARKS := cost_per_row one_row where_time_goes rows_seen footprint start_up adaptation_latency river_streams fleet fleet_prior

# Those that need real data: STREAMGP_DATA (docs/data.md).
ON_DATA := calibration wrapper_cost levels horizons first_rows drift forgetting forecasts main_job

# Those that need Spark.
ON_SPARK := spark

.PHONY: help demo test test-more test-spark test-wheel tested-wheel wheel bench-spark test-interpreted test-portable lint format soak docs docs-pictures bench bench-data bench-serve bench-auto bench-rivals reproduce reproduce-quick clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

# In two processes, file by file, the files that take longest first: tests/conftest.py orders them.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder

# What the command needs, and no more: --no-compile leaves modules that are never imported alone.
$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[cli,jit]' --constraint constraints.txt
	touch $(RUNTIME)

$(READY): $(RUNTIME)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $(READY)

$(SPARK_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SPARK_VENV)
	sed 's/^pandas==.*/pandas==2.3.3/' constraints.txt > $(SPARK_VENV)/constraints.txt
	$(SPARK_BIN)/python -m pip install --quiet --editable '.[spark,jit]' hypothesis pytest threadpoolctl \
		--constraint $(SPARK_VENV)/constraints.txt
	touch $(SPARK_VENV)/.ready

demo: $(RUNTIME)  ## predict a made-up table row by row, print a summary, write a report
	$(BIN)/streamgp demo

test: $(READY)  ## the tests that tell soonest what broke; five minutes on two cores
	$(BIN)/streamgp compile
	$(BIN)/python -m pytest -m "not soak and not more" $(IN_TWO)

test-more: $(READY)  ## the tests that make test leaves out, but for the soaks: slow ones, documents, experiments; twenty minutes
	$(BIN)/streamgp compile
	$(BIN)/python -m pytest -m "more and not soak" $(IN_TWO)

test-spark:  ## the tests of streamgp.spark, in an environment of their own; skipped without Java
	@$(call with_spark,$(SPARK_BIN)/python -m pytest tests/spark)

wheel: $(READY)  ## a wheel with machine code for this machine's platform, in dist; four minutes on two cores
	$(BIN)/python machine/build_core.py out/core
	STREAMGP_CORE=out/core $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# Without Numba, and so without whatever brings it along.
test-wheel:  ## the contract, precision and runs, tested against that wheel in an environment without Numba; skipped without a C compiler
	@if command -v cc > /dev/null; then $(MAKE) --no-print-directory tested-wheel; \
	else echo "skipped: there is no C compiler, which links the machine code; install gcc"; fi

tested-wheel: wheel
	rm -rf $(WHEEL_VENV) && $(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_BIN)/python -m pip install --quiet `ls -t dist/*.whl | head -1`'[cli,tables]' $(WHEEL_TESTS) --constraint constraints.txt
	$(WHEEL_BIN)/python machine/check_wheel.py
	STREAMGP_JIT=1 $(BIN)/python machine/same_numbers.py out/numbers.npz
	$(WHEEL_BIN)/python machine/same_numbers.py out/numbers.npz
	$(WHEEL_BIN)/python -m pytest -m "not soak and not more" $(IN_TWO) tests/contract tests/precision tests/job

test-interpreted: $(READY)  ## a quick subset of the tests without compiling: for coverage and debuggers
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m interpreted

test-portable: $(READY)  ## make test and make test-more compiled for each kind of x86 processor that this machine can stand in for; an hour
	for cpu in `$(BIN)/python tests/processors.py`; do \
		echo "compiled for $$cpu:"; \
		NUMBA_CPU_NAME=$$cpu NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=$(CURDIR)/out/compiled/$$cpu \
			$(BIN)/python -m pytest -m "not soak" $(IN_TWO) || exit 1; done

lint: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(READY)  ## rewrite the sources in the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

soak: $(READY)  ## millions of rows against references; minutes
	$(BIN)/python -m pytest -m soak -s

docs: $(READY)  ## build the site into out/site: links, anchors and code checked; open out/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest tests/docs

docs-pictures: $(READY)  ## draw the tutorials' pictures anew, and write their scripts to examples/
	$(BIN)/python docs/_site/tutorials.py

bench: $(READY)  ## measure speed; write benchmarks/results and the tables in docs; ten minutes; a stopped run goes on
	for part in $(BENCHMARKS); do $(BIN)/python benchmarks/$$part.py || exit 1; done
	$(BIN)/python benchmarks/render.py --finished

bench-spark:  ## measure streamgp.spark; half an hour; a stopped run goes on; render with make bench
	@$(call with_spark,for part in $(ON_SPARK); do $(SPARK_BIN)/python benchmarks/$$part.py || exit 1; done)

bench-data: $(READY)  ## errors, intervals and drift on real tables; write results and tables in docs; half an hour
	for part in $(ON_DATA); do $(BIN)/python benchmarks/$$part.py || exit 1; done

bench-serve: $(READY)  ## the server: kill -9, full disk (as root), malformed requests, load, soak; write results and tables in docs; 40 minutes
	$(BIN)/python benchmarks/serve.py

bench-auto: $(READY)  ## auto beside least squares and LightGBM on 46 streams, planted faults; 40 minutes on one core; a stopped run goes on
	$(BIN)/python benchmarks/auto.py run --out out/auto --contestants Auto RLS LightGBM --jobs $$(env -u OMP_NUM_THREADS nproc)
	$(BIN)/python benchmarks/auto.py render --out out/auto

bench-rivals: $(READY)  ## auto beside LightGBM, River, statsforecast and others on 15 streams; hours on few cores; a stopped run goes on
	$(BIN)/python benchmarks/rivals.py run --out out/rivals --jobs $$(env -u OMP_NUM_THREADS nproc)
	$(BIN)/python benchmarks/rivals.py render --out out/rivals

reproduce: $(READY)  ## the papers' tables and figures; hours; finished cells are kept
	$(call each_experiment,)
	for page in docs/reproductions.md docs/claims.md reproductions/*/README.md; do \
		$(BIN)/python -m reproductions --page $$page || exit 1; done

reproduce-quick: $(READY)  ## a small run of each of them, into out/reproductions; minutes
	$(call each_experiment,--quick)

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) $(SPARK_VENV) $(WHEEL_VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
