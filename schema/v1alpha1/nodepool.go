package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool says which operating system some nodes run, how it is set up, and
// how carefully they are brought there: staged ahead, then one after the other
// cordoned, drained, rebooted, and watched until they are well.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodePoolSpec   `json:"spec"`
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolSpec is what Git says of the nodes.
type NodePoolSpec struct {
	// Selector chooses nodes by their labels; an empty one chooses all. A node
	// belongs to one pool: of those that choose it the one with the highest
	// priority, of several the first by name.
	Selector metav1.LabelSelector `json:"selector"`
	// Priority decides between pools that choose the same node.
	Priority int32 `json:"priority,omitempty"`
	// Image is the name of the NodeImage that the nodes run. Empty: their
	// operating system is left alone.
	Image string `json:"image,omitempty"`
	// Update is how carefully nodes are brought to the image.
	Update NodePoolUpdate `json:"update,omitempty"`
	// RebootWindow is when nodes may be drained and rebooted. Absent: always.
	RebootWindow *RebootWindow `json:"rebootWindow,omitempty"`
	// KernelArguments are added to those of the image. A change reboots the nodes
	// as a change of the image does.
	KernelArguments []string `json:"kernelArguments,omitempty"`
	// Sysctls are kernel parameters by name: net.core.somaxconn, or
	// net/ipv4/conf/eth0.100/rp_filter where a part has dots. The agents set them
	// without a reboot, set them again when something else has changed them, and
	// give them back the value that they had when the pool says nothing of them any
	// more. What a node itself sets (net.ipv4.ip_forward) is refused. What could
	// not be set is in the node's condition SettingsApplied.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// TimeServers are names or addresses of NTP servers, asked beside those that
	// DHCP names, instead of those of node.yaml. None: those of node.yaml, or of the
	// image. The machine must keep its time by systemd-timesyncd, as the node image
	// does.
	TimeServers []string `json:"timeServers,omitempty"`
	// Registries say how nodes reach registries of container images. They are for
	// the next pull.
	Registries []NodeRegistry `json:"registries,omitempty"`
	// Disks are data disks that every node of the pool has: whole ones, beside that
	// of its system. One that is blank gets a file system; one that holds anything
	// else is never touched. When the pool says nothing of a disk any more it is
	// unmounted, and keeps what it holds.
	Disks []NodeDisk `json:"disks,omitempty"`
}

// NodePoolUpdate is how carefully nodes are brought to an image.
type NodePoolUpdate struct {
	// MaxUnavailable is how many nodes of the pool may be away at a time, those
	// that are not ready for another reason among them: a number from 1, or a
	// part of the pool ("10%", rounded down, at least one). Control-plane nodes
	// go one at a time in the whole cluster whatever it says. Default 1.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DrainTimeout is how long the pods of a node may take to leave. After it no
	// other node begins, the pool is Degraded and says what holds the drain up;
	// the drain goes on when that has gone. Default 10m.
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// Settle is how long an updated node must be ready before the next one
	// begins. Default 30s.
	Settle *metav1.Duration `json:"settle,omitempty"`
	// Paused lets no further node begin. The one in work is brought to its end.
	Paused bool `json:"paused,omitempty"`
}

// RebootWindow is a time that comes again every week, or every day.
type RebootWindow struct {
	// Days on which the window opens: Mon, Tue, Wed, Thu, Fri, Sat, Sun. None:
	// every day.
	Days []string `json:"days,omitempty"`
	// Start is when it opens by the clock of the time zone: "02:00". Where the
	// clock jumps over it, the window opens at the jump; where the clock shows it
	// twice, the first time.
	Start string `json:"start"`
	// Duration is how long it stays open, past midnight too. At most a week.
	Duration metav1.Duration `json:"duration"`
	// Timezone is a name of the IANA time zone database: Europe/Berlin. Default
	// UTC.
	Timezone string `json:"timezone,omitempty"`
}

