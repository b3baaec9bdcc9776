package ptxas

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/arch"
)

const module = `.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<9>; .reg .b64 %d<3>;
    .local .align 8 .b8 stack[64];
    .shared .align 8 .b8 tile[256];
    ld.param.b64 %d1, [a];
    ld.global.b32 %r1, [%d1];
    and.b32 %r3, %r1, 60;
    cvt.u64.u32 %d2, %r3;
    mov.b64 %d0, stack;
    add.s64 %d0, %d0, %d2;
    st.local.b32 [%d0], %r1;
    st.local.b32 [stack+4], %r3;
    ld.local.b32 %r4, [%d0];
    st.shared.b32 [tile], %r4;
    bar.sync 0;
    ld.shared.b32 %r5, [tile+4];
    st.global.b32 [%d1], %r5;
    ret;
}
`

func TestAssemble(t *testing.T) {
	tool := ForTest(t)
	r, err := tool.Assemble(context.Background(), module, arch.SM90.Target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Kernel("k")
	if k == nil || !k.Entry || k.Registers == 0 || k.Stack != 64 || k.Shared < 256 || k.Barriers != 1 || k.SpillLoads != 0 {
		t.Errorf("kernel: %+v\n%s", k, r.Log)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "Local memory used") {
		t.Errorf("warnings: %q", r.Warnings)
	}
}

func TestVersion(t *testing.T) {
	v, err := ForTest(t).Version(t.Context())
	if err != nil || !strings.Contains(v, ".") {
		t.Errorf("got %q, %v", v, err)
	}
	for _, path := range []string{"/bin/false", "/bin/true", "/bin/cat", "/", "/nowhere"} {
		if v, err := (Tool{path}).Version(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is no ptxas") {
			t.Errorf("%s: got %q, %v", path, v, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	tool := ForTest(t)
	_, err := tool.Assemble(context.Background(), strings.Replace(module, "bar.sync", "bar.sink", 1), arch.SM90.Target, Options{})
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Log, "bar.sink") && !strings.Contains(e.Log, "line 19") {
		t.Errorf("got %v", err)
	}
}

func TestParse(t *testing.T) {
	r := parse(`ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored
ptxas warning : Registers are spilled to local memory in function 'a', 8 bytes spill stores, 12 bytes spill loads
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 16 bytes cumulative stack size, 1040 bytes smem
ptxas info    : Function properties for f
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
`)
	want := Kernel{Name: "a", Entry: true, Registers: 255, Barriers: 2, Shared: 1040, Stack: 16, SpillStores: 8, SpillLoads: 12}
	if *r.Kernel("a") != want || r.Kernel("f").Entry || len(r.Warnings) != 2 {
		t.Errorf("got %+v", r)
	}
}
