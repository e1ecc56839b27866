package nodeagent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/schema"
)

// What pods may ask for, on a real container runtime: each becomes ready,
// prints what it should, and goes without a trace (newRealNode checks that).
func TestPodFeatures(t *testing.T) {
	n := newRealNode(t)
	n.api.Put(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sec"},
		Data: map[string][]byte{"key": []byte("s3cret\n"), "dir": []byte("x")},
	})
	printing := func(args ...string) corev1.Container {
		return corev1.Container{Name: "c", Image: image.DemoV1, Command: append([]string{"/writ"}, args...)}
	}
	tests := []struct {
		name string
		pod  func(*corev1.PodSpec)
		log  string // of container c
		done bool   // it ends by itself
	}{
		{"restricted", func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{
				RunAsUser: new(int64(1000)), RunAsGroup: new(int64(2000)), FSGroup: new(int64(3000)), RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}
			s.Hostname = "box"
			c := printing("id")
			c.SecurityContext = &corev1.SecurityContext{
				ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
			s.Containers = []corev1.Container{c}
		}, "1000 2000 [2000 3000]", true},
		{"volumes", func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(3000))}
			s.Volumes = []corev1.Volume{
				{Name: "sec", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "sec", DefaultMode: new(int32(0o400))}}},
				{Name: "mem", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}
			w := printing("write", "/mem/sub/file", "written\n")
			w.Name = "init"
			w.VolumeMounts = []corev1.VolumeMount{{Name: "mem", MountPath: "/mem/sub", SubPath: "a/b"}, {Name: "tmp", MountPath: "/tmp"}}
			s.InitContainers = []corev1.Container{w}
			c := printing("cat", "/sec/key", "/one-key", "/mem/a/b/file", "/etc/hostname")
			c.VolumeMounts = []corev1.VolumeMount{
				{Name: "sec", MountPath: "/sec"}, {Name: "sec", MountPath: "/one-key", SubPath: "key"}, {Name: "mem", MountPath: "/mem"},
			}
			s.Containers = []corev1.Container{c}
		}, "s3cret\ns3cret\nwritten\nvolumes\n", true},
		{"limits", func(s *corev1.PodSpec) {
			file := "/sys/fs/cgroup/memory/memory.limit_in_bytes"
			if n.cgroups.Mode() == cgroup.V2 {
				file = "/sys/fs/cgroup/memory.max"
			}
			c := printing("cat", file)
			c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("64Mi"), "cpu": resource.MustParse("500m")}
			s.Containers = []corev1.Container{c}
		}, "67108864\n", true},
		{"privileged", func(s *corev1.PodSpec) {
			s.HostPID = true
			c := printing("print", "1")
			c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			s.Containers = []corev1.Container{c}
		}, "line 0\n", false},
		{"shared-processes", func(s *corev1.PodSpec) {
			s.ShareProcessNamespace = new(true)
			c, d := printing("print", "1"), printing("print", "1")
			d.Name = "d"
			s.Containers = []corev1.Container{c, d}
		}, "line 0\n", false},
		{"terminal", func(s *corev1.PodSpec) {
			c := printing("print", "1")
			c.TTY = true
			s.Containers = []corev1.Container{c}
		}, "line 0", false},
		{"hooks-and-exec-probe", func(s *corev1.PodSpec) {
			c := printing("print", "1")
			c.Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/writ", "write", "/tmp/up", "x"}}},
				PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/writ", "cat", "/tmp/up"}}},
			}
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/writ", "cat", "/tmp/up"}}}, PeriodSeconds: 1, TimeoutSeconds: 5}
			s.Containers = []corev1.Container{c}
		}, "line 0\n", false},
		{"last-words", func(s *corev1.PodSpec) {
			c := printing("exit", "0")
			c.Command = []string{"/writ", "write", "/dev/termination-log", "bye"}
			s.Containers = []corev1.Container{c}
		}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := *n
			n.t = t
			n.create(testPod(tt.name, func(p *corev1.Pod) {
				p.Spec.RestartPolicy = corev1.RestartPolicyNever
				p.Spec.TerminationGracePeriodSeconds = new(int64(2))
				tt.pod(&p.Spec)
			}))
			var p *corev1.Pod
			if tt.done {
				p = n.await(tt.name, "done", func(p *corev1.Pod) bool {
					return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
				})
				if p.Status.Phase != corev1.PodSucceeded {
					t.Errorf("failed: %+v", p.Status.ContainerStatuses)
				}
			} else {
				p = n.await(tt.name, "ready", runningReady)
			}
			if tt.name == "last-words" && p.Status.ContainerStatuses[0].State.Terminated.Message != "bye" {
				t.Errorf("message: %+v", p.Status.ContainerStatuses[0].State.Terminated)
			}
			eventually(t, "log "+tt.log, func() bool { return strings.Contains(plain(n.logs(p, "c", 0)), tt.log) || t.Failed() })
			if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			n.gone(tt.name)
		})
	}
}

// plain takes time and stream off the lines of a log.
func plain(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			b.WriteString(f[3])
		}
	}
	return b.String()
}
