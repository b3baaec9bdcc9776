package driver

// gpuPTX holds the kernels of the GPU tests, for compute capability 9.0 and later.
const gpuPTX = `.version 8.0
.target sm_90
.address_size 64

// p[i] = value for i < n
.visible .entry fill(.param .u64 p, .param .u32 value, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<6>;
	.reg .b64 %d<4>;
	ld.param.u64 %d0, [p];
	ld.param.u32 %r0, [value];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %d0, %d0;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.u32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p, %r5, %r1;
	@%p ret;
	mul.wide.u32 %d1, %r5, 4;
	add.u64 %d2, %d0, %d1;
	st.global.u32 [%d2], %r0;
	ret;
}

// waits for so many nanoseconds
.visible .entry spin(.param .u64 ns)
{
	.reg .pred %p;
	.reg .b64 %d<4>;
	ld.param.u64 %d0, [ns];
	mov.u64 %d1, %globaltimer;
LOOP:
	mov.u64 %d2, %globaltimer;
	sub.u64 %d3, %d2, %d1;
	setp.lt.u64 %p, %d3, %d0;
	@%p bra LOOP;
	ret;
}

.visible .entry crash()
{
	trap;
}

// p[block] = blocks in its cluster << 16 | dynamic shared memory >> 8
.visible .entry ranks(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %d<3>;
	ld.param.u64 %d0, [p];
	cvta.to.global.u64 %d0, %d0;
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %cluster_nctaid.x;
	mov.u32 %r2, %dynamic_smem_size;
	shl.b32 %r1, %r1, 16;
	shr.u32 %r2, %r2, 8;
	or.b32 %r3, %r1, %r2;
	mul.wide.u32 %d1, %r0, 4;
	add.u64 %d2, %d0, %d1;
	st.global.u32 [%d2], %r3;
	ret;
}

// copies the 64 by 8 box of 2-byte elements at (col, row) to out, in the order in which it lies in shared memory;
// one block of 64 threads
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 col, .param .u32 row)
{
	.reg .pred %p;
	.reg .b32 %r<12>;
	.reg .b64 %d<6>;
	.shared .align 1024 .b8 box[1024];
	.shared .align 8 .b8 full[8];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, box;
	mov.u32 %r2, full;
	ld.param.u32 %r3, [col];
	ld.param.u32 %r4, [row];
	setp.ne.u32 %p, %r0, 0;
	@%p bra READY;
	mbarrier.init.shared::cta.b64 [%r2], 1;
	fence.proxy.async.shared::cta;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
	mov.b64 %d0, map;
	cvta.param.u64 %d1, %d0;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1, {%r3, %r4}], [%r2];
READY:
	bar.sync 0;
WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p, [%r2], 0;
	@!%p bra WAIT;
	shl.b32 %r5, %r0, 4;
	add.u32 %r6, %r1, %r5;
	ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r6];
	ld.param.u64 %d2, [out];
	cvta.to.global.u64 %d2, %d2;
	cvt.u64.u32 %d3, %r5;
	add.u64 %d4, %d2, %d3;
	st.global.v4.u32 [%d4], {%r7, %r8, %r9, %r10};
	ret;
}
`
