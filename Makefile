# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors

# Everything runs in .venv, which `env` makes; BASE_PYTHON=... chooses the interpreter below it, and ANSIBLE_CORE=2.18 another ansible-core.
BASE := $(or $(BASE_PYTHON),python3)
PYTHON := .venv/bin/python
STEP := $(PYTHON) -m tools.run_step $(HOLD)

# `test` runs these two at a time, then the core of the integration tests, which runs alone.
CHECKS := sanity style mypy unit ansible-lint docs-lint
# `ci-more` runs these two at a time, and then the scenario `kind`, which waits most of the time, beside the other integration tests. A container
# engine ends with the check that has started it, so kind does not run beside image.
MORE_CHECKS := image browser docs importer unit-more pylint workflows

# The checks that take seconds, for a release whose commit has passed .ci/run.
RELEASE_CHECKS := style workflows mypy docs-lint importer

# Integration tests wait half of the time. Each worker has shared clusters of its own; a file stays on one worker.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder
# `make soak` runs the integration tests on each of these, or only on the one of LAB_KUBERNETES.
KUBERNETES := $(or $(LAB_KUBERNETES),1.34 1.35 1.36)
# A variable VERSION of the environment, as of other tools, does not change galaxy.yml.
VERSION_OF_CALL = $(if $(filter command line,$(origin VERSION)),$(VERSION))

COLLECTION := ansible_collections.onprem.kube_scheduling
TYPED := lab tools tests.bench tests.soak $(COLLECTION).plugins.module_utils $(if $(wildcard services),$(COLLECTION).services)

# The product takes a proxy from the environment. Test servers and simulated clusters are on this machine.
ifneq ($(http_proxy)$(HTTP_PROXY)$(https_proxy)$(HTTPS_PROXY),)
export no_proxy := 127.0.0.1,localhost,$(or $(no_proxy),$(NO_PROXY))
endif

# With these of a shell, each process compiles its Python files again, and reads a module of Ansible byte by byte.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

.DEFAULT_GOAL := help
.PHONY: help env demo test ci-more test-full lab-binaries test-programs lab-up lab-down bench soak molecule kind core integration changed-parts deploy format tables build wheel image-lock sbom version changelog release release-files release-compare $(CHECKS) $(MORE_CHECKS)

help: ## list the targets
	@echo "Targets of this Makefile:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## make .venv: Python libraries, tools and the collections
	@$(BASE) -m tools.env

## The simulated cluster

demo: ## show the main job on a simulated cluster, from collapsed to spread
	@$(BASE) -m tools.first_start
	@$(PYTHON) -m lab.demo

lab-up: env ## start a simulated cluster with six workers; its kubeconfig is .lab/kubeconfig
	@$(PYTHON) -m lab up --scenario demo

lab-down: env ## end the simulated cluster
	@$(PYTHON) -m lab down

lab-binaries: ## make .venv, and build the programs of the simulated cluster (minutes once, then cached)
	@$(BASE) -m tools.first_start

test-programs: lab-binaries ## build Prometheus, promtool and node_exporter, too
	@$(STEP) test-programs -- python -m lab binaries --with-test-programs

## Checks

test: lab-binaries ## style, types, documentation, unit tests, sanity, and the core of the integration tests: 15 minutes on two cores
	@rm -f tests/output/flaky.json
	@$(MAKE) --no-print-directory -j2 HOLD=--hold $(CHECKS)
	@$(MAKE) --no-print-directory core

ci-more: test-programs ## what CI runs after `make test`: most of the other integration tests, a real cluster in containers, image, pages, importer
	@$(MAKE) --no-print-directory -j2 HOLD=--hold $(MORE_CHECKS)
	@$(MAKE) --no-print-directory -j2 HOLD=--hold kind integration

style: env ## check: style of Python and YAML, changelog, workflows, wording, structure of the repository
	@$(STEP) style -- python -m tools.style

workflows: env ## check: the workflow files of the public CI, with actionlint
	@$(STEP) workflows -- python -m tools.workflows

