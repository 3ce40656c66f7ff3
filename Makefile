# Berth. `make help` lists the targets.
export CGO_ENABLED := 0
# The clone is a module of its own, whatever workspace the user is in.
export GOWORK := off

VERSION := $(if $(wildcard .git),$(shell git describe --tags --always --dirty 2>/dev/null))
LDFLAGS := -X github.com/berth-csi/berth/cmd/internal/version/stamp.version=$(VERSION)
# A program with gRPC's traces keeps every method of every type, and is a third larger.
TAGS    := grpcnotrace
TOOL    := go tool -modfile=hack/tools/go.mod

# docs/contribute/develop.md says where a clone may be. The user's -mod and -modfile are for other modules. Without a version, the go
# command cannot find one either, so it must not look. With -trimpath, all clones share one build cache.
export GOFLAGS := $(filter-out -mod=% -modfile=%,$(shell go env GOFLAGS 2>/dev/null)) -trimpath $(if $(VERSION),,-buildvcs=false)
# With CDPATH, cd may go to another folder.
unexport CDPATH
# Go and tests execute files that they write to TMPDIR.
ifneq (,$(findstring noexec,$(shell findmnt -no OPTIONS --target "$${TMPDIR:-/tmp}" 2>/dev/null)))
export TMPDIR := $(shell folder="$${XDG_CACHE_HOME:-$$HOME/.cache}/berth/tmp" && mkdir -p "$$folder" && echo "$$folder")
endif

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: runtime ## Start a local cluster, install the EFS operator from a catalog, share a volume between pods
	@go run ./test/demo up

.PHONY: demo-switch
demo-switch: runtime ## On a cluster of its own, switch from the community's operator to the certified one
	@go run ./test/demo switch

.PHONY: demo-platform
demo-platform: runtime ## On a cluster of its own, run the drivers of a platform: make demo-platform PLATFORM=aws
	@go run ./test/demo platform "$(PLATFORM)"

.PHONY: demo-adopt
demo-adopt: runtime ## On a cluster of its own, hand the EBS driver of OpenShift 4.5 over to the cluster storage operator
	@go run ./test/demo adopt

.PHONY: demo-aws
demo-aws: runtime ## On a cluster of its own, create an EFS file system in a simulated AWS, use it, and delete it
	@go run ./test/demo aws

.PHONY: demo-csi-migration
demo-csi-migration: ## On a cluster of its own, switch CSI migration on and off; node operators are simulated
	@go run ./test/demo csi-migration

.PHONY: demo-move
demo-move: ## On a cluster of its own, move the EFS operator from OLM v0 to v1, and back; OLM v1 is simulated
	@go run ./test/demo move

.PHONY: demo-down
demo-down: ## Stop the clusters of demonstrations
	@go run ./test/demo down && rm -rf .demo

.PHONY: build
build: ## Build berth, its links kubectl-berth and oc-berth, and berth-operator into bin/
	go build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/berth-operator ./cmd/berth
	ln -sf berth bin/kubectl-berth
	ln -sf berth bin/oc-berth

.PHONY: release
release: ## Build all images and push them: make release REGISTRY=registry.example.com/team (docs/catalog/release.md)
	@go run ./release --registry "$(REGISTRY)" $(if $(PINS),--pins "$(PINS)") $(if $(ARCHITECTURES),--architectures "$(ARCHITECTURES)") \
		$(if $(MUST_GATHER_BASE),--must-gather-base "$(MUST_GATHER_BASE)") $(if $(LAYOUT),--layout "$(LAYOUT)") $(if $(KEY),--key "$(KEY)") $(if $(EFS_DRIVER),--efs-driver "$(EFS_DRIVER)")

.PHONY: browser
browser: # tests of pages open them in Chromium
	@for program in chromium-headless-shell chromium chromium-browser google-chrome; do \
		if command -v $$program >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "want Chromium on the PATH: sudo apt-get install chromium-headless-shell" >&2; exit 1; fi; \
	apt-get update -q && apt-get install -qy --no-install-recommends chromium-headless-shell

.PHONY: runtime
runtime: # real nodes run containers, with images of drivers; where they cannot, tests skip and demonstrations say so
	@if command -v runc >/dev/null && command -v mmdebstrap >/dev/null && [ -x /usr/lib/cni/ptp ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi; \
	{ apt-get update -q && apt-get install -qy --no-install-recommends runc containernetworking-plugins mmdebstrap; } || true

.PHONY: gcc
gcc: # the race detector needs cgo
	@command -v gcc >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev; } || \
		{ echo "want gcc on the PATH: sudo apt-get install gcc libc6-dev" >&2; exit 1; }

# Which tests are in which tier, and why, is in test/tiers. The tests keep two processors busy, so nothing is done that nobody uses: make
# lint vets, and no debugger needs symbols.
.PHONY: test
test: browser runtime ## Run all short tests, and one journey for each promise of Berth, against real local clusters
	@go run ./test/demo tools # shows how far it is, which go test would not
	@go run ./test/tiers first

