// Package autotune finds, by measuring, the tile and the number of CTAs with which a batch size is sampled fastest, and
// keeps what it found.
//
// Search is successive halving: every candidate is held against the reference, then all that passed are timed in turn,
// the slower half goes, and the rest is timed again with more passes. It measures through a Runner, so that it needs no
// GPU itself. A Store keeps what a machine measured, a Table what ships with fsgen, and a Source answers a runtime that
// asks how to serve a batch size: it looks things up and never measures.
//
// Every candidate gives the same tokens; tuning changes how long they take.
package autotune
