package ptx_test

import (
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ptx"
)

// A kernel that doubles n floats.
func Example() {
	m := ptx.NewModule(arch.Target{SM: 80})
	f := m.Entry("double")
	f.Reqntid(128, 1, 1)
	x, n := f.ParamU64("x"), f.ParamU32("n")

	tid, cta, index, count := f.B32("tid0"), f.B32("cta"), f.B32("index"), f.B32("n")
	f.MovB32(tid, ptx.TidX)
	f.MovB32(cta, ptx.CtaidX)
	f.MadLoS32(index, cta, ptx.Imm(128), tid)
	f.LdParamB32(count, n)
	done, out := f.Label("done"), f.Pred("out")
	f.SetpU32(ptx.GE, out, index, count)
	f.Bra(done).If(out).Comment("past the end")

	base, v := f.B64("base"), f.F32()
	f.LdParamB64(base, x)
	f.CvtaToGlobalU64(base, base)
	f.MadWideU32(base, index, ptx.Imm(4), base)
	f.LdGlobalF32(v, base)
	f.AddF32(v, v, v, ptx.FTZ)
	f.StGlobalF32(base, v)
	f.Place(done)
	f.Ret()
	if err := m.Err(); err != nil {
		fmt.Println(err)
	}
	fmt.Print(m)
	// Output:
	// .version 7.0
	// .target sm_80
	// .address_size 64
	//
	// .visible .entry double(
	//     .param .u64 x,
	//     .param .u32 n
	// )
	// .reqntid 128, 1, 1
	// {
	//     .reg .pred %out;
	//     .reg .b32 %tid0, %cta, %index, %n;
	//     .reg .b64 %base;
	//     .reg .f32 %f0;
	//
	//     mov.b32                     %tid0, %tid.x;
	//     mov.b32                     %cta, %ctaid.x;
	//     mad.lo.s32                  %index, %cta, 128, %tid0;
	//     ld.param.b32                %n, [n];
	//     setp.ge.u32                 %out, %index, %n;
	//     @%out bra                   done;                                   // past the end
	//     ld.param.b64                %base, [x];
	//     cvta.to.global.u64          %base, %base;
	//     mad.wide.u32                %base, %index, 4, %base;
	//     ld.global.f32               %f0, [%base];
	//     add.ftz.f32                 %f0, %f0, %f0;
	//     st.global.f32               [%base], %f0;
	//
	// done:
	//     ret;
	// }
}
