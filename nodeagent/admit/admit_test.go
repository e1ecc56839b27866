package admit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var full = Node{Handlers: []string{"runc"}, RecursiveReadOnly: true}

func pod(change func(*corev1.Pod)) Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers:  []corev1.Container{{Name: "i", SecurityContext: &corev1.SecurityContext{}}},
		Containers:      []corev1.Container{{Name: "c", SecurityContext: &corev1.SecurityContext{}}},
		SecurityContext: &corev1.PodSecurityContext{},
		Volumes:         []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	change(p)
	return Pod{Pod: p, Handler: "kata"}
}

func sysctl(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: n, Value: "1"})
		}
	}
}

func volume(s corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Volumes[0].VolumeSource = s }
}

func TestAdmit(t *testing.T) {
	field := func(path, why string) string { return "UnsupportedField: Pod was rejected: " + path + ": " + why }
	const armor = "AppArmor: Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host"
	bidding := full
	bidding.UnsafeSysctls, bidding.Claims = []string{"net.core.*", "kernel.msgmax", "vm.swappiness"}, true
	old := full
	old.RecursiveReadOnly = false
	unmasked, enabled, ifPossible := corev1.UnmaskedProcMount, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible
	for _, tt := range []struct {
		name string
		node Node
		pod  func(*corev1.Pod)
		want string
	}{
		{"nothing special", full, func(*corev1.Pod) {}, ""},
		{"Windows", full, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, "PodOSNotSupported: Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"},
		{"Linux", full, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, ""},
		{"user namespace", full, func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }, field("spec.hostUsers", "false: this node has no user namespaces for pods, root in the pod would be root on the node")},
		{"host users", full, func(p *corev1.Pod) { p.Spec.HostUsers = new(true) }, ""},
		{"runtime class", full, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("safe") }, field("spec.runtimeClassName", `safe: its handler "kata" is not on this node, which has runc`)},
		{"runtime class that is there", Node{Handlers: []string{"runc", "kata"}}, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("safe") }, ""},
		{"dynamic resources", full, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, field("spec.resourceClaims", "this node has no drivers for dynamic resources")},
		{"safe sysctls", full, sysctl(safe...), ""},
		{"safe with slashes", full, sysctl("net/ipv4/tcp_rmem"), ""},
		{"unsafe sysctl", full, sysctl("net.core.somaxconn"), `SysctlForbidden: Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		{"unsafe, allowed", bidding, sysctl("net.core.somaxconn", "kernel.msgmax"), ""},
		{"of the whole node, allowed all the same", bidding, sysctl("vm.swappiness"), `SysctlForbidden: Pod was rejected: forbidden sysctl: "vm.swappiness" not allowlisted`},
		{"sysctl of the host's network", full, func(p *corev1.Pod) { p.Spec.HostNetwork = true; sysctl("net.ipv4.tcp_syncookies")(p) },
			`SysctlForbidden: Pod was rejected: forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host net enabled`},
		{"sysctl of the host's IPC", full, func(p *corev1.Pod) { p.Spec.HostIPC = true; sysctl("kernel.shm_rmid_forced")(p) },
			`SysctlForbidden: Pod was rejected: forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host ipc enabled`},
		{"SELinux of the pod", full, func(p *corev1.Pod) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_t"}
		},
			field("spec.securityContext.seLinuxOptions.type", "SELinux is not enabled on this node")},
		{"SELinux that confines nothing", full, func(p *corev1.Pod) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t", Level: "s0:c0,c1"}
		}, ""},
		{"SELinux of a container", full, func(p *corev1.Pod) {
			p.Spec.InitContainers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_t"}
		},
			field("spec.containers[].securityContext.seLinuxOptions.type", "container i: SELinux is not enabled on this node")},
		{"AppArmor of the pod", full, func(p *corev1.Pod) {
			p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
		}, armor},
		{"AppArmor of the pod that no container has", full, func(p *corev1.Pod) {
			off := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
			p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}
			p.Spec.InitContainers[0].SecurityContext.AppArmorProfile, p.Spec.Containers[0].SecurityContext.AppArmorProfile = off, off
		}, ""},
		{"AppArmor of a container", full, func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}
		}, armor},
		{"AppArmor of before", full, func(p *corev1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}
		}, armor},
		{"AppArmor unconfined", full, func(p *corev1.Pod) {
			p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
		}, ""},
		{"procMount", full, func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.ProcMount = &unmasked },
			field("spec.containers[].securityContext.procMount", "container c: Unmasked: it needs a user namespace, and this node has none for pods")},
		{"recursive read-only", full, func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{RecursiveReadOnly: &enabled}}
		}, ""},
		{"recursive read-only, old kernel", old, func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{RecursiveReadOnly: &enabled}}
		},
			field("spec.containers[].volumeMounts[].recursiveReadOnly", "container c: Enabled: this node's kernel cannot (Linux 5.12)")},
		{"recursive read-only if possible", old, func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{RecursiveReadOnly: &ifPossible}}
		}, ""},
		{"block device", full, func(p *corev1.Pod) { p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} },
			field("spec.containers[].volumeDevices", "container c: this node gives no block devices to containers")},
		{"restart of all containers", full, func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: "RestartAllContainers"}}
		}, field("spec.containers[].restartPolicyRules[].action", "container c: this node restarts single containers alone (Restart)")},
		{"NFS", full, volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), field("spec.volumes[]", "volume v: this node cannot mount volumes of kind nfs")},
		{"CSI", full, volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), field("spec.volumes[]", "volume v: this node cannot mount volumes of kind csi")},
		{"image", full, volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}), field("spec.volumes[]", "volume v: this node cannot mount volumes of kind image")},
		{"claim", full, volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), field("spec.volumes[]", "volume v: this node cannot mount volumes of kind persistentVolumeClaim")},
		{"claim where there are some", bidding, volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), ""},
		{"huge pages", full, volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}), field("spec.volumes[].emptyDir.medium", "volume v: this node has no medium HugePages-2Mi")},
		{"trust bundle", full, volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}),
			field("spec.volumes[].projected.sources[]", "volume v: this node cannot project clusterTrustBundle")},
		{"token", full, volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}), ""},
	} {
		got := ""
		if r := Admit(tt.node, pod(tt.pod)); r != nil {
			got = r.Reason + ": " + r.Message
		}
		if got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// Every row of the table is of a path of its own, so that it can be compared
// with others.
func TestFieldsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Fields {
		if seen[f.Path] || f.Path == "" || f.Reason == "" {
			t.Errorf("row %q %q", f.Path, f.Reason)
		}
		seen[f.Path] = true
	}
}
