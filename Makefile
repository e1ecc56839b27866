# One name per job; CI calls the same targets. `make help` lists them.

VERSION  ?= v0.1.0-dev
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATA     ?= /var/lib/writ
UP       ?=
GOFLAGS  += -buildvcs=false
LDFLAGS   = -s -w -funcalign=16 -X main.version=$(VERSION) -X main.commit=$(COMMIT)
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

# The node image. SOURCE_DATE_EPOCH, the time of every file in it, is that of the
# commit; KEY signs it.
KEY ?=

.PHONY: image
image: bin/writ bin/containerd bin/containerd-shim-runc-v2 bin/init ## build the node image of VERSION into bin/image; KEY=file signs it
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
		bin/writ image build --version $(VERSION:v%=%) --out bin/image $(if $(KEY),--sign-key $(KEY))

.PHONY: image-update
image-update: bin/writ ## pin the newest packages of the node image; commit image/packages.lock
	bin/writ image update

.PHONY: bin/containerd bin/containerd-shim-runc-v2 bin/init
bin/containerd:
	cd image/containerd && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o ../../bin/containerd .

bin/containerd-shim-runc-v2:
	cd image/containerd && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o ../../bin/containerd-shim-runc-v2 ./shim

bin/init:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/init ./image/initrd/init

.PHONY: image-deps
image-deps:
	@ci/install-deps image

.PHONY: test-image
test-image: image-deps ## boot the node image under QEMU, update it, break it, damage it, revert; two machines join; Secure Boot, TPM; an hour
	go test -tags image -timeout 120m -count=1 -v ./ci/image

# WRIT_HISTORIES and WRIT_FROM say how many histories, and the first seed.
.PHONY: torture-git
torture-git: ## play 20,000 random histories of commits and clusters: what a plan says is what happens; hours
	WRIT_HISTORIES=$${WRIT_HISTORIES:-20000} go test -run TestRandom -timeout 24h -count=1 -v ./ci/histories

.PHONY: generate
generate: ## regenerate everything that is derived from CUE and Go types
	go generate ./...

.PHONY: generated
generated: ## fail when what is generated is not what make generate makes
	@was="$$(git status --porcelain)"; go generate ./... && \
		is="$$(git status --porcelain)"; [ "$$was" = "$$is" ] || { echo "make generate changes these files; commit them:"; echo "$$is"; exit 1; }

.PHONY: test
test: test-deps bin/kubectl bin/writ ## every test but the long ones of a booted image
	-@ci/install-deps image # without an emulator no image is booted
	go vet ./...
	cd ci/clients/charts && go vet ./...
	@$(MAKE) --no-print-directory generated
	PATH="$(CURDIR)/bin:$$PATH" CGO_ENABLED=1 go test -race -timeout 20m ./...
	go test -count=1 -timeout 30m -run 'Kill|Model|History|Large|Gigabyte' ./controlplane/store ./controlplane/registry ./reconciler/source
	go test -count=1 ./reconciler/sandbox
	go test -count=1 -run Hostile ./reconciler/receive
	go test -count=1 ./image/source ./image/root ./image/build
	go test -count=1 ./ci/house
	$(MAKE) --no-print-directory charts
	$(MAKE) --no-print-directory e2e
	go test -tags image -short -timeout 20m -count=1 -v ./ci/image

