package containerd

import (
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Under Strict the groups of the image's /etc/group are not those of its user.
func TestStrictGroups(t *testing.T) {
	u := parseUsers([]byte("app:x:1000:1000::/:/bin/sh\n"), []byte("docker:x:998:app\n"))
	for _, c := range []struct {
		strict bool
		want   []uint32
	}{{false, []uint32{1000, 998, 7}}, {true, []uint32{1000, 7}}} {
		got, err := u.resolve(runtime.Security{User: new(int64(1000)), SupplementalGroups: []int64{7}, StrictGroups: c.strict}, "")
		if err != nil || !slices.Equal(got.AdditionalGids, c.want) {
			t.Errorf("strict=%v: %v %v, want %v", c.strict, got.AdditionalGids, err, c.want)
		}
	}
}

// A mount that is read-only with all below it is so for the runtime.
func TestRecursiveReadOnlyMount(t *testing.T) {
	s := &oci.Spec{Linux: &specs.Linux{}}
	mounts(s, runtime.Spec{Mounts: []runtime.Mount{
		{HostPath: "/a", ContainerPath: "/a", ReadOnly: true},
		{HostPath: "/b", ContainerPath: "/b", ReadOnly: true, RecursiveReadOnly: true},
		{HostPath: "/c", ContainerPath: "/c", RecursiveReadOnly: true},
	}}, host{})
	for _, m := range s.Mounts {
		want := map[string]string{"/a": "ro", "/b": "rro", "/c": "rw"}[m.Destination]
		if want != "" && !slices.Contains(m.Options, want) {
			t.Errorf("%s: %v", m.Destination, m.Options)
		}
	}
}
