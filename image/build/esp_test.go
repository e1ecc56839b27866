package build

import (
	"strings"
	"testing"

	"github.com/writ-os/writ/image/uki"
)

// Keys are on the disk only where they are to be enrolled, and nobody enrols
// them by force who was not told to.
func TestEnrolmentOnDisk(t *testing.T) {
	keys := &uki.Enrolment{PK: []byte("p"), KEK: []byte("k"), DB: []byte("d")}
	for _, c := range []struct {
		name string
		by   *SecureBoot
		mode string // of the loader; "" where there is nothing to enrol
	}{
		{"not signed", nil, ""},
		{"signed", &SecureBoot{}, ""},
		{"with keys", &SecureBoot{Enrol: keys}, "secure-boot-enroll if-safe\n"},
		{"with keys, by force", &SecureBoot{Enrol: keys, EnrolForce: true}, "secure-boot-enroll force\n"},
	} {
		j := &job{cfg: Config{SecureBoot: c.by}}
		found := map[string]string{}
		for _, f := range j.espFiles() {
			found[f.Path] = string(f.Data)
		}
		conf := found["loader/loader.conf"]
		if !strings.HasSuffix(conf, c.mode) || strings.Contains(conf, "secure-boot") != (c.mode != "") {
			t.Errorf("%s: the loader is told %q", c.name, conf)
		}
		for path, want := range map[string]string{"PK": "p", "KEK": "k", "db": "d"} {
			if c.mode == "" {
				want = ""
			}
			if got := found["loader/keys/auto/"+path+".auth"]; got != want {
				t.Errorf("%s: %s is %q", c.name, path, got)
			}
		}
	}
}
