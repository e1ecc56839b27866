package reconciler

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var (
	killPoints = flag.Int("kills", envInt("WRIT_KILLS", 200), "at how many random points the process is killed")
	walkSeed   = flag.Uint64("walk", 0, "the seed of the one walk to play again")
)

func envInt(name string, otherwise int) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return cmp.Or(n, otherwise)
}

// walk is a random life of a cluster: pushes, drift, restarts, waves, commits
// that are rolled back; and again and again the process dies at a transaction.
type walk struct {
	t      *testing.T
	rnd    *rand.Rand
	fake   *client.Fake
	mortal *mortal
	src    *memSource
	stop   func()
	log    []string

	waves   bool
	wants   map[string]map[string]string // by commit: the ConfigMaps and what they say
	gated   map[string]map[string]bool   // by commit: those of a later wave
	last    map[string]string
	good    string // the newest commit that can be applied
	n       int
	drifted map[string]bool
	kills   int
}

// TestRandomKills kills the process at random transactions, before or after
// they are stored. Whatever happens the cluster is exactly the commit that the
// Repository says is in force, the inventories agree, and the next process
// brings it to the head and every commit to its end.
func TestRandomKills(t *testing.T) {
	if *walkSeed != 0 {
		synctest.Test(t, func(t *testing.T) { newWalk(t, *walkSeed).run(40) })
		return
	}
	var left atomic.Int64
	left.Store(int64(*killPoints))
	begun := time.Now()
	t.Run("walks", func(t *testing.T) {
		for lane := range uint64(4) {
			t.Run(strconv.Itoa(int(lane)), func(t *testing.T) {
				t.Parallel()
				for seed := lane + 1; left.Load() > 0 && !t.Failed(); seed += 4 {
					synctest.Test(t, func(t *testing.T) {
						w := newWalk(t, seed)
						w.run(40)
						left.Add(int64(-w.kills))
					})
				}
			})
		}
	})
	t.Logf("%d kill points in %v", int64(*killPoints)-left.Load(), time.Since(begun).Round(time.Millisecond))
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), fake: client.NewFake(), src: newMemSource(), wants: map[string]map[string]string{},
		gated: map[string]map[string]bool{}, drifted: map[string]bool{}}
	w.mortal = &mortal{Backend: w.fake}
	w.waves = w.rnd.IntN(3) == 0
	w.note("go test -run TestRandomKills -walk %d", seed)
	w.disarm()
	return w
}

func (w *walk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *walk) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *walk) disarm() { w.mortal.left.Store(1 << 30) }

// arm has the process die soon.
func (w *walk) arm() {
	n := int32(1 + w.rnd.IntN(4))
	w.mortal.stored = w.rnd.IntN(2) == 0
	w.mortal.left.Store(n)
	w.note("dies at transaction %d, stored: %v", n, w.mortal.stored)
}

func (w *walk) dead() bool { return w.mortal.left.Load() <= 0 }

func (w *walk) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	spec := v1alpha1.RepositorySpec{URL: "memory", Branch: "main", Rollback: &v1alpha1.RepositoryRollback{After: &metav1.Duration{Duration: 30 * time.Second}}}
	go func() { done <- New(Config{Client: w.mortal, Source: w.src, Spec: spec}).Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, errDead) {
			w.failf("run: %v", err)
		}
	}
	synctest.Wait()
}

func (w *walk) run(steps int) {
	w.start()
	defer func() { w.stop() }()
	w.push(false)
	w.settle()
	for range steps {
		if w.rnd.IntN(5) > 0 {
			w.arm()
		}
		w.act()
		synctest.Wait()
		w.check()
		for w.dead() && w.rnd.IntN(3) == 0 { // dies again while it recovers
			w.kills++
			w.stop()
			w.arm()
			w.start()
			time.Sleep(time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
			synctest.Wait()
			w.check()
		}
		if w.dead() {
			w.kills++
		}
		if w.dead() || w.rnd.IntN(3) == 0 {
			w.stop()
			w.disarm()
			w.note("restart")
			w.start()
		}
		w.disarm()
		w.settle()
	}
}

// act does one thing that a user, a stranger or time does.
func (w *walk) act() {
	switch w.rnd.IntN(8) {
	case 0, 1, 2:
		w.push(false)
	case 3:
		w.note("two at once")
		w.push(false)
		if w.rnd.IntN(2) == 0 {
			w.push(true)
			w.good = "" // the first may have been in force for a moment, or never
		} else {
			w.push(false)
		}
	case 4:
		w.push(true)
	case 5:
		w.drift()
	case 6:
		w.sick()
	case 7:
		w.note("restart")
		w.stop()
		w.start()
	}
	if w.waves && w.rnd.IntN(2) == 0 {
		synctest.Wait()
		w.ready()
		time.Sleep(time.Second)
	}
}

// push makes a random tree out of few names, so that objects come, go, change
// and move between files; a bad one has a mistake as well.
func (w *walk) push(bad bool) {
	tree, want, gated := w.tree()
	if bad {
		tree["bad.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, dota: {}}\n"
	}
	sha := w.src.push(tree, "commit "+strconv.Itoa(w.n))
	w.note("push %s (bad: %v) %v", short(sha), bad, want)
	if !bad {
		w.wants[sha], w.gated[sha], w.good, w.last = want, gated, sha, want
	}
}

func (w *walk) tree() (tree memTree, want map[string]string, gated map[string]bool) {
	w.n++
	tree, want, gated = memTree{}, map[string]string{}, map[string]bool{}
	for _, i := range w.rnd.Perm(12)[:2+w.rnd.IntN(11)] {
		name, note := "c"+strconv.Itoa(i), ""
		value := strconv.Itoa(w.n)
		if was := w.last[name]; was != "" && w.rnd.IntN(3) == 0 {
			value = was
		}
		if w.waves && w.rnd.IntN(3) == 0 {
			note, gated[name] = `, annotations: {writ.dev/wave: "1"}`, true
		}
		want[name] = value
		tree[fmt.Sprintf("f%d.yaml", w.rnd.IntN(5))] += fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s%s}, data: {n: %q}}\n", name, note, value)
	}
	if w.waves {
		tree["db.yaml"] = fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: db}, spec: {selector: {matchLabels: {a: b}}, "+
			"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: \"i:%d\"}]}}}}\n", w.n)
	}
	return tree, want, gated
}