mypy: env ## check: types (strict)
	@$(STEP) mypy -- mypy $(addprefix -p ,$(TYPED))

unit: env ## check: unit tests
	@$(STEP) unit -- python -m pytest tests/unit -m "not ci_more and not plays" -n 2

unit-more: test-programs ## check: unit tests that need a program or an environment which `make test` does not make
	@$(STEP) unit-more -- python -m pytest tests/unit -m ci_more

browser: docs ## check: the pages of the extender and of the site, and the HTML report, in a headless Chromium
	@$(STEP) browser -- python -m pytest tests/browser

docs-lint: env ## check: documentation of modules, plugins and roles
	@$(STEP) docs-lint -- antsibull-docs --config-file tools/site/antsibull.cfg \
		lint-collection-docs --plugin-docs --validate-collection-refs self .

ansible-lint: env ## check: ansible-lint, production profile, offline
	@$(STEP) ansible-lint -- ansible-lint --offline

docs: env ## check: build the site, guides and reference, into docs/build/html
	@$(STEP) docs -- python -m tools.docs

sanity: env ## check: ansible-test sanity with the oldest and the newest Python of managed hosts
	@$(STEP) sanity -- python -m tools.sanity --skip-test pylint

pylint: env ## check: the part of ansible-test sanity that takes as long as all others
	@$(STEP) pylint -- python -m tools.sanity --test pylint

build: env ## build the collection artifact into dist/
	@$(STEP) build -- python -m tools.build

wheel: env ## build the wheel with kubectl-spread into dist/; pip installs it, without Ansible
	@$(STEP) wheel -- python -m tools.wheel

importer: build ## check: galaxy-importer on the built artifact
	@$(STEP) importer -- python -m tools.galaxy_importer

image: env ## check: build the image of the services with a container engine, and run its programs
	@$(STEP) image -- python -m pytest tests/image -m "not full" --durations=10

kind: lab-binaries ## check: roles and programs on a real cluster in containers (the short scenario of molecule)
	@$(STEP) kind -- python -m pytest tests/molecule/test_scenarios.py::test_kind

# The next two have no closing line of their own, so that pytest's summary is the last line.
core: lab-binaries ## check: the core of the integration tests: each module, playbook, role and program (tests/core.py)
	@$(STEP) --quiet-end core -- python -m pytest tests/integration -m "core and not full" --durations=20 $(SIDE_BY_SIDE)

integration: test-programs ## check: other integration tests on the simulated cluster, without plays and rescues
	@$(STEP) --quiet-end integration -- python -m pytest tests/integration -m "not core and not full and not plays and not rescues" --durations=20 $(SIDE_BY_SIDE)

changed-parts: test-programs ## the parts of test-full that test the changed folders, if there is time for them in CI
	@$(STEP) --quiet-end changed-parts -- python -m tools.changed_parts

## Measurements and long runs, for releases

test-full: test-programs ## what takes hours: long scenarios, long tests, all Pythons, ansible-core 2.18; results are kept for the commit (PART="hosts faults": only these)
	@$(PYTHON) -m tools.full_run $(PART)

molecule: test-programs ## all scenarios of molecule, each on a cluster of its own (SCENARIO=faults: only that one)
	@$(STEP) molecule -- python -m pytest tests/molecule$(if $(SCENARIO),/test_scenarios.py::test_$(SCENARIO))

bench: test-programs ## measure spread check, reports, rescues and extender on 5,000 nodes; writes docs/development/benchmarks.md (PART=spread|uneven|start|report|rescue|extender|extender-binding|site: only that)
	@$(PYTHON) -m tests.bench $(if $(PART),--part $(PART))

