package image

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A private image on the node serves those whose credentials a registry took.
func TestPulls(t *testing.T) {
	dir := t.TempDir()
	private, public := Image{ID: "r/private@sha256:1"}, Image{ID: "r/public@sha256:2"}
	alice, bob := Credentials{"alice", "a"}, Credentials{"bob", "b"}
	may := func(p *Pulls, ref string, img Image, creds ...Credentials) bool {
		t.Helper()
		ok, err := p.MayUse(ref, img, func() ([]Credentials, error) { return creds, nil })
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	p := NewPulls(dir)
	if !may(p, "r/private:v1", private) {
		t.Error("what was not pulled here is not everybody's")
	}
	if err := p.Begin("r/private:v1"); err != nil {
		t.Fatal(err)
	}
	if may(p, "r/private:v1", private, alice) {
		t.Error("a pull of which nobody knows how it ended lets somebody in")
	}
	done := func(ref string, img Image, with Credentials) {
		t.Helper()
		img.With = with
		if err := p.Done(ref, img); err != nil {
			t.Fatal(err)
		}
	}
	done("r/private:v1", private, alice)
	done("r/public:v1", public, Credentials{})
	done("r/public:v1", public, alice)
	p = NewPulls(dir) // the next agent
	for _, c := range []struct {
		img   Image
		creds []Credentials
		want  bool
	}{
		{private, nil, false}, {private, []Credentials{bob}, false}, {private, []Credentials{bob, alice}, true}, {private, []Credentials{{"alice", "old"}}, false},
		{public, nil, true}, {public, []Credentials{bob}, true},
	} {
		if got := may(p, "r/x:v1", c.img, c.creds...); got != c.want {
			t.Errorf("%s with %v: %v", c.img.ID, c.creds, got)
		}
	}
	done("r/private:v1", private, bob)
	if !may(p, "r/private:v1", private, bob) || !may(p, "r/private:v1", private, alice) {
		t.Error("one that was let in is not, any more")
	}
	if err := os.WriteFile(p.record(private.ID), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if may(p, "r/private:v1", private, alice) {
		t.Error("a record that is torn lets somebody in")
	}
	if err := p.Forget(private.ID); err != nil || !may(p, "r/private:v1", private) {
		t.Errorf("forgotten: %v", err)
	}
}

// failing is a store whose pulls fail until the image is imported.
type failing struct {
	store
	block bool
}

func (f *failing) Pull(ctx context.Context, _ string, _ []Credentials) (Image, error) {
	if f.block {
		<-ctx.Done()
		return Image{}, ctx.Err()
	}
	return Image{}, errors.New("no such host")
}

// What is imported after a pull has failed needs no registry.
func TestImportAfterAFailedPull(t *testing.T) {
	s := &failing{store: store{images: map[string]Image{}}}
	p := NewPuller(s, 1)
	p.Pulls = NewPulls(t.TempDir())
	if _, _, err := p.Pull(t.Context(), "a", nil); err == nil {
		t.Fatal("pulled")
	}
	if ok, err := p.Pulls.MayUse("a", Image{ID: "sha256:1"}, nil); err != nil || !ok {
		t.Errorf("the imported image may not be used: %v", err)
	}
}

// A pull ends with the last pod that waits for it, and its slot is free.
func TestPullEndsWithItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{store: store{images: map[string]Image{}}, block: true}
		p := NewPuller(s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		longer, cancelLonger := context.WithTimeout(t.Context(), time.Hour)
		defer cancelLonger()
		var wg sync.WaitGroup
		begin := time.Now()
		wg.Go(func() { _, _, _ = p.Pull(ctx, "a", nil) })
		wg.Go(func() { _, _, _ = p.Pull(longer, "a", nil) })
		time.Sleep(30 * time.Minute)
		if len(p.slots) != 1 {
			t.Error("the pull has ended with the first pod")
		}
		wg.Wait()
		synctest.Wait()
		if took := time.Since(begin); took != time.Hour || len(p.slots) != 0 || len(p.pulling) != 0 {
			t.Errorf("after %s: %d slots taken, %d pulls", took, len(p.slots), len(p.pulling))
		}
	})
}
