package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// scenario plays a txtar file: its comment is a script of one command a line,
// its files are trees (one/web.yaml belongs to the tree "one").
type scenario struct {
	t      *testing.T
	fake   *client.Fake
	mortal *mortal
	trees  map[string]memTree
	shas   map[string]string
	writes int
	files  map[string]string
	uids   map[string]types.UID
	// catalog has the custom kinds that the server serves.
	catalog schema.Live
	stops   []func()

	mu     sync.Mutex
	phases map[string][]string // of Commit objects, in their order

	// One for each repository that the script names; "cluster" is the first.
	repositories map[string]*follower
	name         string // that commands speak of
}

// follower is a repository with its reconciler.
type follower struct {
	source *memSource
	stop   func()
}

func TestScenarios(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no scenarios")
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, ar) })
		})
	}
}

func play(t *testing.T, ar *txtar.Archive) {
	s := &scenario{t: t, fake: client.NewFake(), trees: map[string]memTree{}, shas: map[string]string{}, files: map[string]string{},
		uids: map[string]types.UID{}, phases: map[string][]string{}, repositories: map[string]*follower{}, name: "cluster"}
	s.mortal = &mortal{Backend: s.fake}
	s.mortal.left.Store(1 << 30)
	s.fake.Catalog = &s.catalog
	if err := s.fake.Cache().Subscribe(t.Context(), kind("Commit"), s.watchPhases); err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		s.files[f.Name] = string(f.Data)
		if tree, path, ok := strings.Cut(f.Name, "/"); ok {
			if s.trees[tree] == nil {
				s.trees[tree] = memTree{}
			}
			s.trees[tree][path] = string(f.Data)
		}
	}
	s.start()
	defer func() {
		for _, stop := range s.stops {
			stop()
		}
		for _, f := range s.repositories {
			f.stop()
		}
	}()
	for i, line := range strings.Split(string(ar.Comment), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		args := strings.Fields(line)
		if err := s.do(args, line); err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
		synctest.Wait()
	}
}

// watchPhases notes the phases that commits go through.
func (s *scenario) watchPhases(ev client.Event) {
	c, ok := ev.Object.(*v1alpha1.Commit)
	if !ok || ev.Type == client.Deleted || c.Status.Phase == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.phases[c.Name]; len(was) == 0 || was[len(was)-1] != string(c.Status.Phase) {
		s.phases[c.Name] = append(was, string(c.Status.Phase))
	}
}

// start runs the reconciler of the repository that commands speak of.
func (s *scenario) start() {
	f := s.repositories[s.name]
	if f == nil {
		f = &follower{source: newMemSource()}
		s.repositories[s.name] = f
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r := New(Config{Client: s.mortal, Source: f.source, Repository: s.name, Catalog: &s.catalog,
		Spec: v1alpha1.RepositorySpec{URL: "memory", Branch: "main"}, Log: log})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, errDead) {
			s.t.Errorf("run: %v", err)
		}
	})
	synctest.Wait()
}

func (s *scenario) source() *memSource { return s.repositories[s.name].source }

