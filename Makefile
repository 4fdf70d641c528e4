# Everything a contributor or a CI machine does with this repository. Plain POSIX make and sh.
# `make` alone prints the list of targets.
.POSIX:
.SUFFIXES:
.NOTPARALLEL:
.PHONY: help install run dev test check format browser lock clean

# Overridable: make install PYTHON=python3.12 · make run ARGS='--port 9000' ·
# make test PYTEST_ARGS='-k fleet -x' · make lock LOCK_ARGS=--upgrade
PYTHON ?=
ARGS =
PYTEST_ARGS = -n 2
LOCK_ARGS =

VENV = .venv
BIN = $(VENV)/bin
# A stamp is written when an installation has ended well; it is older than a changed lock file.
RUNTIME_STAMP = $(VENV)/.installed-runtime
DEV_STAMP = $(VENV)/.installed-dev

help: ## Print this list
	@echo 'Spotfloor: make TARGET'
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	while IFS='|' read -r target text; do printf '  %-9s %s\n' "$$target" "$$text"; done

install: $(RUNTIME_STAMP) ## Install what running needs into .venv (hash-checked)
	@echo 'Spotfloor is installed in $(VENV); make run starts it.'

run: $(RUNTIME_STAMP) ## Start everything: worker, dashboard, API (ARGS='--port 9000'); Ctrl-C stops it
	@echo 'Starting Spotfloor; Ctrl-C stops it.'
	@exec $(BIN)/spotfloor up $(ARGS)

dev: $(DEV_STAMP) ## Install what developing and testing need into .venv (hash-checked)
	@echo 'Ready to develop in $(VENV); make test checks and tests everything.'

test: check ## Run all checks, then all tests (PYTEST_ARGS='-k fleet -x')
	@$(BIN)/pytest $(PYTEST_ARGS)

# All steps run even when one fails, so that one round shows everything there is to mend.
check: $(DEV_STAMP) ## Run all static checks: format, lint, types, layers, dependencies, Dockerfile, locks
	@failed=''; \
	step() { \
	  name=$$1; shift; \
	  if output=$$("$$@" 2>&1); then printf 'ok      %s\n' "$$name"; \
	  else failed="$$failed, $$name"; printf 'FAILED  %s\n%s\n' "$$name" "$$output"; fi; \
	}; \
	no_url() { ! grep -n '://' "$$@"; }; \
	step 'ruff format' $(BIN)/ruff format --check .; \
	step 'ruff check' $(BIN)/ruff check .; \
	step 'mypy' $(BIN)/mypy; \
	step 'lint-imports' $(BIN)/lint-imports --no-logo; \
	step 'deptry' $(BIN)/deptry .; \
	step 'hadolint' $(BIN)/hadolint Dockerfile; \
	step 'locks without addresses' no_url requirements.lock requirements-dev.lock; \
	[ -z "$$failed" ] || { echo "make check: failed: $${failed#, }" >&2; exit 1; }

format: $(DEV_STAMP) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

browser: ## Make sure there is a Chromium for the browser tests (Debian: installs it)
	@for name in chromium chromium-browser google-chrome; do \
	  if found=$$(command -v "$$name"); then echo "Browser for the tests: $$found"; exit 0; fi; \
	done; \
	if ! command -v apt-get >/dev/null; then \
	  echo "make browser: no chromium or google-chrome on PATH and no apt-get here; install Chromium with this system's package manager" >&2; \
	  exit 1; \
	fi; \
	sudo=''; \
	if [ "$$(id -u)" -ne 0 ]; then \
	  sudo=sudo; \
	  command -v sudo >/dev/null || { echo "make browser: not root and no sudo; as root run: apt-get install chromium" >&2; exit 1; }; \
	fi; \
	echo "Installing Debian's chromium for the browser tests ..."; \
	output=$$({ $$sudo apt-get update && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; \
	} </dev/null 2>&1) || { \
	  printf '%s\n' "$$output" >&2; \
	  echo "make browser: apt-get could not install chromium (its output is above)" >&2; exit 1; \
	}; \
	echo 'Chromium is installed.'

# The development lock is constrained by the runtime lock: both name the same versions.
LOCK = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header $(LOCK_ARGS)

lock: ## Write both lock files from pyproject.toml (needs uv; LOCK_ARGS=--upgrade takes newer versions)
	@command -v uv >/dev/null || { \
	  echo "make lock: uv is not on PATH; get it with 'pipx install uv' or from your package manager" >&2; \
	  exit 1; \
	}
	@$(LOCK) -o requirements.lock >/dev/null
	@$(LOCK) --group dev -c requirements.lock -o requirements-dev.lock >/dev/null
	@echo 'Wrote requirements.lock and requirements-dev.lock.'

clean: ## Remove caches and build output (keeps .venv and your data)
	@rm -rf build dist htmlcov test-artifacts .coverage .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache *.egg-info
	@find . -name .venv -prune -o -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- How .venv is made ----------------------------------------------------------------------

# Prints the version (on stdout) and answers whether it is new enough.
NEW_ENOUGH = import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))

# `python3` comes first: it is what the user, or pyenv, has chosen. Each candidate is started,
# because a version manager's shim can be on PATH without a Python behind it.
$(BIN)/python:
	@tried=''; chosen=''; candidates='$(PYTHON)'; \
	for python in $${candidates:-python3 python3.13 python3.12 python3.11}; do \
	  if version=$$("$$python" -c '$(NEW_ENOUGH)' 2>/dev/null); then chosen=$$python; break; fi; \
	  if [ -n "$$version" ]; then tried="$$tried, $$python is $$version"; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	  tried=$${tried#, }; \
	  echo "make: Python 3.11 or newer is needed ($${tried:-none found}); install it or say which: make install PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	if ! "$$chosen" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "make: $$chosen cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; \
	fi; \
	trap 'rm -rf $(VENV)' INT TERM; \
	rm -rf $(VENV); \
	if ! output=$$("$$chosen" -m venv $(VENV) 2>&1); then \
	  rm -rf $(VENV); printf '%s\n' "$$output" >&2; \
	  echo "make: $$chosen could not make $(VENV) (its output is above)" >&2; exit 1; \
	fi

# $$lock is set by the rule. pip's own words go to a log that is shown only when it fails.
INSTALL = \
	if ! version=$$($(BIN)/python -c '$(NEW_ENOUGH)'); then \
	  echo "make: $(VENV) holds Python $${version:-that does not start}, 3.11 or newer is needed; run: rm -rf $(VENV)" >&2; \
	  exit 1; \
	fi; \
	echo "Installing from $$lock into $(VENV) (the first time takes a minute or two) ..."; \
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off; \
	log=$(VENV)/install.log; \
	if ! { $(BIN)/python -m pip install --require-hashes -r "$$lock" && \
	  $(BIN)/python -m pip install --no-deps -e .; } </dev/null >"$$log" 2>&1; then \
	  cat "$$log" >&2; \
	  echo "make: pip could not install from $$lock (its output is above)" >&2; exit 1; \
	fi

$(RUNTIME_STAMP): requirements.lock pyproject.toml $(BIN)/python
	@lock=requirements.lock; $(INSTALL)
	@touch $@

# The development lock holds all of the runtime lock, so this leaves nothing for `install` to do.
$(DEV_STAMP): requirements-dev.lock requirements.lock pyproject.toml $(BIN)/python
	@lock=requirements-dev.lock; $(INSTALL)
	@touch $(RUNTIME_STAMP) $@
