package boot_test

import (
	"bytes"
	"testing"

	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/sim"
)

func FuzzCommandLine(f *testing.F) {
	v, err := sim.NewVersion("4.0.0")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(v.UKI[:2048])
	f.Add(v.UKI)
	f.Fuzz(func(t *testing.T, b []byte) {
		line, err := boot.CommandLine(fuzzFile{bytes.NewReader(b)})
		if err == nil && len(line) > 8<<10 {
			t.Errorf("a command line of %d bytes", len(line))
		}
	})
}

type fuzzFile struct{ *bytes.Reader }

func (fuzzFile) Close() error { return nil }
