// Package freeport finds ports for servers that tests start later, or start
// again.
//
// A port that the kernel gives ("127.0.0.1:0") is one that it also gives to
// connections: between the moment it is let go and the moment the server listens,
// any connection of any test may hold it, and the server does not start. These
// ports are of no connection (ip_local_port_range, ip(7)).
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports below those that Linux gives to connections unless it is told otherwise
// (32768-60999), and above those of services that machines run.
const first, last = 15000, 29999

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// On is an address of a host where nobody listens, given once in this process.
func On(t testing.TB, host string) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range last - first {
		port := first + rand.IntN(last-first+1)
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if given[port] || !free(addr) {
			continue
		}
		given[port] = true
		return addr
	}
	t.Fatalf("no port of %s is free", host)
	return ""
}

// Local is such an address of loopback.
func Local(t testing.TB) string {
	t.Helper()
	return On(t, "127.0.0.1")
}

// Port is such a port of all addresses of this machine.
func Port(t testing.TB) int {
	t.Helper()
	_, port, _ := net.SplitHostPort(On(t, "0.0.0.0"))
	n, _ := strconv.Atoi(port) // On made both
	return n
}

// free says that nobody listens, neither for streams nor for datagrams.
func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = l.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	_ = u.Close()
	return true
}
