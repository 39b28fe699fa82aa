.DEFAULT_GOAL := help
.PHONY: help up down dev tables test test-all integrations bench bench-operator pgo soak nodes check fmt crds api pictures readme images dist release rehearse

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## Start a local cluster with a stack of every profile, from nothing
	@e2e/cluster/up.sh

down: ## Remove the local cluster, keep the caches
	@e2e/cluster/down.sh

dev: ## Run the app, a worker and their stores on this machine, without a cluster
	@e2e/checks/dev.sh

tables: ## Perform the requests of the specification's tables on the stack of make up
	@e2e/checks/tables.sh

test: ## Run the checks and tests of every change, on a cluster of its own; CI runs this
	@e2e/test.sh

test-all: ## Run every check and test, those of `make test` and what takes too long for every change
	@e2e/test.sh all

integrations: ## Check against programs of other projects (Traefik, Schemathesis, Chromium, oauth2-proxy); part of `make test-all`
	@e2e/checks/traefik.sh
	@e2e/checks/api.sh
	@e2e/checks/pages.sh
	@e2e/checks/console.sh
	@e2e/checks/single-sign-on.sh

bench: ## Measure redirects and jobs beside nginx and a bare publisher; ARGS="--rounds 9" changes what is measured
	@e2e/checks/bench.sh $(ARGS)

bench-operator: ## Measure the operator with 300 stacks beside 20,000 Secrets of others
	@e2e/checks/bench-operator.sh

pgo: ## Write the profile by which the app of a release is optimized
	@e2e/checks/pgo.sh

soak: ## Kill workers 50 times while 1,000 jobs run; part of `make test-all`
	@SOAK_JOBS=1000 SOAK_KILLS=50 e2e/checks/soak.sh

nodes: ## Drain, kill, freeze and cut off the nodes of a cluster that has three, and print what users saw
	@e2e/checks/nodes.sh

check: ## Run the part of `make test` that needs no cluster: formatting, lints, documents, unit tests, chart
	@e2e/test.sh source unit chart

fmt: ## Format the Rust code
	@cargo fmt --all

crds: ## Write crds/, its copy in its chart and docs/reference.md from the Rust types
	@UPDATE=1 e2e/checks/offline.sh generated::crds

api: ## Write docs/api.md from the OpenAPI document of the app
	@UPDATE=1 e2e/checks/offline.sh generated::api_page

pictures: ## Draw the pictures of the pages from the running stack of make up
	@e2e/pictures/pictures.sh

readme: ## Write the chart's README from its values.yaml
	@UPDATE=1 e2e/checks/offline.sh generated::readme

images: ## Build the container images
	@e2e/images/build.sh

dist: ## Write dist/install.yaml for installing without Helm, and dist/bundle for the Operator Lifecycle Manager
	@charts/dist.sh
	@charts/bundle.sh

release: ## Make a whole release into dist/release without pushing it
	@.ci/release/release.sh

rehearse: ## Rehearse a release for every architecture, into a registry on loopback
	@e2e/checks/release.sh all
