# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors

# Everything runs in .venv, which `env` makes; BASE_PYTHON=... chooses the interpreter below it, and ANSIBLE_CORE=2.18 another ansible-core.
BASE := $(or $(BASE_PYTHON),python3)
PYTHON := .venv/bin/python
STEP := $(PYTHON) -m tools.run_step $(HOLD)

# `test` runs these two at a time, then the scenario `kind` and the integration tests, which want the machine for themselves. Sanity and the image
# take longest, and each of them uses one processor.
CHECKS := style sanity image workflows mypy unit browser docs-lint ansible-lint docs importer

# The checks that take seconds, for a release whose commit has passed `make test`.
RELEASE_CHECKS := style workflows mypy docs-lint importer

# Integration tests wait more than they work. Each worker has a shared cluster of its own; a file stays on one worker.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder
# Tests with the marker `full` are those of `make molecule FULL=1`.
NOT_FULL := -m "not full"
# Only failures in a time in which the machine did not run are repeated (tests/integration/machine.py). The summary names them.
REPEATED := --reruns 2 --only-rerun MachineStoodStillError -raR
# `make soak` runs the integration tests on each of these, or only on the one of LAB_KUBERNETES.
KUBERNETES := $(or $(LAB_KUBERNETES),1.34 1.35 1.36)
# A variable VERSION of the environment, as of other tools, does not change galaxy.yml.
VERSION_OF_CALL = $(if $(filter command line,$(origin VERSION)),$(VERSION))
OLDEST_ANSIBLE := PLAYBOOK_ANSIBLE_CORE=2.18
# The tests that run playbooks and roles with the ansible-core of PLAYBOOK_ANSIBLE_CORE.
WITH_ANSIBLE := tests/unit/playbooks tests/unit/roles tests/integration/playbooks tests/integration/roles tests/integration/awx/test_setup.py tests/integration/awx/test_rendered.py

COLLECTION := ansible_collections.onprem.kube_scheduling
TYPED := lab tools tests.bench tests.soak $(COLLECTION).plugins.module_utils $(if $(wildcard services),$(COLLECTION).services)

.DEFAULT_GOAL := help
.PHONY: help env demo test lab-binaries lab-up lab-down bench soak molecule oldest-ansible kind hosts deploy format tables build wheel integration image-lock sbom version changelog release release-files release-compare $(CHECKS)

help: ## list the targets
	@echo "Targets of this Makefile:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## make .venv: Python libraries, tools and the collections
	@$(BASE) -m tools.env

## The simulated cluster

demo: ## show the main job on a simulated cluster, from piled-up to spread
	@$(BASE) -m tools.first_start
	@$(PYTHON) -m lab.demo

lab-up: env ## start a simulated cluster with six workers; its kubeconfig is .lab/kubeconfig
	@$(PYTHON) -m lab up --scenario demo

lab-down: env ## end it
	@$(PYTHON) -m lab down

lab-binaries: ## make .venv, and build the programs of the simulated cluster (minutes once, then cached)
	@$(BASE) -m tools.first_start --with-test-programs

## Checks

test: env ## run every check
	@$(MAKE) --no-print-directory -j2 HOLD=--hold $(CHECKS)
	@$(MAKE) --no-print-directory kind
	@$(MAKE) --no-print-directory integration

style: env ## check: Python and YAML style, changelog, workflows, and the wording and structure of all files
	@$(STEP) style -- python -m tools.style

workflows: env ## check: the workflow files of the public CI, with actionlint
	@$(STEP) workflows -- python -m tools.workflows

mypy: env ## check: types (strict)
	@$(STEP) mypy -- mypy $(addprefix -p ,$(TYPED))

unit: env ## check: unit tests
	@$(STEP) unit -- python -m pytest tests/unit

browser: docs ## check: the pages of the extender and of the site, and the HTML report, in a headless Chromium
	@$(STEP) browser -- python -m pytest tests/browser

docs-lint: env ## check: documentation of modules, plugins and roles
	@$(STEP) docs-lint -- antsibull-docs --config-file tools/site/antsibull.cfg \
		lint-collection-docs --plugin-docs --validate-collection-refs self .

ansible-lint: env ## check: ansible-lint, production profile, offline
	@$(STEP) ansible-lint -- ansible-lint --offline

docs: env ## check: build the site, guides and reference, into docs/build/html
	@$(STEP) docs -- python -m tools.docs

sanity: env ## check: ansible-test sanity
	@$(STEP) sanity -- python -m tools.sanity

build: env ## build the collection artifact into dist/
	@$(STEP) build -- python -m tools.build

wheel: env ## build the wheel with kubectl-spread into dist/; pip installs it, without Ansible
	@$(STEP) wheel -- python -m tools.wheel

importer: build ## check: galaxy-importer on the built artifact
	@$(STEP) importer -- python -m tools.galaxy_importer

