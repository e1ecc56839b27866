package update

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	hash4 = "44444444"
	hash5 = "55555555"
)

// onDisk is a state with v4 running in slot A, by a good entry.
func onDisk(change func(*slot.State)) *slot.State {
	s := &slot.State{Running: hash4, Slots: [2]slot.Slot{{Name: "A", Complete: true, Version: "4.0.0", RootHash: hash4}, {Name: "B"}}}
	s.Entries = []slot.Entry{{Name: "writ_1.efi", Seq: 1, Good: true, RootHash: hash4}}
	if change != nil {
		change(s)
	}
	boot.Order(s.Entries)
	for i := range s.Entries {
		if s.Booted == nil && s.Entries[i].RootHash == s.Running {
			s.Booted = &s.Entries[i]
		}
	}
	if e, _, ok := boot.Boot(s.Entries); ok {
		s.Next = &e
	}
	return s
}

func both(s *slot.State) {
	s.Slots[1] = slot.Slot{Name: "B", Complete: true, Version: "5.0.0", RootHash: hash5}
}

// switched is v5 in slot B with an entry on trial.
func switched(left int) func(*slot.State) {
	return func(s *slot.State) {
		both(s)
		s.Entries = append(s.Entries, slot.Entry{Name: "writ_2", Seq: 2, Left: left, Done: boot.Tries - left, RootHash: hash5})
	}
}

func tries(left int) func(*slot.State) {
	return func(s *slot.State) {
		switched(left)(s)
		s.Running = hash5
	}
}

// damagedCopy is v5 in slot B, damaged, with an entry that gave way.
func damagedCopy(left int) func(*slot.State) {
	return func(s *slot.State) {
		switched(left)(s)
		s.Slots[1].Damage = "block 7"
	}
}

// starts are those of v4 that did not become well.
func starts(n int) func(*slot.State) {
	return func(s *slot.State) { s.Slots[0].Starts = n }
}

// noted is the damage of damagedCopy, after so many.
func noted(times int) *Damage {
	return &Damage{RootHash: hash5, Version: "5.0.0", Found: "block 7", Times: times, Open: true}
}

func told(d *Damage) *Damage {
	d.Told = true
	return d
}

