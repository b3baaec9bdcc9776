// Package isa is the table of PTX instruction forms: the one place where fsgen knows what an instruction looks like.
//
// A [Row] is one family of forms: a mnemonic, the modifiers that follow it in order (each a [Slot] of alternatives), the
// operands in order ([Arg]), the lowest PTX version and the targets that have it, its effects, and the section of the
// PTX ISA manual. A [Form] is a row with one alternative chosen for each slot. Constructors, printer, parser, verifier and
// simulator read these rows and hold no switch over instructions: a property of an instruction is a column here, and
// adding an instruction is adding a row.
//
// The facts come from the PTX ISA manual; minimum versions and targets are those that ptxas enforces (a test in package
// ptx feeds every form through it).
package isa
