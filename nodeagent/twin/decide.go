package twin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// Silence is how long a machine gives no sign of life until another may have its
// name: the duration of a node's Lease.
const Silence = 40 * time.Second

// Machine is what a machine is known by, whatever its name is. What is not
// known is "".
type Machine struct {
	ID   string // /etc/machine-id
	UUID string // of the board, from its firmware
}

// This is the machine that the program runs on.
func This() Machine {
	return Machine{ID: firstLine("/etc/machine-id"), UUID: board(firstLine("/sys/class/dmi/id/product_uuid"))}
}

// board leaves out a UUID that the firmware was never given.
func board(uuid string) string {
	if strings.Trim(uuid, "0-") == "" || strings.Trim(uuid, "fF-") == "" {
		return ""
	}
	return uuid
}

// Keep is This, by the ID that it had when it was kept in dir first: the system
// gives a machine without a UUID another one at every start, and a container to
// what runs in it. A machine is what has its directory.
func Keep(dir string, write func(path string, data []byte, mode os.FileMode) error) (Machine, error) {
	m, path := This(), filepath.Join(dir, "machine-id")
	if kept := firstLine(path); kept != "" {
		m.ID = kept
		return m, nil
	}
	if m.ID == "" {
		return m, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, fmt.Errorf("keep the machine's ID: %w", err)
	}
	if err := write(path, []byte(m.ID+"\n"), 0o644); err != nil {
		return m, fmt.Errorf("keep the machine's ID: %w", err)
	}
	return m, nil
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// of is the machine that a Node's status names.
func of(n *corev1.Node) Machine {
	return Machine{ID: n.Status.NodeInfo.MachineID, UUID: n.Status.NodeInfo.SystemUUID}
}

// Other says whether two are known to be different. Copies of a disk share the
// ID, and differ in their boards.
func (m Machine) Other(o Machine) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && !strings.EqualFold(a, b) }
	return differ(m.ID, o.ID) || differ(m.UUID, o.UUID)
}

func (m Machine) String() string {
	switch {
	case m.ID == "":
		return "board " + m.UUID
	case m.UUID == "":
		return "machine ID " + m.ID
	}
	return fmt.Sprintf("machine ID %s, board %s", m.ID, m.UUID)
}

// Verdict is whose a name is.
type Verdict string

// Verdicts.
const (
	// Ours: no other machine has it.
	Ours Verdict = "Ours"
	// Unknown: another machine had it, and may give a sign of life yet.
	Unknown Verdict = "Unknown"
	// Taken: another machine has it, and lives.
	Taken Verdict = "Taken"
	// Free: another machine had it, and is silent.
	Free Verdict = "Free"
)

// Seen is what was seen so far. The zero value is nothing.
type Seen struct {
	machine Machine
	beat    string // of the Lease; every sign of life makes another one
	since   time.Duration
	lives   bool
}

// Decide says whose the name of a node is. now is how much time has passed since
// some moment: it is not the time of day, which may be wrong on either machine. A
// machine that was silent for as long as silence has lost its name.
func Decide(s Seen, n *corev1.Node, l *coordinationv1.Lease, me Machine, now, silence time.Duration) (Verdict, Seen) {
	if n == nil || !me.Other(of(n)) {
		return Ours, Seen{}
	}
	beat := "none"
	if l != nil {
		beat = string(l.UID) + " " + l.ResourceVersion
	}
	switch {
	case s.beat == "" || s.machine != of(n):
		s = Seen{machine: of(n), beat: beat, since: now}
	case s.beat != beat:
		s.beat, s.since, s.lives = beat, now, true
	}
	switch {
	case now-s.since >= silence, !s.lives && givenUp(n):
		return Free, s
	case s.lives:
		return Taken, s
	}
	return Unknown, s
}

// givenUp says whether the control plane has not heard of the node for as long.
func givenUp(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}

// TakenError says that another machine is the node.
type TakenError struct {
	Node    string
	Machine Machine // that is it
	Address string
	Me      Machine
}

func taken(n *corev1.Node, me Machine) *TakenError {
	e := &TakenError{Node: n.Name, Machine: of(n), Me: me}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			e.Address = a.Address
			break
		}
	}
	return e
}

func (e *TakenError) Error() string {
	at := ""
	if e.Address != "" {
		at = " at " + e.Address
	}
	return fmt.Sprintf("another machine%s is node %s (%s), so this one (%s) is not: give one of them another name, by nodeName in node.yaml or --node-name", at, e.Node, e.Machine, e.Me)
}
