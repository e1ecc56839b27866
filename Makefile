# One name per job; CI calls the same targets. `make help` lists them.

VERSION  ?= v0.1.0-dev
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATA     ?= /var/lib/writ
UP       ?=
GOFLAGS  += -buildvcs=false
LDFLAGS   = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
KUBELD    = -s -w -X k8s.io/component-base/version.gitVersion=v1.36.4 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36
export GOFLAGS

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: deps bin/writ kubectl ## start a whole cluster on this machine, in the background
	@bin/writ up --detach --data-dir $(DATA) $(UP)

.PHONY: down
down: ## stop the cluster of `make up` and its containers; its data stays
	@bin/writ down --data-dir $(DATA)

.PHONY: deps
deps: ## install what is missing on this machine: containerd, runc
	@ci/install-deps

.PHONY: test-deps
test-deps: ## install what the tests call besides: ip, curl, gcc
	@ci/install-deps test

.PHONY: build
build: bin/writ ## build ./bin/writ

.PHONY: bin/writ
bin/writ:
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o bin/writ ./cmd/writ

.PHONY: kubectl
kubectl: ## build ./bin/kubectl where none is on the PATH
	@command -v kubectl >/dev/null 2>&1 || $(MAKE) --no-print-directory bin/kubectl

bin/kubectl: ci/kubectl/go.mod ci/kubectl/main.go ## build kubectl v1.36.4
	cd ci/kubectl && CGO_ENABLED=0 go build -trimpath -ldflags "$(KUBELD)" -o ../../bin/kubectl .

.PHONY: generate
generate: ## regenerate everything that is derived from CUE and Go types
	go generate ./...

.PHONY: test
test: test-deps bin/kubectl bin/writ ## every test below the boot tests
	go vet ./...
	PATH="$(CURDIR)/bin:$$PATH" CGO_ENABLED=1 go test -race -timeout 20m ./...
	go test -count=1 ./ci/house
	$(MAKE) --no-print-directory e2e

.PHONY: e2e
e2e: test-deps bin/kubectl bin/writ ## the story of a commit, on real parts, in a network namespace of its own
	go test -tags e2e -timeout 20m -count=1 -v ./ci/e2e

.PHONY: bench
bench: bin/writ ## the targets of the design beside the recorded peers
	go run ./ci/bench

.PHONY: lint
lint: ## gofmt, vet, golangci-lint, govulncheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run ./...
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
