# fsgen: build, test and tool targets. Everything needs Go and pip only; the race detector and the tests against a fake
# libcuda need a C compiler too.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

PTXAS_VERSION ?= 13.0.88
NVDISASM_VERSION ?= 13.5.37
CUDART_VERSION ?= 13.0.88
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@latest
FUZZTIME ?= 10s
TOOLS := .tools
GO ?= go

# Tests emit, parse and simulate thousands of kernels, of which little is kept: a third of their time is the collector's, unless it
# may come less often.
export GOGC ?= 400
export GOMEMLIMIT ?= 4GiB

# Where goroutines meet, under the race detector: whole packages, and of those that it slows most the tests that share work.
RACE := ./driver ./sampler ./internal/cache ./internal/rendezvous ./autotune
# What only runs kernels on the simulators, which ./sim covers.
RACE_SKIP := Tops|SimulatedTiles|LogProbs|CandidatesGive|ThatNobodyChecked|Draws|UnderTruncation|SumsOfSteep|TilesPast|ShardsGiveTheWhole
RACE_SOME := ./gen ./sim ./reference
RACE_TESTS := Goroutines|Cancel|MixedBatches|CorpusEqualsReference|Seeds|GroupedEqualsPlain

# Packages whose test binaries go into the bundle for a machine with a GPU.
GPU_TESTS ?= driver internal/peerprobe internal/nccl sampler internal/verify internal/bench internal/tune
BUNDLE ?= gpu-bundle

.PHONY: all build test test-short race race-packages race-tests generate fresh tools gpu-bundle fuzz lint vuln clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -o bin/fsgen ./cmd/fsgen

tools: $(TOOLS)/bin/ptxas $(TOOLS)/bin/nvdisasm $(TOOLS)/include/cuda.h

# ptxas comes from the PyPI package nvidia-cuda-nvcc; only the one binary is kept.
$(TOOLS)/bin/ptxas:
	mkdir -p $(TOOLS)/bin $(TOOLS)/wheel
	python3 -m pip download --quiet --disable-pip-version-check --no-deps -d $(TOOLS)/wheel nvidia-cuda-nvcc==$(PTXAS_VERSION)
	cd $(TOOLS)/wheel && python3 -m zipfile -e nvidia_cuda_nvcc-$(PTXAS_VERSION)-*.whl .
	install -m 755 $(TOOLS)/wheel/nvidia/cu13/bin/ptxas $(TOOLS)/bin/ptxas
	rm -rf $(TOOLS)/wheel
	$(TOOLS)/bin/ptxas --version | tail -n 2

# nvdisasm shows which instructions ptxas made; newer than ptxas, since it reads the code of every older one.
$(TOOLS)/bin/nvdisasm:
	mkdir -p $(TOOLS)/bin $(TOOLS)/nvdisasm
	python3 -m pip download --quiet --disable-pip-version-check --no-deps -d $(TOOLS)/nvdisasm nvidia-cuda-nvdisasm==$(NVDISASM_VERSION)
	cd $(TOOLS)/nvdisasm && python3 -m zipfile -e nvidia_cuda_nvdisasm-$(NVDISASM_VERSION)-*.whl .
	install -m 755 $(TOOLS)/nvdisasm/nvidia/cu13/bin/nvdisasm $(TOOLS)/bin/nvdisasm
	rm -rf $(TOOLS)/nvdisasm
	$(TOOLS)/bin/nvdisasm --version | tail -n 2

# cuda.h comes from nvidia-cuda-runtime: generated headers are compiled against it, and driver's constants compared with it.
$(TOOLS)/include/cuda.h:
	mkdir -p $(TOOLS)/include $(TOOLS)/cudart
	python3 -m pip download --quiet --disable-pip-version-check --no-deps -d $(TOOLS)/cudart nvidia-cuda-runtime==$(CUDART_VERSION)
	cd $(TOOLS)/cudart && python3 -m zipfile -e nvidia_cuda_runtime-$(CUDART_VERSION)-*.whl .
	install -m 644 $(TOOLS)/cudart/nvidia/cu13/include/cuda.h $(TOOLS)/include/cuda.h
	rm -rf $(TOOLS)/cudart

# Every test, then the race detector where it matters. What is missing (ptxas, nvdisasm, a C compiler, a GPU) skips with its
# reason; FSGEN_REQUIRE_PTXAS=1, FSGEN_REQUIRE_NVDISASM=1, FSGEN_REQUIRE_CC=1 and FSGEN_REQUIRE_GPU=1 make that a failure.
test:
	$(GO) test ./...
	$(MAKE) --no-print-directory race

test-short:
	$(GO) test -short ./...

race: # side by side: most of each is one package, which keeps one processor busy
	$(MAKE) --no-print-directory -j2 race-packages race-tests

race-packages:
	$(GO) test -race -skip '$(RACE_SKIP)' $(RACE)

race-tests:
	$(GO) test -race -short -run '$(RACE_TESTS)' $(RACE_SOME)

# Format, vet (emit-only build too) and staticcheck, where the module proxy has it.
lint:
	@files=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
		if [ -n "$$files" ]; then echo "gofmt these: $$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags fsgen_nocuda ./...
	@if $(GO) run $(STATICCHECK) -version; then $(GO) run $(STATICCHECK) ./...; \
		else echo "staticcheck cannot be fetched here: skipped"; fi

# Needs the vulnerability database at vuln.go.dev, which CI cannot count on.
vuln:
	$(GO) run $(GOVULNCHECK) ./...

# Every fuzz target for FUZZTIME each.
fuzz:
	@for file in $$(git ls-files -co --exclude-standard '*_test.go' | xargs grep -lE '^func Fuzz' | sort); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			.ci/fuzz $$target ./$$(dirname $$file) $(FUZZTIME) || exit 1; \
		done; \
	done

generate:
	$(GO) generate ./...

# Generated files are what generating them gives.
fresh:
	@before=$$(git ls-files '*/z*.go' testdata/head | xargs sha256sum); \
		$(GO) generate ./...; \
		after=$$(git ls-files '*/z*.go' testdata/head | xargs sha256sum); \
		if [ "$$before" != "$$after" ]; then echo "stale generated files: commit what make generate gives"; exit 1; fi

# One folder that runs on a GPU machine without Go: sh run.sh.
gpu-bundle:
	mkdir -p $(BUNDLE)
	cp .ci/gpu-run $(BUNDLE)/run.sh
	for p in $(GPU_TESTS); do .ci/bundle-test $(BUNDLE) $$p || exit 1; done
	mkdir -p $(BUNDLE)/examples $(BUNDLE)/.tools/include
	cp -r examples/run.sh examples/python examples/cpp $(BUNDLE)/examples
	if [ -f $(TOOLS)/include/cuda.h ]; then cp $(TOOLS)/include/cuda.h $(BUNDLE)/.tools/include; fi
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BUNDLE)/examples/ ./examples/inputs ./examples/go/serving ./examples/go/ranks
	if ls cmd/fsgen/*.go >/dev/null 2>&1; then CGO_ENABLED=0 $(GO) build -trimpath -o $(BUNDLE)/fsgen ./cmd/fsgen; fi
	ls -l $(BUNDLE)

clean:
	rm -rf bin gpu-bundle
