package update

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// From v4 to v5, to a v6 that never becomes well, back on v5 by the loader
// alone, and to v4 again by order.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := start(w)
		w.await(v1alpha1.UpdateIdle, "4.0.0")

		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		if got := c.entries(); got != "[writ_1.efi writ_2.staged]" {
			t.Errorf("entries %s", got)
		}
		w.reboot("v5")
		w.await(v1alpha1.UpdateTrying, "5.0.0")
		if got := c.entries(); got != "[writ_1.efi writ_3+2-1.efi]" {
			t.Errorf("entries %s", got)
		}
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		if got := c.entries(); got != "[writ_1.efi writ_3.efi]" {
			t.Errorf("entries %s", got)
		}
		w.order("", "")
		w.stays(v1alpha1.UpdateIdle)

		w.broken["v6"] = true
		w.order("v6", "")
		w.await(v1alpha1.UpdateStaged, "5.0.0")
		w.told()
		begin := time.Now()
		w.reboot("v6")
		w.await(v1alpha1.UpdateFailed, "5.0.0")
		w.expect("Rebooting Trying Failed")
		w.failed("v6", "6.0.0 was started 3 times and did not become well, so 5.0.0 runs again: the API server does not answer")
		if took := time.Since(begin); took < 30*time.Minute || took > 33*time.Minute {
			t.Errorf("three tries took %s", took)
		}
		if got := c.entries(); got != "[writ_3.efi writ_5+0-3.efi]" {
			t.Errorf("entries %s", got)
		}
		// As long as it is wanted it is not tried again.
		asked := c.source.requests()
		w.stays(v1alpha1.UpdateFailed)
		if c.source.requests() != asked {
			t.Error("fetched again what has failed")
		}

		w.order("", "")
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		w.order("v4", "")
		w.await(v1alpha1.UpdateStaged, "5.0.0")
		w.reboot("v4")
		w.await(v1alpha1.UpdateIdle, "4.0.0")
		if got := c.entries(); got != "[writ_3.efi writ_7.efi]" {
			t.Errorf("entries %s", got)
		}
		if want := "[writ_1.efi writ_3+2-1.efi writ_5+2-1.efi writ_5+1-2.efi writ_5+0-3.efi writ_3.efi writ_7+2-1.efi]"; fmt.Sprint(c.machine.Boots) != want {
			t.Errorf("boots %v, want %s", c.machine.Boots, want)
		}
		// The other slot still has v5: nothing is fetched.
		asked = c.source.requests()
		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		w.reboot("v5")
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		if c.source.requests() != asked {
			t.Error("fetched what the other slot has")
		}
		if names, _ := filepath.Glob(filepath.Join(c.dir, "*")); fmt.Sprint(names) != "["+filepath.Join(c.dir, recordFile)+"]" {
			t.Errorf("left over: %v", names)
		}
	})
}

// A version that panics is left by the loader, and the reason is as good as it
// can be known.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		c.machine.Panics[c.versions["5.0.0"].RootHash] = true
		run(t, c.life)
		w.await(v1alpha1.UpdateIdle, "4.0.0")
		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		w.reboot("v5")
		w.await(v1alpha1.UpdateFailed, "4.0.0")
		w.failed("v5", "so 4.0.0 runs again: it never came as far as its node agent")
	})
}

// A machine with one version keeps it, well or not.
func TestNothingToFallBackTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		if err := c.machine.ESP.Rename("writ_1.efi", "writ_1+3.efi"); err != nil {
			t.Fatal(err)
		}
		well := false
		c.well = func(string) error {
			if well {
				return nil
			}
			return errors.New("no address")
		}
		run(t, c.life)
		w.await(v1alpha1.UpdateTrying, "4.0.0")
		w.order("v5", "")
		w.stays(v1alpha1.UpdateTrying)
		w.failed("", "4.0.0 is on trial, 2 more to go: no address; there is no other version to go back to")
		if len(c.machine.Boots) != 1 {
			t.Errorf("boots: %v", c.machine.Boots)
		}
		well = true
		w.await(v1alpha1.UpdateStaged, "4.0.0")
	})
}

// An order that is taken back after the switch is taken back.
func TestRebootWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		ctx, cancel := context.WithCancel(t.Context())
		b, err := c.machine.Boot()
		if err != nil {
			t.Fatal(err)
		}
		s := c.machine.Slots(b)
		done := make(chan error, 1)
		cfg := Config{NodeName: "n1", Client: w.api, Cache: w.api.Cache(), Images: w.images, Slots: s, Dir: c.dir, Unsigned: true, Arch: "amd64",
			HTTP: &http.Client{Transport: c.source}, Boot: time.Now(), Healthy: c.fine, Reboot: func(context.Context, string) error { return errors.New("no such unit") }}
		go func() { done <- New(cfg).Run(ctx) }()
		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		w.reboot("v5")
		w.await(v1alpha1.UpdateRebooting, "4.0.0")
		time.Sleep(time.Second)
		w.failed("", "reboot: no such unit; next try after 5s")
		w.reboot("")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		time.Sleep(time.Minute)
		if st, err := s.State(); err != nil || st.Next.RootHash != st.Running {
			t.Errorf("the loader would start %v, %v", st.Next, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A bundle of what runs, in another wrapping, is as good as the one before.
func TestSameSystemAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t)
		c := start(w)
		w.order("v5", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		w.reboot("v5")
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		b, err := c.versions["5.0.0"].Bundle(key)
		if err != nil {
			t.Fatal(err)
		}
		c.offer("v5-signed", "5.0.0", b)
		w.order("v5-signed", "")
		w.await(v1alpha1.UpdateIdle, "5.0.0")
		asked := c.source.requests()
		w.stays(v1alpha1.UpdateIdle)
		w.failed("", "5.0.0 runs")
		if c.source.requests() != asked {
			t.Error("fetched again and again")
		}
	})
}

