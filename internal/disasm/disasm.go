// Package disasm runs NVIDIA's disassembler over what ptxas made of an emitted kernel, and reads from its text (SASS) which
// instructions stand in which loop: that the tensor cores are fed from inside the main loop, and that nothing spilled, is
// then read off the machine code, not off the PTX. Only tests need it.
package disasm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/fsgen/fsgen/internal/nvtool"
)

// Tool is an nvdisasm binary.
type Tool struct{ Path string }

// ForTest finds nvdisasm for a test, which is skipped where there is none, or fails if FSGEN_REQUIRE_NVDISASM=1.
func ForTest(t nvtool.TB) Tool {
	t.Helper()
	return Tool{nvtool.ForTest(t, "nvdisasm")}
}

// Disassemble reads a cubin.
func (t Tool) Disassemble(ctx context.Context, cubin string) (*Program, error) {
	cmd := exec.CommandContext(ctx, t.Path, "--print-code", cubin)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("disasm: %w\n%s", err, strings.TrimSpace(log.String()))
	}
	return Parse(out.String())
}
