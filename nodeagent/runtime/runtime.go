// Package runtime is what the node agent asks of a container runtime, in the
// agent's own words. It knows containers, the sandbox that the containers of a
// pod share, and their exits; it does not know Kubernetes objects, restart
// policies or back-off.
//
// Implementations: runtime/containerd drives a containerd daemon,
// runtime/fake keeps state in memory for scale and fault tests. Both pass the
// suite of runtime/conformance.
//
// A runtime promises that containers outlive the agent: everything needed to
// find them again (pod, name, attempt, times, exit) is kept by the runtime, and
// List after a restart returns the same IDs.
package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// Runtime runs containers. Methods are safe for concurrent use; calls for the
// same container must not overlap, except for Signal and Exec.
type Runtime interface {
	// EnsureSandbox makes what the containers of a pod share, or finds it made.
	EnsureSandbox(ctx context.Context, s SandboxSpec) error
	// Sandbox says since when the sandbox of a pod is complete, so that
	// containers can be created in it; the zero time means that it is not.
	Sandbox(ctx context.Context, podUID string) (since time.Time, err error)
	// RemoveSandbox undoes EnsureSandbox. All containers must be removed before.
	RemoveSandbox(ctx context.Context, podUID string) error
	// Sandboxes returns the UIDs of the pods that have something of a sandbox.
	Sandboxes(ctx context.Context) ([]string, error)

	// Create makes a container in a sandbox and returns its ID.
	Create(ctx context.Context, s Spec) (string, error)
	// Start runs a created container.
	Start(ctx context.Context, id string) error
	// Signal sends a signal to the first process of a running container; with
	// SIGKILL to all. A container that has ended is no error.
	Signal(ctx context.Context, id string, sig syscall.Signal) error
	// Remove deletes a container and its files, killing it first. A container
	// that does not exist is no error.
	Remove(ctx context.Context, id string) error
	// List returns the containers of a pod, or of all pods for "".
	List(ctx context.Context, podUID string) ([]Container, error)
	// Watch calls fn after every start and exit until ctx ends or the
	// connection to the runtime breaks. It calls onReady once when no later
	// change can be missed.
	Watch(ctx context.Context, onReady func(), fn func(Event)) error

	// Exec runs a command in a running container and returns its exit code. It
	// is killed when ctx ends.
	Exec(ctx context.Context, id string, e ExecSpec) (int, error)
	// Attach joins the output of a running container, from now on, and its
	// input. It returns when the container has ended, when the input given has
	// (unless that closed the container's, see Spec.StdinOnce), or with ctx. The
	// container goes on in any case.
	Attach(ctx context.Context, id string, a AttachSpec) error
	// Dial connects to a TCP port on the loopback interface of a pod's network:
	// IPv4 first, then IPv6.
	Dial(ctx context.Context, podUID string, port uint16) (net.Conn, error)
	// Update changes the limits of a running container while it runs.
	Update(ctx context.Context, id string, r Resources) error
	// Stats measures a running container.
	Stats(ctx context.Context, id string) (Stats, error)
	// Info names the runtime, for the node's status.
	Info(ctx context.Context) (Info, error)
}

// ErrNotFound says that there is no such container.
var ErrNotFound = errors.New("container not found")

// SandboxSpec is what the containers of one pod share.
type SandboxSpec struct {
	PodUID, Namespace, Name string
	Hostname                string
	// NetNS is the path of the network namespace; "" is the host's.
	NetNS            string
	HostIPC, HostPID bool
	// ShareProcesses gives all containers one PID namespace, whose first
	// process is PauseImage.
	ShareProcesses bool
	PauseImage     string
	// CgroupParent is the pod's cgroup: "/kubepods/burstable/pod<uid>".
	CgroupParent string
	Sysctls      map[string]string
	// ShmSize of /dev/shm in bytes; 0 means 64 MiB.
	ShmSize int64
}