// sick pushes a commit that does not become healthy, and lets its time pass.
func (w *walk) sick() {
	repo, _ := client.Cached[*v1alpha1.Repository](w.fake.Cache(), schema.Key{Name: "cluster"})
	healthy := repo.Status.Healthy
	tree, want, gated := w.tree()
	tree["sick.yaml"] = "{apiVersion: v1, kind: Pod, metadata: {name: sick}, spec: {containers: [{name: c, image: \"i:1\"}]}}\n"
	sha := w.src.push(tree, "sick "+strconv.Itoa(w.n))
	w.wants[sha], w.gated[sha], w.good = want, gated, healthy
	w.note("push %s (sick, after %s) %v", short(sha), short(healthy), want)
	time.Sleep(time.Duration(w.rnd.IntN(60)) * time.Second)
}

// drift has somebody change or delete what Git declares.
func (w *walk) drift() {
	all := client.CachedList[*corev1.ConfigMap](w.fake.Cache(), "default")
	if len(all) == 0 {
		return
	}
	c := all[w.rnd.IntN(len(all))]
	w.drifted[c.Name] = true
	w.note("drift of %s", c.Name)
	var err error
	if w.rnd.IntN(2) == 0 {
		err = w.fake.Delete(w.t.Context(), kind("ConfigMap"), schema.KeyOf(c), client.DeleteOptions{})
	} else {
		_, err = w.fake.Patch(w.t.Context(), kind("ConfigMap"), schema.KeyOf(c), types.MergePatchType, []byte(`{"data":{"n":"hacked"}}`), client.WriteOptions{FieldManager: "someone"})
	}
	if err != nil {
		w.failf("drift: %v", err)
	}
	time.Sleep(time.Second)
}

func (w *walk) ready() {
	s := &scenario{t: w.t, fake: w.fake}
	if err := s.ready(nil); err != nil {
		w.failf("ready: %v", err)
	}
}

func (w *walk) applied() string {
	repo, _ := client.Cached[*v1alpha1.Repository](w.fake.Cache(), schema.Key{Name: "cluster"})
	return repo.Status.Applied
}

func (w *walk) have() map[string]string {
	have := map[string]string{}
	for _, c := range client.CachedList[*corev1.ConfigMap](w.fake.Cache(), "default") {
		have[c.Name] = c.Data["n"]
	}
	return have
}

// check holds the cluster against the commit in force, at any moment: nothing
// but what somebody has just changed, or what waits for its wave, may differ.
func (w *walk) check() {
	w.t.Helper()
	sha := w.applied()
	want, have := w.wants[sha], w.have()
	for name := range maps.Keys(want) {
		if have[name] != want[name] && !w.drifted[name] && !w.gated[sha][name] {
			w.failf("half a commit: %s of %s is %q, want %q", name, short(sha), have[name], want[name])
		}
	}
	for name := range have {
		if want[name] == "" && !w.drifted[name] {
			w.failf("half a commit: %s is there and not of %s", name, short(sha))
		}
	}
}

// settle lets a living process finish, and wants everything as declared.
func (w *walk) settle() {
	w.t.Helper()
	for range 3 {
		time.Sleep(2 * time.Second)
		w.ready()
	}
	time.Sleep(40 * time.Second)
	w.ready()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	sha := w.applied()
	if w.good != "" && sha != w.good {
		w.failf("%s is in force, want %s", short(sha), short(w.good))
	}
	w.good = sha
	clear(w.drifted)
	if have := w.have(); !maps.Equal(have, w.wants[sha]) {
		w.failf("the cluster is not %s:\n%v, want\n%v", short(sha), have, w.wants[sha])
	}
	if err := cmp.Or(settled(w.fake), inventoriesAgree(w.fake)); err != nil {
		w.failf("%v", err)
	}
	declared := 0
	for _, inv := range client.CachedList[*v1alpha1.Inventory](w.fake.Cache(), "") {
		declared += len(slices.DeleteFunc(slices.Clone(inv.Spec.Objects), func(o v1alpha1.InventoryObject) bool { return o.Kind != "ConfigMap" }))
	}
	if declared != len(w.wants[sha]) {
		w.failf("the inventories declare %d ConfigMaps, %s has %d", declared, short(sha), len(w.wants[sha]))
	}
}