func TestDecide(t *testing.T) {
	v4, v5 := Image{Name: "v4", Version: "4.0.0"}, Image{Name: "v5", Version: "5.0.0", Digest: "sha256:5", Arch: "amd64"}
	staged := func(s *slot.State) {
		both(s)
		s.Staged = []slot.Entry{{Name: "writ_2.staged", Seq: 2, RootHash: hash5}}
	}
	tried := &Try{Image: "v5", Version: "5.0.0", Digest: "sha256:5", RootHash: hash5, Reason: "no network"}
	for _, tt := range []struct {
		name  string
		o     Observed
		state func(*slot.State)
		do    Do
		phase v1alpha1.UpdatePhase
		says  string
	}{
		{"no order", Observed{}, nil, Nothing, "Idle", "4.0.0 runs"},
		{"no order, left over", Observed{Fetched: true}, nil, Forget, "Idle", ""},
		{"no order, switched", Observed{}, switched(3), Keep, "Idle", ""},
		{"no order, failed before", Observed{Record: Record{Failed: &Failure{Image: "v5"}}}, switched(0), Forget, "Idle", ""},
		{"order", Observed{Order: Order{Image: "v5"}, Image: v5}, nil, Fetch, "Downloading", "fetching 5.0.0"},
		{"fetched", Observed{Order: Order{Image: "v5"}, Image: v5, Fetched: true}, nil, Stage, "Writing", "writing 5.0.0 into slot B"},
		{"staged", Observed{Order: Order{Image: "v5"}, Image: v5}, staged, Nothing, "Staged", "5.0.0 is staged in slot B"},
		{"staged from another bundle", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Known: map[string]string{hash5: "sha256:6"}}}, staged, Fetch, "Downloading", ""},
		{"staged from this bundle", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Known: map[string]string{hash5: "sha256:5"}}}, staged, Nothing, "Staged", ""},
		{"half there", Observed{Order: Order{Image: "v5"}, Image: v5}, both, Fetch, "Downloading", ""},
		{"reboot", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5}, staged, Reboot, "Rebooting", "rebooting into 5.0.0"},
		{"reboot again", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5}, switched(3), Reboot, "Rebooting", ""},
		{"reboot taken back", Observed{Order: Order{Image: "v5"}, Image: v5}, switched(3), Keep, "Staged", ""},
		{"on trial", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Health: Health{Why: "no network"}}, tries(2), Nothing, "Trying", "5.0.0 is on trial, 2 more to go: no network"},
		{"on trial, well", Observed{}, tries(2), Nothing, "Trying", "well so far"},
		{"on trial, good", Observed{Health: Health{Settled: true}}, tries(0), Bless, "Trying", "5.0.0 is well"},
		{"on trial, late", Observed{Health: Health{Late: true, Why: "no network"}}, tries(0), GiveUp, "Trying", "5.0.0 did not become well in time: no network"},
		{"on trial, late but well", Observed{Health: Health{Late: true}}, tries(0), Nothing, "Trying", "well so far"},
		{"fell back", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Tried: tried}}, switched(0), Fail, "Failed", "5.0.0 was started 3 times and did not become well, so 4.0.0 runs again: no network"},
		{"fell back, and known", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Failed: &Failure{Image: "v5", Digest: "sha256:5", Reason: "x"}}}, switched(0), Nothing, "Failed", "x"},
		{"another bundle than the one that failed", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Failed: &Failure{Image: "v5", Digest: "sha256:6"}}}, nil, Fetch, "Downloading", ""},
		{"not there yet", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5, Record: Record{Tried: tried}}, switched(2), Reboot, "Rebooting", ""},
		{"unknown image", Observed{Order: Order{Image: "v5"}, ImageWhy: "not found"}, nil, Nothing, "Idle", "not found"},
		{"nowhere", Observed{Order: Order{Image: "v5"}, Image: v5}, func(s *slot.State) { s.Running = "66" }, Fail, "Failed", "5.0.0 cannot be staged: the running system is in neither slot"},
		{"arrived", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Tried: tried}}, func(s *slot.State) { tries(3)(s); s.Entries[1].Good = true }, Settle, "Idle", "5.0.0 runs"},
		{"damaged", Observed{}, damagedCopy(0), Note, "Idle", "4.0.0 runs, since the copy of 5.0.0 in slot B is damaged on the disk of this node (block 7)"},
		{"damaged, and noted", Observed{Record: Record{Damaged: noted(1)}}, damagedCopy(0), Nothing, "Idle", "4.0.0 runs, since the copy of 5.0.0 in slot B is damaged"},
		{"damaged, the second copy", Observed{Record: Record{Damaged: &Damage{RootHash: hash5, Times: 1}}}, damagedCopy(0), Note, "Idle", ""},
		{"damaged on trial", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5, Record: Record{Tried: tried}}, damagedCopy(0), Note, "Idle", "4.0.0 runs, since"},
		{"damaged, ordered", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Damaged: noted(2)}}, damagedCopy(0), Fetch, "Downloading", "fetching 5.0.0 again, since the copy that was there is damaged on the disk of this node (block 7)"},
		{"damaged, ordered, drained", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5, Fetched: true, Record: Record{Damaged: noted(1)}}, damagedCopy(0), Stage, "Writing", "writing 5.0.0 into slot B again"},
		{"damaged, half written anew", Observed{Order: Order{Image: "v5", Reboot: "v5"}, Image: v5, Record: Record{Damaged: noted(1)}}, nil, Fetch, "Downloading", "fetching 5.0.0 again"},
		{"damaged, another one is ordered", Observed{Order: Order{Image: "v6"}, Image: Image{Name: "v6", Version: "6.0.0"}, Record: Record{Damaged: noted(copies)}}, damagedCopy(0), Fetch, "Downloading", "fetching 6.0.0"},
		{"damaged too often", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Damaged: noted(copies)}}, damagedCopy(0), Tell, "Failed", "5.0.0 was damaged on the disk of this node 3 times, now block 7; 4.0.0 runs: look after the disk of this node, then order 5.0.0 again"},
		{"damaged too often, and told", Observed{Order: Order{Image: "v5"}, Image: v5, Record: Record{Damaged: told(noted(copies))}}, damagedCopy(0), Nothing, "Failed", "look after the disk"},
		{"damaged too often, order taken back", Observed{Record: Record{Damaged: told(noted(copies))}}, damagedCopy(0), Forget, "Idle", "4.0.0 runs, since"},
		{"damaged too often, not told", Observed{Record: Record{Damaged: noted(copies)}}, damagedCopy(0), Nothing, "Idle", "4.0.0 runs, since"},
		{"damaged where nothing was read", Observed{Order: Order{Image: "v4"}, Image: v4}, func(s *slot.State) { s.Slots[0].Damage = "block 7" }, Nothing, "Idle", "4.0.0 runs; its copy in slot A is damaged on the disk of this node (block 7): run another version"},
		{"well", Observed{Health: Health{Settled: true}}, starts(2), Well, "Idle", "4.0.0 runs"},
		{"well, and counted", Observed{Health: Health{Settled: true}}, starts(0), Nothing, "Idle", "4.0.0 runs"},
		{"not well yet", Observed{Health: Health{Why: "no network"}}, starts(2), Nothing, "Idle", "4.0.0 runs"},
		{"well, and ordered", Observed{Order: Order{Image: "v5"}, Image: v5, Health: Health{Settled: true}}, starts(2), Fetch, "Downloading", ""},
		{"arguments not taken", Observed{Order: Order{Image: "v5", Arguments: "debug"}, Image: v5, Record: Record{Tried: &Try{Version: "5.0.0", RootHash: hash5, Arguments: "debug"}}},
			func(s *slot.State) { tries(3)(s); s.Entries[1].Good, s.Entries[1].Arguments = true, "debug" }, Fail, "Failed", `5.0.0 runs without the kernel arguments "debug"`},
	} {
		tt.o.State, tt.o.Arch = onDisk(tt.state), "amd64"
		a := Decide(tt.o)
		if a.Do != tt.do || a.Phase != tt.phase || !strings.Contains(a.Message, tt.says) {
			t.Errorf("%s: %s, want %s (%s): %s", tt.name, a, tt.do, tt.phase, tt.says)
		}
		// A disk that fails is no failure of an image.
		if (a.Failure != nil) != (a.Phase == v1alpha1.UpdateFailed && !strings.Contains(a.Message, "look after the disk")) {
			t.Errorf("%s: failure %+v", tt.name, a.Failure)
		}
	}
}