// Spec is a container to create. The caller has resolved everything: what is
// left to the runtime is the image's own configuration (entrypoint, user,
// environment, working directory), which fields of the spec override.
type Spec struct {
	PodUID, PodNamespace, PodName string
	Name                          string
	Attempt                       int
	// Hash of the container's definition, Backoff that follows its next crash,
	// and Grace to stop it with when the pod is no longer known: kept with the
	// container and returned by List.
	Hash    string
	Backoff time.Duration
	Grace   time.Duration

	Image          string
	Command, Args  []string
	Env            []string // NAME=value, in order; overrides the image's
	WorkingDir     string
	Mounts         []Mount
	Devices        []string // host paths
	LogPath        string   // "" discards the output
	Stdin, TTY     bool
	StdinOnce      bool   // the end of the first input attached is the end of all
	Terminated     string // path in the container of the termination message
	TerminatedHost string // its file on the host

	Security  Security
	Resources Resources
	// ProcessesOf is the ID of the container whose PID namespace is shared; ""
	// shares none, unless the sandbox does.
	ProcessesOf string
	// CgroupParent is the pod's cgroup; the container's is below it.
	CgroupParent string
}

// Security is who a container runs as and what it may do.
type Security struct {
	User, Group        *int64 // nil: the image's
	SupplementalGroups []int64
	// StrictGroups leaves out the groups that the image's /etc/group gives the user.
	StrictGroups     bool
	RunAsNonRoot     bool
	Privileged       bool
	ReadOnlyRootFS   bool
	NoNewPrivileges  bool
	AddCapabilities  []string // without CAP_; "ALL" is all
	DropCapabilities []string
	Seccomp          string // "", "Unconfined", "RuntimeDefault" or the path of a profile
	MaskedPathsOff   bool   // procMount: Unmasked
}

// Resources are limits of a container. Zero means none.
type Resources struct {
	CPUShares   uint64
	CPUQuota    int64 // microseconds per CPUPeriod
	CPUPeriod   uint64
	Memory      int64 // bytes
	OOMScoreAdj int
	PidsLimit   int64
}

// Propagation of mounts between the host and a container.
type Propagation string

// The ways of mount propagation.
const (
	PropagationPrivate Propagation = "rprivate"
	PropagationSlave   Propagation = "rslave"
	PropagationShared  Propagation = "rshared"
)

// Mount binds a host path into a container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
	RecursiveReadOnly       bool        // also what is mounted below; with ReadOnly
	Propagation             Propagation // "" is private
}

// State of a container.
type State string

// The states of a container.
const (
	Created State = "created"
	Running State = "running"
	Exited  State = "exited"
)

// Reasons of an exit.
const (
	ReasonCompleted = "Completed"
	ReasonError     = "Error"
	ReasonOOMKilled = "OOMKilled"
	// ReasonStartError is a container whose process could not be started.
	ReasonStartError = "StartError"
	// ReasonUnknown is a container whose end nobody saw (the machine restarted).
	ReasonUnknown = "ContainerStatusUnknown"
)

// Container is a container as the runtime sees it.
type Container struct {
	ID                            string
	PodUID, PodNamespace, PodName string
	Name                          string
	Attempt                       int
	Hash                          string
	Backoff                       time.Duration
	Grace                         time.Duration
	Image, ImageID                string
	LogPath                       string
	TerminatedHost                string

	State                            State
	Pid                              int
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int
	Reason, Message                  string
}

// Event says that a container of a pod has started or ended, or that its
// sandbox was lost (ID is empty). The receiver reads the state by List.
type Event struct {
	PodUID, ID string
}

// AttachSpec is what is joined to a running container; nil leaves a stream out.
type AttachSpec struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize delivers terminal sizes (width, height); nil for none.
	Resize <-chan [2]uint16
}

// ExecSpec is a command to run in a container.
type ExecSpec struct {
	Command []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool
	// Resize delivers terminal sizes (width, height); nil for none. When it is
	// closed the terminal is gone, and the command hears of it (SIGHUP).
	Resize <-chan [2]uint16
}

// Stats is a measurement of a container.
type Stats struct {
	Time time.Time
	// CPU time used since the start.
	CPU time.Duration
	// Memory in use, and the part of it that cannot be reclaimed at once.
	Memory, WorkingSet, RSS uint64
	Pids                    uint64
}

// Info names a runtime.
type Info struct {
	Name, Version string
	// Missing are abilities of Kubernetes that this runtime lacks here, in
	// words for the node's conditions.
	Missing []string
}
