// Package nccl gathers bytes of several GPUs by NVIDIA's NCCL, found at run time: for devices that do not reach each other's
// memory, on one host or on many.
//
//	l, err := nccl.Open()                       // once
//	id, err := l.UniqueID()                     // rank 0, which tells the others
//	comm, err := l.Init(ctx, nccl.Config{World: 4, Rank: rank, ID: id})
//	err = comm.AllGather(send, recv, n, stream) // n bytes of each rank, in the order of ranks
//	defer comm.Close(ctx)
//
// The library is dynlib's to find; where there is none, [Open] says so in a [*LoadError] and nothing else is missed. Every call
// but Open, Path, Version and UniqueID must be made with the CUDA context current: inside driver.Context.Do. NCCL takes one
// rank a device: several ranks of one communicator on one GPU may hang.
//
// # Waiting
//
// A communicator does not block unless Config.Blocking says so: its calls return at once, and what takes long is waited for here,
// where ctx or [Comm.Abort] can end it. That matters when a rank never comes, or dies: NCCL itself waits for ever. Blocking
// communicators do the waiting inside NCCL, which nothing can end; they save a thread's start on each gather.
//
// After an error a communicator is of no more use: Abort it. Errors of work on the device come late, by [Comm.AsyncError].
package nccl