image: env ## check: build the image of the services with a container engine, run its programs, and import it into containerd
	@$(STEP) image -- python -m pytest tests/image $(NOT_FULL) --durations=10

# Between the checks and the integration tests, because it takes minutes of both processors.
kind: lab-binaries ## check: roles and playbooks on a real cluster in containers (scenario `kind` of molecule)
	@$(STEP) kind -- python -m pytest tests/molecule/test_scenarios.py::test_kind

hosts: lab-binaries ## the role node_exporter on Debian machines in containers, scraped by a Prometheus (scenario `hosts` of molecule)
	@$(STEP) hosts -- python -m pytest tests/molecule/test_scenarios.py::test_hosts

# Last, and without a closing line of its own, so that pytest's summary is the last line of `make test`.
integration: lab-binaries ## check: integration tests on the simulated cluster
	@$(STEP) --quiet-end integration -- python -m pytest tests/integration $(NOT_FULL) --durations=20 $(SIDE_BY_SIDE) $(REPEATED)

## Measurements and long runs, for releases

molecule: lab-binaries ## all scenarios of molecule, each on a cluster of its own (SCENARIO=faults: only that one); FULL=1: then also the long tests of playbooks, roles and the image, and oldest-ansible
	@$(STEP) molecule -- python -m pytest tests/molecule$(if $(SCENARIO),/test_scenarios.py::test_$(SCENARIO))
	$(if $(FULL),@$(STEP) full-image -- python -m pytest tests/image -m full)
	$(if $(FULL),@$(STEP) full-integration -- python -m pytest tests/integration -m full --durations=20 $(SIDE_BY_SIDE) $(REPEATED))
	$(if $(FULL),@$(MAKE) --no-print-directory oldest-ansible)

oldest-ansible: lab-binaries ## with ansible-core 2.18: the tests of playbooks, roles and the setup of AWX, and the scenarios kind and hosts of molecule
	@$(OLDEST_ANSIBLE) $(STEP) integration-ansible-2.18 -- python -m pytest $(WITH_ANSIBLE) --durations=20 $(SIDE_BY_SIDE) $(REPEATED)
	@$(OLDEST_ANSIBLE) $(STEP) molecule-ansible-2.18 -- python -m pytest tests/molecule/test_scenarios.py -k "kind or hosts"

bench: lab-binaries ## measure spread check, reports, rescues and extender on 5,000 nodes; writes docs/development/benchmarks.md (PART=spread|uneven|start|report|rescue|extender|extender-binding: only that)
	@$(PYTHON) -m tests.bench $(if $(PART),--part $(PART))

soak: lab-binaries ## the integration tests on Kubernetes 1.34, 1.35 and 1.36 (LAB_KUBERNETES=1.34: only this one), and long random runs: 200,000 decisions, 100,000 scores, 300 rescues, 200 clusters with preemption, 5,000 scheduler configurations, 80,000 choices of victims, 100,000 objects of every kind, 1,000,000 requests to the extender, 1,080,000 placements, restarts in 500 clusters (PART=kubernetes: only the versions; PART=prediction: only the restarts, SEEDS=1-50: only some of them; a run continues)
	$(if $(filter-out kubernetes,$(PART)),,@for version in $(KUBERNETES); do export LAB_KUBERNETES=$$version; \
		$(STEP) lab-binaries-$$version -- python -m lab binaries && $(STEP) integration-$$version -- python -m pytest tests/integration $(NOT_FULL) $(SIDE_BY_SIDE) $(REPEATED) || exit 1; done)
	$(if $(PART),,@SOAK=1 $(PYTHON) -m pytest tests/integration/oracle tests/unit/rescue/search/test_against_brute_force.py \
		tests/integration/rescue/test_random_clusters.py tests/integration/extender/test_random_preemption.py \
		tests/integration/undecodable/test_every_object.py tests/integration/scheduler_config/test_random_configurations.py tests/unit/services/extender/http/messages/test_fuzzed_wire.py --timeout 0)
	$(if $(PART),,@PYTHONPATH=.venv/collections $(PYTHON) -m tests.soak.placement)
	$(if $(filter-out prediction,$(PART)),,@SOAK=1 PREDICTION_SEEDS=$(SEEDS) $(PYTHON) -m pytest tests/integration/prediction --timeout 0 -s)

image-lock: env ## write services/requirements.txt, the libraries of the image of the services with the hashes of their wheels
	@PYTHONPATH=.venv/collections $(PYTHON) -m tools.image_lock

sbom: env ## write dist/services-sbom.cdx.json, the list of the libraries in the image of the services (CycloneDX)
	@$(PYTHON) -m tools.sbom

tables: env ## write the tables of the playbooks' variables into the guides
	@$(PYTHON) -m tools.tables

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
