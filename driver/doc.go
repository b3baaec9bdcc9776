// Package driver speaks the CUDA driver API from Go without cgo: devices, the primary context, memory, streams,
// events, modules with their compiler's log, tensor maps, cluster launches and graphs.
//
// Nothing is loaded before [Open], and a call that the installed driver lacks fails when it is used, by name. Every
// error is typed; [errors.Is] knows the sentinels of this package ([ErrOutOfMemory] and the other codes, [ErrPoisoned],
// [ErrClosed]).
//
// # Goroutines and threads
//
// The driver keeps its current context per operating-system thread, and goroutines wander between threads. So every
// call here pushes the context, calls, and pops again, without leaving the thread: any goroutine may call anything, and
// whatever context a thread had before is current again afterwards. On amd64 the three are one crossing into C, during which
// a goroutine cannot wander; elsewhere it is locked to its thread meanwhile. Leaving the context current would save the push
// and the pop, but a library that shares the thread, such as the CUDA runtime, would then work on another device than it
// was told. All methods may be called
// concurrently, except those of [Params], which say so if they are.
//
// # Memory
//
// No pointer into a goroutine's stack ever reaches the driver: out-parameters, option words, kernel parameters and
// logs live in memory outside the Go heap, and Go slices are pinned while a copy reads or writes them. Handles are
// integers, so a device pointer or stream made by another library can be passed as it is.
//
// What several devices or processes use together is one of three: all memory of a device whose peers were let in
// ([Context.EnablePeerAccess], one process), memory that was made to be shared ([SharedBuffer], processes too), or host memory
// that every device reaches ([Context.AllocHostMapped]; [Context.MapHostFile] where it is to be several processes').
//
// # Lifetime
//
// Contexts, buffers, streams, events, modules and graphs are closed explicitly. Close may be called twice, waits for
// calls in flight in other goroutines, and every later use gives ErrClosed. What a program forgets to close is warned
// of when the garbage collector finds it, and left allocated: the GPU may still be using it. The primary context is
// released after the last object in it.
package driver
