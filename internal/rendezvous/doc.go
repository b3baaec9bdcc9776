// Package rendezvous lets the processes of one host that make up a group find each other: each brings a few bytes and file
// descriptors (exported device memory), all get what all brought, and while the group is open each learns at once when
// another dies.
//
//	g, err := rendezvous.Join(ctx, rendezvous.Config{Group: "head-0", Rank: rank, World: 4, Blob: blob, Files: files})
//	for rank, m := range g.Members() { ... m.Blob, m.Files ... }
//	err = g.Barrier(ctx)
//	defer g.Close()
//
// Rank 0 listens on a Unix socket, the others dial it and keep their connection: what one says reaches the others through
// rank 0. Only set-up goes this way. Nothing here is quick, and no step of a decode loop should wait for it.
//
// # Who may come
//
// Processes of one user: each side asks the kernel for the other's user id (SO_PEERCRED). Group name, world size and protocol
// version are compared before anything else is believed. Messages are bounded (64 KiB and 16 files of each rank), and one that
// is not to be understood ends the connection that it came by with a [*ProtocolError].
//
// # How it ends
//
// A group is open until the first of its ranks closes it or dies. Then every operation of every rank fails, also those in
// flight: with a [*LostError] that names the rank that died, a [*LeftError] that names the one that closed, or [ErrClosed] for
// the rank that closed itself. [Group.Done] tells those who wait for something else. Operations that ctx ends do not leave a
// group half informed: they end it, with a [*MissingError] that names the ranks that had not come.
package rendezvous