soak: test-programs ## the integration tests on Kubernetes 1.34, 1.35 and 1.36 (LAB_KUBERNETES=1.34: only this one), and long random runs: 200,000 decisions, 100,000 scores, 300 rescues, 5,000 rescues with faults, 200 clusters with preemption, 5,000 scheduler configurations, 80,000 choices of victims, 100,000 objects of every kind, 1,000,000 requests to the extender, 1,080,000 placements, restarts in 300 clusters, plans of 300 clusters, and 30 mutants of the code that decides (PART=kubernetes: only the versions; PART=mutants: only these; PART=prediction: only the restarts; PART=plan: only the plans; SEEDS=1-50: only some of them; a run continues)
	$(if $(filter-out kubernetes mutants prediction plan,$(PART)),$(error PART=$(PART) is unknown: use kubernetes, mutants, prediction or plan))
	$(if $(filter-out kubernetes,$(PART)),,@for version in $(KUBERNETES); do export LAB_KUBERNETES=$$version; \
		$(STEP) lab-binaries-$$version -- python -m lab binaries && $(STEP) integration-$$version -- python -m pytest tests/integration -m "not full" $(SIDE_BY_SIDE) || exit 1; done)
	$(if $(PART),,@SOAK=1 $(PYTHON) -m pytest tests/integration/oracle tests/unit/rescue/search/test_against_brute_force.py tests/unit/operations/rescue/test_random_rescues.py \
		tests/integration/rescue/test_random_clusters.py tests/integration/extender/test_random_preemption.py \
		tests/integration/undecodable/test_every_object.py tests/integration/scheduler_config/test_random_configurations.py tests/unit/services/extender/http/messages/test_fuzzed_wire.py --timeout 0)
	$(if $(filter-out mutants,$(PART)),,@$(PYTHON) -m tools.mutants)
	$(if $(PART),,@PYTHONPATH=.venv/collections $(PYTHON) -m tests.soak.placement)
	$(if $(filter-out prediction,$(PART)),,@SOAK=1 PREDICTION_SEEDS=$(SEEDS) $(PYTHON) -m pytest tests/integration/prediction/test_random_clusters.py --timeout 0 -s)
	$(if $(filter-out plan,$(PART)),,@SOAK=1 PLAN_SEEDS=$(SEEDS) $(PYTHON) -m pytest tests/integration/prediction/test_random_plans.py --timeout 0 -s)

image-lock: env ## write services/requirements.txt, the libraries of the image of the services with the hashes of their wheels
	@PYTHONPATH=.venv/collections $(PYTHON) -m tools.image_lock

sbom: env ## write dist/services-sbom.cdx.json, the list of the libraries in the image of the services (CycloneDX)
	@$(PYTHON) -m tools.sbom

tables: env ## write the tables and pictures into the guides that are made from the code
	@PYTHONPATH=.venv/collections $(PYTHON) -m tools.tables

deploy: env ## render the objects of the roles into deploy/, the base for kustomize, and the alerts into a PrometheusRule
	@$(PYTHON) -m tools.rendered_base

format: env ## rewrite Python files as `ruff` wants them
	@.venv/bin/ruff check --fix-only . && .venv/bin/ruff format .

## Releases

version: env ## write the version of galaxy.yml into the documents that name it; VERSION=1.0.1 changes galaxy.yml first
	@VERSION="$(VERSION_OF_CALL)" $(PYTHON) -m tools.collection_version

changelog: env ## write CHANGELOG.md: the fragments become the section of the version in galaxy.yml, and are removed
	@$(STEP) changelog -- antsibull-changelog release

release: env ## make the files of the release in dist/, and its tag, from a committed tree; nothing is published (docs/development/release.md)
	@$(PYTHON) -m tools.release check
	@$(MAKE) --no-print-directory release-files
	@$(STEP) tag -- python -m tools.release tag

release-files: env ## make the files of the release in dist/: collection, wheel, image, SBOM, checksums, notes about their origin
	@$(PYTHON) -m tools.release check --tagged
	$(if $(strip $(RELEASE_CHECKS)),@$(MAKE) --no-print-directory $(RELEASE_CHECKS))
	@$(STEP) release-files -- python -m tools.release files

release-compare: env ## compare the files in dist/ with the checksums in the message of the tag
	@$(STEP) release-compare -- python -m tools.release compare