func TestRefusedBundles(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bundle.ParseKeys("keys", append([]byte("release@example.org "), ssh.MarshalAuthorizedKey(key.PublicKey())...))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*computer)
		want   string
	}{
		"tampered": {func(c *computer) {
			c.source.files["/v5"] = append([]byte{1}, c.source.files["/v5"][1:]...)
		}, "the bundle of 5.0.0 from images.example.org is refused: its digest is sha256:"},
		"longer": {func(c *computer) { c.source.files["/v5"] = append(c.source.files["/v5"], 0) }, "5.0.0 is longer than the"},
		"older":  {func(c *computer) { c.offer("v5", "5.0.0", c.source.files["/v4"]) }, "the bundle is refused: it has version 4.0.0, and 5.0.0 is declared"},
		"replayed": {func(c *computer) { // what was signed for 4.0.0 is sent as 5.0.0
			c.keys = keys
			b, err := c.versions["4.0.0"].Bundle(key)
			if err != nil {
				c.w.t.Fatal(err)
			}
			c.offer("v5", "5.0.0", b)
		}, "the bundle is refused: it has version 4.0.0, and 5.0.0 is declared"},
		"half, and declared so": {func(c *computer) {
			b := c.source.files["/v5"]
			c.offer("v5", "5.0.0", b[:len(b)/2])
		}, "the bundle is refused: "},
		"unsigned":  {func(c *computer) { c.keys = keys }, "the bundle is refused: it is not signed"},
		"no bundle": {func(c *computer) { c.offer("v5", "5.0.0", []byte("hello")) }, "the bundle is refused: it is cut off"},
		"machine": {func(c *computer) {
			i := c.w.images["v5"]
			i.Arch = "arm64"
			c.w.images["v5"] = i
		}, "5.0.0 is for arm64, and this machine is amd64"},
		"digest": {func(c *computer) {
			i := c.w.images["v5"]
			i.Digest = "../../etc/passwd"
			c.w.images["v5"] = i
		}, `the digest "../../etc/passwd" of v5 is not sha256: and 64 hexadecimal digits`},
		"disk": {func(c *computer) { c.machine.Disk.Fail(errors.New("input/output error")) }, "input/output error"},
		"too large": {func(c *computer) {
			v := *c.versions["5.0.0"]
			v.Root = append(bytes.Clone(v.Root), make([]byte, 64<<10)...)
			b, err := v.Bundle(nil)
			if err != nil {
				c.w.t.Fatal(err)
			}
			c.offer("v5", "5.0.0", b)
		}, "slot B: root.erofs of 5.0.0 has 102400 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newComputer(w)
				tt.change(c)
				run(t, c.life)
				w.await(v1alpha1.UpdateIdle, "4.0.0")
				w.order("v5", "")
				w.await(v1alpha1.UpdateFailed, "4.0.0")
				w.failed("v5", tt.want)
				w.stays(v1alpha1.UpdateFailed)
				if got := w.node()[v1alpha1.UpdateMessageAnnotation]; strings.Contains(got, "\n") || strings.Contains(got, "secret") {
					t.Errorf("message %q", got)
				}
				// It has done no harm.
				c.machine.Disk.Fail(nil)
				w.order("", "")
				w.await(v1alpha1.UpdateIdle, "4.0.0")
				c.keys = nil
				w.order("v6", "")
				if name != "unsigned" && name != "replayed" { // v6 is not signed either
					w.await(v1alpha1.UpdateStaged, "4.0.0")
				}
			})
		})
	}
}

// What may pass is tried again, with more and more patience.
func TestSourceIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := start(w)
		c.source.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
		w.order("v5", "")
		w.await(v1alpha1.UpdateDownloading, "4.0.0")
		time.Sleep(time.Second)
		w.failed("", "fetch 5.0.0 from images.example.org: it answered 503 Service Unavailable; next try after 5s")
		time.Sleep(time.Hour)
		if n := c.source.requests(); n < 15 || n > 25 {
			t.Errorf("asked %d times in an hour", n)
		}
		w.stays(v1alpha1.UpdateDownloading)
		c.source.serve(nil)
		w.await(v1alpha1.UpdateStaged, "4.0.0")
	})
}

