// Package sandbox runs functions over what strangers wrote in a process that
// can do nothing else: a child of this very binary, with a user of its own,
// without files, sockets, programs or other processes, and with bounds on its
// memory and its time.
//
//	server                                  child (guest)
//	Call(function, question, limit) ─frame─▶ decode, run, encode
//	                        answer ◀─frame─
//
// It watches nothing and owns its children. It promises that a child is
// confined before it reads the first byte of a question; that one which dies,
// takes too long or answers nonsense costs one call, whose error is a *Death,
// and that the next call has another; that children end with the server; and
// that an answer costs the server no more memory than its bound.
//
// A function is pure: all that it reads is in the question. One with a file
// reads that too, which it gets opened and cannot write, and asks its caller
// about what is elsewhere. It is named by a Func, which a main hands to Serve
// before anything else. Functions of one pool share children, and share none
// with others. What the kernel does not offer is left out: Sandbox says so once
// in the log, in its metrics and in Layers.
package sandbox