// NodeRegistry is how nodes reach one host: a registry of container images, or a
// mirror of one.
type NodeRegistry struct {
	// Host is the registry as images name it (docker.io, registry.example.com:5000),
	// or the host and port in the URL of a mirror. It is there once.
	Host string `json:"host"`
	// Mirrors are URLs that are asked before the registry itself, in this order:
	// https://mirror.example.com, or https://mirror.example.com/v2/project where its
	// API has a path. They are shown what is declared for their own host, and no pull
	// secret; they are trusted as the registry is: what a tag means is what the first
	// one says that has it.
	Mirrors []string `json:"mirrors,omitempty"`
	// CA are certificates in PEM of the authorities that the host's certificate may
	// be from, beside those of the machine.
	CA string `json:"ca,omitempty"`
	// Secret is namespace/name of a Secret with what the nodes show the host:
	// .dockerconfigjson, or username and password; and for a client certificate
	// tls.crt and tls.key. Every node of the pool may read it, and no other by this;
	// so the pool must choose its nodes by labels that they cannot give themselves.
	Secret string `json:"secret,omitempty"`
}

// NodeDisk is one data disk of each node.
type NodeDisk struct {
	// Name is where it is mounted: /var/mnt/<name>. At most 11 characters: the file
	// system is labelled writ-<name>.
	Name string `json:"name"`
	// Match chooses the disk: all that is said must hold, and of the disks that are
	// not in use for exactly one.
	Match NodeDiskMatch `json:"match"`
	// Filesystem that a blank disk gets: ext4.
	Filesystem string `json:"filesystem,omitempty"`
}

// NodeDiskMatch is what a disk must be like. Words may have * and ?, of any
// characters and of one.
type NodeDiskMatch struct {
	// Size is one or two bounds: ">= 10Gi", "> 100G, <= 2Ti".
	Size string `json:"size,omitempty"`
	// Model as the disk names itself.
	Model string `json:"model,omitempty"`
	// Serial is its serial number.
	Serial string `json:"serial,omitempty"`
	// WWID is its name in the world: naa.5000c500a1b2c3d4, eui.0025385971b11111.
	WWID string `json:"wwid,omitempty"`
	// Path is any of its names: /dev/vdb, /dev/disk/by-path/pci-0000:00:05.0.
	Path string `json:"path,omitempty"`
	// Rotational: whether it turns.
	Rotational *bool `json:"rotational,omitempty"`
}

// The conditions of a NodePool.
const (
	// NodePoolReady: every node runs what the pool says, and is ready.
	NodePoolReady = "Ready"
	// NodePoolProgressing: there are nodes to be updated, and nothing has
	// stopped the pool.
	NodePoolProgressing = "Progressing"
	// NodePoolDegraded: the pool has stopped and needs somebody. Its message says
	// what to do.
	NodePoolDegraded = "Degraded"
	// NodePoolStalled: it has stopped, and no time mends that: the commit fails at
	// once (the word of kstatus).
	NodePoolStalled = "Stalled"
)

// NodeSettingsApplied is the condition of a Node by which it says whether the
// settings of its pool are in force; False says in its message which are not, and
// why. A node whose pool never said anything of them has none.
const NodeSettingsApplied corev1.NodeConditionType = "SettingsApplied"

// NodePoolStatus is how far the nodes have come.
type NodePoolStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Image is the NodeImage that the rest speaks of.
	Image string `json:"image,omitempty"`
	// Nodes is how many belong to the pool.
	Nodes int32 `json:"nodes"`
	// Foreign is how many of them were not made from an image of ours, and are
	// left alone.
	Foreign int32 `json:"foreign,omitempty"`
	// Updated is how many run what the pool says, those in Foreign not among
	// them.
	Updated int32 `json:"updated"`
	// Ready is how many are ready.
	Ready int32 `json:"ready"`
	// Unavailable is how many are not ready, or are being drained or rebooted.
	Unavailable int32 `json:"unavailable,omitempty"`
	// Current are the nodes in work, at most 20.
	Current []NodePoolNode `json:"current,omitempty"`
	// Message says in a sentence how the pool is.
	Message string `json:"message,omitempty"`
	// Conditions: Ready, Progressing and Degraded.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodePoolNode is a node in work.
type NodePoolNode struct {
	Node string `json:"node"`
	// Step is Draining, Rebooting, Settling or Unsettled (it came back and is not
	// ready).
	Step string `json:"step"`
	// Since is when the step began.
	Since metav1.Time `json:"since"`
	// Message says what is waited for.
	Message string `json:"message,omitempty"`
}

// NodePoolList is a list of NodePool.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}
