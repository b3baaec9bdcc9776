# fsgen: build, test and tool targets. Everything needs Go and pip only.

PTXAS_VERSION ?= 13.0.88
TOOLS := .tools
GO ?= go

.PHONY: all build test test-short race generate tools gpu-bundle fuzz lint clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -o bin/fsgen ./cmd/fsgen

tools: $(TOOLS)/bin/ptxas

# ptxas comes from the PyPI package nvidia-cuda-nvcc; only the one binary is kept.
$(TOOLS)/bin/ptxas:
	mkdir -p $(TOOLS)/bin $(TOOLS)/wheel
	python3 -m pip download --quiet --disable-pip-version-check --no-deps -d $(TOOLS)/wheel nvidia-cuda-nvcc==$(PTXAS_VERSION)
	cd $(TOOLS)/wheel && python3 -m zipfile -e nvidia_cuda_nvcc-$(PTXAS_VERSION)-*.whl .
	install -m 755 $(TOOLS)/wheel/nvidia/cu13/bin/ptxas $(TOOLS)/bin/ptxas
	rm -rf $(TOOLS)/wheel
	$(TOOLS)/bin/ptxas --version | tail -n 2

generate:
	$(GO) generate ./...

clean:
	rm -rf bin gpu-bundle
