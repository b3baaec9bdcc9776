package isa

import "strings"

// reservedWords are identifiers that PTX keeps besides the mnemonics of the table (PTX ISA, "Instruction Keywords" and
// "Predefined Identifiers").
var reservedWords = words(`
	abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx call clz cnot copysign
	cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld
	ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not
	or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct
	sqrt st stackrestore stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq
	vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl
	vshr vsub vsub2 vsub4 wgmma wmma xor WARP_SZ`)

// reservedRegs are the predefined identifiers that begin with %, up to the first dot.
var reservedRegs = words(`
	%clock %clock64 %clock_hi %laneid %lanemask_gt %ctaid %lanemask_le %lanemask_lt %lanemask_ge %lanemask_eq %nctaid %ntid %nsmid
	%nwarpid %smid %tid %warpid %gridid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank %cluster_nctarank
	%is_explicit_cluster %globaltimer %globaltimer_lo %globaltimer_hi %total_smem_size %aggr_smem_size %dynamic_smem_size
	%current_graph_exec %reserved_smem_offset_begin %reserved_smem_offset_end %reserved_smem_offset_cap
	%reserved_smem_offset_0 %reserved_smem_offset_1`)

func words(text string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(text) {
		m[w] = true
	}
	return m
}

// Reserved reports whether a name may not be declared.
func Reserved(name string) bool {
	if reservedWords[name] || reservedRegs[name] {
		return true
	}
	for _, prefix := range []string{"%pm", "%envreg"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return true
		}
	}
	return false
}