// Whatever is seen: nothing reboots that was not ordered or given up, nothing
// is written while a system is on trial, and every answer has a phase and a
// sentence.
func TestDecideProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	flip := func() bool { return random.IntN(2) == 0 }
	pick := func(s ...string) string { return s[random.IntN(len(s))] }
	for range 50000 {
		s := onDisk(func(s *slot.State) {
			s.Running = pick(hash4, hash4, hash5, "")
			s.Arguments = pick("", "a")
			if flip() {
				both(s)
			}
			s.Slots[0].Starts, s.Slots[0].Damage, s.Slots[1].Damage = random.IntN(3), pick("", "", "x"), pick("", "", "x")
			s.Entries = nil
			for seq := range random.IntN(4) {
				s.Entries = append(s.Entries, slot.Entry{Name: "e", Seq: uint64(seq), Good: flip(), Left: random.IntN(3), RootHash: pick(hash4, hash5, ""), Arguments: pick("", "a")})
			}
			if flip() {
				s.Staged = []slot.Entry{{Name: "s", Seq: 9, RootHash: pick(hash4, hash5)}}
			}
		})
		o := Observed{
			Order:   Order{Image: pick("", "v4", "v5"), Arguments: pick("", "a"), Reboot: pick("", "v4", "v5")},
			Arch:    "amd64",
			State:   s,
			Fetched: flip(),
			Health:  Health{Why: pick("", "x"), Settled: flip(), Late: flip()},
		}
		o.Image = Image{Name: o.Order.Image, Version: map[string]string{"v4": "4.0.0", "v5": "5.0.0"}[o.Order.Image], Digest: "d" + o.Order.Image}
		if flip() {
			o.Record.Tried = &Try{Image: "v5", Version: "5.0.0", RootHash: pick(hash4, hash5), Arguments: pick("", "a")}
		}
		if flip() {
			o.Record.Failed = &Failure{Image: "v5", Digest: "dv5", Reason: "x"}
		}
		if flip() {
			o.Record.Damaged = &Damage{RootHash: pick(hash4, hash5), Version: pick("4.0.0", "5.0.0"), Found: "x", Times: 1 + random.IntN(copies), Open: flip(), Told: flip()}
		}
		a := Decide(o)
		trial := s.Trial()
		switch {
		case a.Phase == "" || a.Message == "":
			t.Fatalf("%+v: %s", o, a)
		case a.Do == Reboot && (o.Order.Reboot == "" || o.Order.Reboot != o.Order.Image || trial):
			t.Fatalf("not ordered: %+v: %s", o, a)
		case (a.Do == Bless || a.Do == GiveUp) && !trial:
			t.Fatalf("not on trial: %+v: %s", o, a)
		case a.Do == GiveUp && !fallback(s):
			t.Fatalf("nothing to fall back to: %+v: %s", o, a)
		case a.Do == Well && (trial || !o.Health.Settled || s.Current().Starts == 0):
			t.Fatalf("not well: %+v: %s", o, a)
		case (a.Do == Fetch || a.Do == Stage) && repair(o) != nil && repair(o).Times >= copies:
			t.Fatalf("without end: %+v: %s", o, a)
		case (a.Do == Fetch || a.Do == Stage) && (trial || o.Order.Image == "" || o.Order.Reboot != "" && repair(o) == nil):
			t.Fatalf("writes: %+v: %s", o, a)
		case trial != (a.Phase == v1alpha1.UpdateTrying):
			t.Fatalf("on trial %v: %+v: %s", trial, o, a)
		}
	}
}