FUZZ     ?= .
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=30s each, from the corpus that is kept; FUZZ=./schema for those of a part
	@mkdir -p "$$(go env GOCACHE)/fuzz" && tar -xzf ci/fuzz/corpus.tar.gz -C "$$(go env GOCACHE)/fuzz"
	@set -e; for t in $$(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' $(FUZZ) | sed -E 's,/[^/]+:func ,:,' | sort); do \
		echo "== $$t"; go test -run '^$$' -fuzz "^$${t#*:}\$$" -fuzztime $(FUZZTIME) "./$${t%:*}"; \
	done

.PHONY: corpus
corpus: ## keep what fuzzing has found interesting on this machine
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$$(go env GOCACHE)/fuzz" -c "$$(go list -m)" | gzip -9n > ci/fuzz/corpus.tar.gz

.PHONY: charts
charts: bin/writ ## Helm 4 and Kustomize, as libraries, against the API server
	cd ci/clients/charts && go test -count=1 ./...

.PHONY: adversary
adversary: ## what those may do who have a stolen token, a node, a namespace, or may push: attempts on a real control plane
	WRIT_ADVERSARY_LONG=1 go test -count=1 -timeout 20m -v ./ci/adversary

.PHONY: e2e
e2e: test-deps bin/kubectl bin/writ ## the story of a commit, on real parts, in a network namespace of its own
	go test -tags e2e -timeout 20m -count=1 -v ./ci/e2e

# Upstream's own binaries, for comparisons: built from its Go modules, once.
KUBE = cd ci/conformance && CGO_ENABLED=0 go

bin/upstream: ci/conformance/go.mod
	$(KUBE) build -trimpath -o ../../bin/upstream ./upstream

bin/kube-apiserver: ci/conformance/go.mod
	$(KUBE) build -trimpath -ldflags "$(KUBELD)" -o ../../bin/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver

bin/e2e.test: ci/conformance/go.mod
	$(KUBE) test -c -vet=off -trimpath -ldflags "$(KUBELD)" -o ../../bin/e2e.test k8s.io/kubernetes/test/e2e

bin/agnhost: ci/conformance/go.mod
	$(KUBE) build -trimpath -ldflags "-s -w" -o ../../bin/agnhost k8s.io/kubernetes/test/images/agnhost

E2E = registry.k8s.io/e2e-test-images

bin/images: bin/agnhost bin/busybox
	mkdir -p $@
	$(KUBE) build -trimpath -ldflags "-s -w" -o ../../bin/sample-apiserver k8s.io/sample-apiserver
	$(KUBE) build -trimpath -ldflags "-s -w" -o ../../bin/etcd go.etcd.io/etcd/server/v3
	$(KUBE) run ./image -out ../../bin/images/agnhost.tar -name $(E2E)/agnhost:2.63.0,$(E2E)/agnhost:2.55 -entrypoint /agnhost -cmd pause agnhost=../../bin/agnhost
	$(KUBE) run ./image -out ../../bin/images/pause.tar -name registry.k8s.io/pause:3.10.2 -entrypoint "/agnhost pause" agnhost=../../bin/agnhost
	$(KUBE) run ./image -out ../../bin/images/nautilus.tar -name $(E2E)/nautilus:1.8 -entrypoint /agnhost -cmd test-webserver agnhost=../../bin/agnhost \
		.="$$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)/test/images/nautilus/html"
	$(KUBE) run ./image -out ../../bin/images/busybox.tar -name $(E2E)/busybox:1.37.0-1 -cmd sh .=../../bin/busybox
	$(KUBE) run ./image -out ../../bin/images/etcd.tar -name registry.k8s.io/etcd:3.6.8-0 -entrypoint etcd usr/local/bin/etcd=../../bin/etcd
	$(KUBE) run ./image -out ../../bin/images/sample-apiserver.tar -name $(E2E)/sample-apiserver:1.29.2 -entrypoint /sample-apiserver sample-apiserver=../../bin/sample-apiserver

bin/busybox: ## Debian's busybox, as the directory tree of an image
	mkdir -p bin/debs $@/bin $@/root
	cd bin/debs && apt-get download -qq busybox-static && dpkg-deb -x busybox-static_*.deb .
	cp bin/debs/bin/busybox $@/bin/busybox
	for applet in $$($@/bin/busybox --list); do [ $$applet = busybox ] || ln -sf busybox $@/bin/$$applet; done

.PHONY: upstream
upstream: bin/upstream bin/kube-apiserver ## build upstream's API server, to compare with (some 10 minutes)

.PHONY: record
record: upstream ## ask upstream again what ci/differential replays
	cd ci/differential/testdata && go run ../record -upstream ../../../bin/upstream -kube-apiserver ../../../bin/kube-apiserver *.txtar

.PHONY: storage
storage: upstream ## upstream's API server on our data, and ours on its
	go test -tags upstream -run TestStorage -count=1 ./ci/differential

.PHONY: conformance
conformance: bin/e2e.test bin/images bin/writ bin/kubectl ## upstream's conformance suite; FOCUS='sig-auth' for a part
	$(KUBE) build -o ../../bin/suite ./suite
	bin/suite -images bin/images -focus '$(FOCUS)'

.PHONY: versus
versus: upstream bin/writ ## this API server and upstream's, measured side by side
	go run ./ci/bench -upstream "bin/upstream --kube-apiserver bin/kube-apiserver"

.PHONY: bench
bench: bin/writ ## the targets of the design beside the recorded peers
	go run ./ci/bench
	WRIT_BENCH=1 go test -count=1 -run TestLoad -v ./reconciler/page

.PHONY: soak
soak: bin/writ ## 259 commits that roll pods of 200 simulated nodes: what grows; COMMITS=n for less, profiles in bin/soak
	go run ./ci/bench -run soak

.PHONY: lint
lint: ## gofmt, vet, golangci-lint, govulncheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run ./...
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
