// Package tune measures on a GPU what package autotune asks for: it makes random heads of a model's shape, holds every
// candidate's tokens against the reference and against the default tile's, and times candidates by replaying CUDA graphs
// of their launches in turn.
//
// What times a GPU stands in gpu_*.go, which an emit-only build leaves out.
package tune