func (s *scenario) do(args []string, line string) error {
	ctx := s.t.Context()
	switch args[0] {
	case "push": // push TREE [message]
		tree := s.trees[args[1]]
		if tree == nil {
			tree = memTree{}
		}
		s.shas[args[1]] = s.source().push(tree, strings.ReplaceAll(strings.Join(args[2:], " "), `\n`, "\n"))
	case "source-fails":
		s.source().fail(errors.New(strings.Join(args[1:], " ")))
	case "wait":
		d, err := time.ParseDuration(args[1])
		time.Sleep(d)
		return err
	case "restart":
		s.repositories[s.name].stop()
		s.start()
	case "back": // back TREE: the branch is reset to a commit that was pushed before
		s.source().reset(s.shas[args[1]])
	case "as": // as REPOSITORY: the commands after speak of another repository
		s.name = args[1]
		if s.repositories[s.name] == nil {
			s.start()
		}
	case "spec": // spec JSON: Git declares the Repository, with these fields in its spec
		_, err := s.fake.Patch(ctx, kind("Repository"), schema.Key{Name: s.name}, types.MergePatchType,
			[]byte(`{"metadata":{"managedFields":[{"manager":"writ","operation":"Apply"}]},"spec":`+strings.Join(args[1:], " ")+`}`), client.WriteOptions{FieldManager: "writ"})
		return err
	case "kill": // kill N lost|stored: the server dies at the N-th transaction from now
		n, err := strconv.Atoi(args[1])
		s.mortal.stored = args[2] == "stored"
		s.mortal.left.Store(int32(n))
		return err
	case "revive": // the server is there again, and the reconciler starts anew
		s.repositories[s.name].stop()
		s.mortal.left.Store(1 << 30)
		s.start()
	case "applied": // applied TREE: the repository says that it is in force
		return s.status("applied", args[1], func(r *v1alpha1.RepositoryStatus) string { return r.Applied })
	case "healthy": // healthy TREE: the repository says that it was the last healthy one
		return s.status("healthy", args[1], func(r *v1alpha1.RepositoryStatus) string { return r.Healthy })
	case "rolledback": // rolledback TREE TO
		if got := s.object(args[1]).Status.RolledBackTo; got != s.shas[args[2]] {
			return fmt.Errorf("rolled back to %q", got)
		}
	case "message": // message TREE substring
		if got := s.object(args[1]).Status.Message; !strings.Contains(got, strings.Join(args[2:], " ")) {
			return fmt.Errorf("message is %q", got)
		}
	case "consequence": // consequence TREE KIND object
		c := s.object(args[1])
		for _, q := range c.Status.Consequences {
			if q.Kind == args[2] && q.Object == args[3] {
				return nil
			}
		}
		return fmt.Errorf("consequences are %v", c.Status.Consequences)
	case "change": // change TREE ACTION object [path]
		return s.change(args[1], args[2], args[3], args[4:])
	case "drifted": // drifted object
		repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
		for _, d := range repo.Status.Drifted {
			if d.Object == args[1] {
				return nil
			}
		}
		return fmt.Errorf("drifted are %v", repo.Status.Drifted)
	case "remember", "same", "other": // the identity of an object: remember KIND KEY, then same or other
		return s.identity(args[0], args[1], args[2])
	case "commit": // commit TREE PHASE [reason]
		return s.commit(args[1], args[2], args[3:])
	case "findings": // findings TREE: as in the file of the same name
		return s.findings(args[1])
	case "places": // places TREE: file:line:col, field and rule of the findings
		return s.places(args[1])
	case "counts": // counts TREE created/updated/deleted/unchanged
		c := s.object(args[1])
		if got := fmt.Sprintf("%d/%d/%d/%d", c.Status.Created, c.Status.Updated, c.Status.Deleted, c.Status.Unchanged); got != args[2] {
			return fmt.Errorf("counts are %s", got)
		}
	case "repository": // repository READY [substring]
		return s.repository(args[1], strings.Join(args[2:], " "))
	case "exists", "gone":
		return s.exists(args[0] == "exists", args[1], args[2])
	case "field": // field KIND KEY path value
		return s.field(args[1], args[2], args[3], strings.Join(args[4:], " "))
	case "delete":
		return s.fake.Delete(ctx, s.kind(args[1]), schema.ParseKey(args[2]), client.DeleteOptions{})
	case "patch": // patch KIND KEY json
		_, err := s.fake.Patch(ctx, s.kind(args[1]), schema.ParseKey(args[2]), types.MergePatchType, []byte(strings.Join(args[3:], " ")), client.WriteOptions{FieldManager: "someone"})
		return err
	case "ready": // all Deployments, or the named ones, reach what they want
		return s.ready(args[1:])
	case "refuse": // refuse KIND message, "refuse" alone ends it
		s.refuse(args[1:])
	case "mark":
		s.writes = s.fake.Writes()
	case "no-writes":
		if n := s.fake.Writes() - s.writes; n != 0 {
			return fmt.Errorf("%d writes since the mark", n)
		}
	case "not": // not COMMAND...: what does not hold
		if err := s.do(args[1:], ""); err == nil {
			return errors.New("it holds")
		}
	case "event": // event REASON
		for _, e := range client.CachedList[*corev1.Event](s.fake.Cache(), "") {
			if e.Reason == args[1] && strings.Contains(e.Message, strings.Join(args[2:], " ")) {
				return nil
			}
		}
		return errors.New("no such event")
	default:
		if c := acts[args[0]]; c != nil {
			return c(s, args[1:])
		}
		if c := asserts[args[0]]; c != nil {
			return c(s, args[1:])
		}
		return errors.New("unknown command")
	}
	return nil
}

func (s *scenario) object(tree string) *v1alpha1.Commit {
	c, ok := client.Cached[*v1alpha1.Commit](s.fake.Cache(), schema.Key{Name: report.CommitName(s.name, s.shas[tree])})
	if !ok {
		s.t.Fatalf("no commit object of %s", tree)
	}
	return c
}

func (s *scenario) commit(tree, phase string, reason []string) error {
	c := s.object(tree)
	if string(c.Status.Phase) != phase || len(reason) > 0 && c.Status.Reason != reason[0] {
		return fmt.Errorf("is %s, %s: %s %v %v", c.Status.Phase, c.Status.Reason, c.Status.Message, c.Status.Findings, c.Status.Unhealthy)
	}
	return nil
}