// A download that stands still is begun anew, and one that is not wanted any
// more ends.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		var open atomic.Int32
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/v5" {
				return c.source.RoundTrip(r)
			}
			open.Add(1)
			in, out := io.Pipe()
			context.AfterFunc(r.Context(), func() {
				open.Add(-1)
				out.CloseWithError(r.Context().Err())
			})
			return &http.Response{StatusCode: http.StatusOK, Body: in, ContentLength: c.w.images["v5"].Size, Request: r}, nil
		})
		b, err := c.machine.Boot()
		if err != nil {
			t.Fatal(err)
		}
		run(t, New(Config{NodeName: "n1", Client: w.api, Cache: w.api.Cache(), Images: w.images, Slots: c.machine.Slots(b), Dir: c.dir, Unsigned: true, Arch: "amd64",
			HTTP: &http.Client{Transport: transport}, Boot: time.Now(), Healthy: c.fine, Reboot: func(context.Context, string) error { return nil }}).Run)
		w.order("v5", "")
		w.await(v1alpha1.UpdateDownloading, "4.0.0")
		time.Sleep(stall + 2*time.Second)
		w.failed("", "fetch 5.0.0 from images.example.org: it sent nothing for 1m0s; next try after 5s")
		time.Sleep(10 * time.Second)
		if open.Load() != 1 {
			t.Errorf("%d downloads are open", open.Load())
		}
		w.order("v6", "")
		w.await(v1alpha1.UpdateStaged, "4.0.0")
		if open.Load() != 0 {
			t.Errorf("%d downloads are open", open.Load())
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The power fails at many moments of a whole update: what was ordered comes all
// the same.
func TestPowerFailure(t *testing.T) {
	for cut := 0; cut < 45; cut += 4 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := newComputer(w)
			c.machine.Power.CutAfter(cut)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				err := c.life(ctx)
				if errors.Is(err, sim.ErrPower) {
					err = nil // in the loader
				}
				done <- err
			}()
			w.order("v5", "")
			for range 60 {
				time.Sleep(time.Second)
				if w.node()[v1alpha1.UpdatePhaseAnnotation] == string(v1alpha1.UpdateStaged) {
					w.reboot("v5")
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			c.machine.PowerOn(uint64(cut), 0.5)
			run(t, c.life)
			for range 600 {
				time.Sleep(time.Second)
				n := w.node()
				switch phase := n[v1alpha1.UpdatePhaseAnnotation]; {
				case phase == string(v1alpha1.UpdateFailed):
					// A controller that orders again.
					w.order("", "")
					time.Sleep(time.Second)
					w.order("v5", "")
				case phase == string(v1alpha1.UpdateStaged):
					w.reboot("v5")
				case phase == string(v1alpha1.UpdateIdle) && n[v1alpha1.ImageAnnotation] == "5.0.0":
					return
				}
			}
			t.Errorf("cut %d: %v, boots %v", cut, w.node(), c.machine.Boots)
		})
	}
}

func TestReadBooted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		b := []byte{6, 0, 0, 0}
		for _, r := range text + "\x00" {
			b = append(b, byte(r), 0)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+loaderVendor), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := ReadBooted(dir, "x"); got != (slot.Booted{CommandLine: "x"}) {
		t.Errorf("%+v", got)
	}
	write("LoaderBootCountPath", `\EFI\Linux\writ_5+2-1.efi`)
	write("LoaderEntrySelected", "writ_5+3.efi")
	if got := ReadBooted(dir, "x"); got != (slot.Booted{CommandLine: "x", CountPath: `\EFI\Linux\writ_5+2-1.efi`, Selected: "writ_5+3.efi"}) {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "LoaderEntrySelected-"+loaderVendor), []byte{1, 2}, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := variable(dir, "LoaderEntrySelected"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if r, err := readRecord(dir); err != nil || r.Tried != nil {
		t.Errorf("%+v, %v", r, err)
	}
	want := Record{Known: map[string]string{"a": "b"}, Tried: &Try{Image: "v5", Reason: "x"}, Failed: &Failure{Image: "v6"}}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := readRecord(dir); err != nil || fmt.Sprint(got.Known, *got.Tried, *got.Failed) != fmt.Sprint(want.Known, *want.Tried, *want.Failed) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{", `{"tried": 3}`, strings.Repeat(" ", maxRecord+1)} {
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(dir); err != nil || r.Tried != nil {
			t.Errorf("%.20q: %+v, %v", text, r, err)
		}
	}
}

// Without keys and without leave to do without nothing is fetched, written or
// rebooted into, and the node says why.
func TestUnsignedImagesNeedLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		c.strict = true
		run(t, c.life)
		w.await(v1alpha1.UpdateIdle, "4.0.0")
		before := c.entries()
		w.order("v5", "")
		time.Sleep(time.Hour) // of synctest
		synctest.Wait()
		if got := w.node()[v1alpha1.UpdateMessageAnnotation]; !strings.Contains(got, "names nobody who may sign one: add imageKeys, or unsignedImages: true") {
			t.Errorf("message %q", got)
		}
		if n := c.source.requests(); n != 0 {
			t.Errorf("%d requests", n)
		}
		if got := c.entries(); got != before {
			t.Errorf("the loader has %s, and had %s", got, before)
		}
	})
}
