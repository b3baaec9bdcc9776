//go:build linux

#include "textflag.h"
#include "go_asm.h"

// bracket is a C function of one argument, a *bracketed: push(ctx), fn(args...), pop(popped), in one crossing from Go into C.
// It returns what fn did, else what pop did; what push did, if that failed. Being called on the thread's own stack by
// purego, it has only C's rules to keep (System V ABI, "Function Calling Sequence"): the stack a multiple of 16 at each call
// (64, the frame pointer and the return address), registers of the caller's untouched.
GLOBL ·bracketAddress(SB), NOPTR|RODATA, $8
DATA ·bracketAddress(SB)/8, $bracket(SB)

TEXT bracket(SB), NOSPLIT, $64
	MOVQ DI, 48(SP)

	MOVQ bracketed_push(DI), R10
	MOVQ bracketed_ctx(DI), DI
	CALL R10
	TESTL AX, AX
	JNE  done

	MOVQ 48(SP), R11
	MOVQ (bracketed_args+0)(R11), DI
	MOVQ (bracketed_args+8)(R11), SI
	MOVQ (bracketed_args+16)(R11), DX
	MOVQ (bracketed_args+24)(R11), CX
	MOVQ (bracketed_args+32)(R11), R8
	MOVQ (bracketed_args+40)(R11), R9
	MOVQ (bracketed_args+48)(R11), R10
	MOVQ R10, 0(SP)
	MOVQ (bracketed_args+56)(R11), R10
	MOVQ R10, 8(SP)
	MOVQ (bracketed_args+64)(R11), R10
	MOVQ R10, 16(SP)
	MOVQ (bracketed_args+72)(R11), R10
	MOVQ R10, 24(SP)
	MOVQ (bracketed_args+80)(R11), R10
	MOVQ R10, 32(SP)
	MOVQ (bracketed_args+88)(R11), R10
	MOVQ R10, 40(SP)
	MOVQ bracketed_fn(R11), R10
	CALL R10
	MOVL AX, 56(SP)

	MOVQ 48(SP), R11
	MOVQ bracketed_popped(R11), DI
	MOVQ bracketed_pop(R11), R10
	CALL R10
	MOVL 56(SP), CX
	TESTL CX, CX
	CMOVLNE CX, AX

done:
	RET