func (s *scenario) findings(tree string) error {
	var b strings.Builder
	for _, f := range s.object(tree).Status.Findings {
		fmt.Fprintf(&b, "%s [%s]\n", Text(f), f.Rule)
	}
	if diff := cmp.Diff(s.files["findings-"+tree], b.String()); diff != "" {
		return errors.New(diff)
	}
	return nil
}

func (s *scenario) places(tree string) error {
	var b strings.Builder
	for _, f := range s.object(tree).Status.Findings {
		fmt.Fprintf(&b, "%s:%d:%d %s %s\n", f.File, f.Line, f.Column, f.Field, f.Rule)
	}
	if diff := cmp.Diff(s.files["places-"+tree], b.String()); diff != "" {
		return errors.New(diff)
	}
	return nil
}

func (s *scenario) repository(ready, text string) error {
	repo, ok := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
	if !ok {
		return errors.New("there is no such repository")
	}
	for _, c := range repo.Status.Conditions {
		if c.Type == "Ready" && string(c.Status) == ready && strings.Contains(c.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("conditions are %v", repo.Status.Conditions)
}

func kind(name string) *schema.Resource {
	for _, r := range schema.Resources {
		if r.Kind == name {
			return r
		}
	}
	panic("no kind " + name)
}

// kind finds one that the server serves besides the built-in ones too.
func (s *scenario) kind(name string) *schema.Resource {
	for _, r := range s.catalog.Load().Custom() {
		if r.Kind == name {
			return r
		}
	}
	return kind(name)
}

func (s *scenario) exists(want bool, k, key string) error {
	if _, ok := s.fake.Cache().Get(s.kind(k), schema.ParseKey(key)); ok != want {
		return fmt.Errorf("exists: %v", ok)
	}
	return nil
}

func (s *scenario) field(k, key, path, want string) error {
	o, ok := s.fake.Cache().Get(s.kind(k), schema.ParseKey(key))
	if !ok {
		return errors.New("does not exist")
	}
	data, _ := json.Marshal(o)
	var v any
	_ = json.Unmarshal(data, &v)
	for step := range strings.SplitSeq(path, ".") {
		if m, ok := v.(map[string]any); ok {
			v = m[step]
		} else if l, ok := v.([]any); ok {
			v = l[int(step[0]-'0')]
		}
	}
	if got := fmt.Sprint(v); got != want {
		return fmt.Errorf("is %s", got)
	}
	return nil
}

func (s *scenario) status(what, tree string, of func(*v1alpha1.RepositoryStatus) string) error {
	repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
	if got := of(&repo.Status); got != s.shas[tree] {
		for name, sha := range s.shas {
			if sha == got {
				got = name
			}
		}
		return fmt.Errorf("%s is %q", what, got)
	}
	return nil
}

func (s *scenario) change(tree, action, object string, path []string) error {
	c := s.object(tree)
	for _, ch := range c.Status.Changes {
		if ch.Action != action || ch.Object != object {
			continue
		}
		for _, f := range ch.Fields {
			if len(path) > 0 && f.Path == path[0] {
				return nil
			}
		}
		if len(path) == 0 {
			return nil
		}
	}
	return fmt.Errorf("changes are %v", c.Status.Changes)
}

func (s *scenario) identity(how, k, key string) error {
	o, ok := s.fake.Cache().Get(s.kind(k), schema.ParseKey(key))
	if !ok {
		return errors.New("does not exist")
	}
	name := k + "/" + key
	switch was := s.uids[name]; {
	case how == "remember":
		s.uids[name] = o.GetUID()
	case how == "same" && was != o.GetUID():
		return errors.New("is another object")
	case how == "other" && was == o.GetUID():
		return errors.New("is the same object")
	}
	return nil
}

func (s *scenario) ready(names []string) error {
	return s.deployments(names, func(wanted int32) int32 { return wanted })
}

// deployments gives Deployments so many ready pods.
func (s *scenario) deployments(names []string, of func(wanted int32) int32) error {
	for _, d := range client.CachedList[*appsv1.Deployment](s.fake.Cache(), "") {
		if len(names) > 0 && !slices.Contains(names, d.Name) {
			continue
		}
		d = d.DeepCopy()
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		have := of(n)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: have, AvailableReplicas: have, UnavailableReplicas: n - have}
		if _, err := client.UpdateStatus(s.t.Context(), s.fake, d); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) refuse(args []string) {
	if len(args) == 0 {
		s.fake.Reject(nil)
		return
	}
	s.fake.Reject(func(_ client.Verb, r *schema.Resource, _ string, _ schema.Object) error {
		if r.Kind != args[0] {
			return nil
		}
		return apierrors.NewForbidden(r.GroupResource(), "x", errors.New(strings.Join(args[1:], " ")))
	})
}