.PHONY: test-all
test-all: browser runtime ## Run the tests that make test leaves out, and print which attacks and failures both have tried
	@go run ./test/demo tools
	@[ -f bin/test-first.json ] || { echo "run make test first: its results are in the tables at the end" >&2; exit 1; }
	@go run ./test/tiers second; passed=$$?; cat bin/test-first.json bin/test-second.json >bin/test.json && \
	go run ./test/trials/report bin/test.json && exit $$passed

.PHONY: test-long
test-long: browser runtime ## Run the tests that neither make test nor make test-all runs
	@go run ./test/demo tools
	@go run ./test/tiers third

.PHONY: test-lab
test-lab: browser runtime ## Run the tests of the lab itself; make test-all does, and make test where the lab was changed
	@go run ./test/demo tools
	@go run ./test/tiers lab

.PHONY: test-race
test-race: browser gcc ## Run the tests that need no cluster, and three journeys, with Go's race detector
	@go run ./test/demo tools
	@go run ./test/tiers race

.PHONY: bench
bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./...

.PHONY: bench-check
bench-check: ## Measure berth check in a repository of 7,000 bundles and, with OPERATORS=DIR:DIR, all profiles on their catalogs for 4.20
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/gates

.PHONY: bench-catalog
bench-catalog: ## Compare validate, render, serve and templates with real opm, on catalogs of the size of public ones
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/catalogs

.PHONY: fuzz
fuzz: ## Try each parser on ten thousand random inputs
	@# A number of inputs, as a duration can end with an error: golang/go#75804
	@grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z]*).*|\1 \2|' | \
	while read -r package target; do go test "$$package" -run '^$$' -fuzz "^$$target$$" -fuzztime 10000x || exit 1; done

.PHONY: site
site: mkdocs ## Build the documentation's site in bin/site, with search, and check its links
	go run ./hack/site bin/site

.PHONY: mkdocs
mkdocs:
	@if ! command -v mkdocs >/dev/null; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "want MkDocs and its theme Material: sudo apt-get install mkdocs mkdocs-material" >&2; exit 1; fi; \
		apt-get update -q && apt-get install -qy --no-install-recommends mkdocs mkdocs-material; \
	fi

.PHONY: mmdebstrap
mmdebstrap: # images of drivers are built on a small Debian
	@command -v mmdebstrap >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy --no-install-recommends mmdebstrap; } || \
		{ echo "want mmdebstrap on the PATH: sudo apt-get install mmdebstrap" >&2; exit 1; }

.PHONY: buildah
buildah: # the EFS driver's image is built with it
	@command -v buildah >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy --no-install-recommends buildah; } || \
		{ echo "want buildah on the PATH: sudo apt-get install buildah" >&2; exit 1; }

.PHONY: prove
prove: mmdebstrap $(if $(findstring efs-utils,$(SUITE)),buildah) ## Run a suite that is too long for make test: make prove SUITE=sweep-operator-install
	@go run ./test/prove "$(SUITE)"

.PHONY: proof
proof: ## Prove a claim of docs/reference/proofs.md again: make proof CLAIM=slo-alerts; with RECORD=yes, record it; without a claim, list all
	@go run ./test/prove $(if $(RECORD),-record,-claim) "$(CLAIM)"
	@$(if $(RECORD),go test ./test/prove -run TestPagesShow -update)

.PHONY: sweep
sweep: ## Try every fault at every write and watch, and let claims come and go for long: eight of these suites
	@for suite in sweep-operator-install sweep-operator-adopt sweep-operator-uninstall sweep-sharedvolume sweep-clusterstorage sweep-switch sweep-adopt sweep-move endurance; do go run ./test/prove $$suite || exit 1; done

.PHONY: rbac
rbac: ## Print what the operators may do, what for, and what an end-to-end run has used of it
	@go run ./hack/rbac

.PHONY: generate
generate: ## Regenerate all generated files
	go generate ./sharedvolume/... ./drivers/...
	go generate ./bundle
	go generate ./catalog/build
	go generate ./operator/clusterstorage/release
	go generate ./deploy/certification
	go run ./hack/rbac -output docs/reference/permissions.md

.PHONY: lint
lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:" $$unformatted; exit 1; fi
	go vet ./...
	$(TOOL) staticcheck ./...

.PHONY: clone
clone: # verify compares files with the ones that Git has
	@prefix=$$(git rev-parse --show-prefix 2>&1) && [ -z "$$prefix" ] || { echo "want a Git clone of the project; git rev-parse says: $$prefix" >&2; exit 1; }

# All modules but lab/modules/olmv1: one of its dependencies is in no public proxy.
MODULES := . $(filter-out lab/modules/olmv1/,$(dir $(wildcard hack/*/go.mod lab/modules/*/go.mod)))

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum of each module
	for module in $(MODULES); do (cd $$module && go mod tidy) || exit 1; done

.PHONY: verify
verify: clone ## Generated files fresh, go.mod tidy, imports downward only, one word for one thing, drivers named by their definitions only, no path that leaves the clone
	go run ./hack/imports
	go run ./hack/words
	go run ./hack/drivernames
	go run ./hack/clone
	for module in $(MODULES); do (cd $$module && go mod tidy -diff) || exit 1; done
	hack/verify-generated
