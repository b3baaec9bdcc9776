// Package verify holds the suites behind "fsgen verify": they sample on any device and compare with the reference, or
// with what probability theory says.
//
// Every suite is a list of checks, each a function of the options' seed and of its own name, so that one check can be
// repeated alone. Wrong answers are failed checks of the report; only what keeps the suites from running is an error.
//
// A check that cannot fail is worth nothing: the package's own tests run the suites over devices with planted faults,
// and each must be caught by the suite that is meant for it.
package verify
