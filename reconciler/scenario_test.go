package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
	source *memSource
	trees  map[string]memTree
	shas   map[string]string
	stop   func()
	writes int
	files  map[string]string
}

func TestScenarios(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no scenarios")
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, ar) })
		})
	}
}

func play(t *testing.T, ar *txtar.Archive) {
	s := &scenario{t: t, fake: client.NewFake(), source: newMemSource(), trees: map[string]memTree{}, shas: map[string]string{}, files: map[string]string{}}
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
	defer func() { s.stop() }()
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

func (s *scenario) start() {
	ctx, cancel := context.WithCancel(s.t.Context())
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r := New(Config{Client: s.fake, Source: s.source, Spec: v1alpha1.RepositorySpec{URL: "memory", Branch: "main"}, Log: log})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("run: %v", err)
		}
	}
	synctest.Wait()
}

func (s *scenario) do(args []string, line string) error {
	ctx := s.t.Context()
	switch args[0] {
	case "push": // push TREE [message]
		tree := s.trees[args[1]]
		if tree == nil {
			tree = memTree{}
		}
		s.shas[args[1]] = s.source.push(tree, strings.ReplaceAll(strings.Join(args[2:], " "), `\n`, "\n"))
	case "source-fails":
		s.source.fail(errors.New(strings.Join(args[1:], " ")))
	case "wait":
		d, err := time.ParseDuration(args[1])
		time.Sleep(d)
		return err
	case "restart":
		s.stop()
		s.start()
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
		return s.fake.Delete(ctx, kind(args[1]), schema.ParseKey(args[2]), client.DeleteOptions{})
	case "patch": // patch KIND KEY json
		_, err := s.fake.Patch(ctx, kind(args[1]), schema.ParseKey(args[2]), types.MergePatchType, []byte(strings.Join(args[3:], " ")), client.WriteOptions{FieldManager: "someone"})
		return err
	case "ready": // all Deployments reach what they want
		return s.ready()
	case "refuse": // refuse KIND message, "refuse" alone ends it
		s.refuse(args[1:])
	case "mark":
		s.writes = s.fake.Writes()
	case "no-writes":
		if n := s.fake.Writes() - s.writes; n != 0 {
			return fmt.Errorf("%d writes since the mark", n)
		}
	case "event": // event REASON
		for _, e := range client.CachedList[*corev1.Event](s.fake.Cache(), "") {
			if e.Reason == args[1] && strings.Contains(e.Message, strings.Join(args[2:], " ")) {
				return nil
			}
		}
		return errors.New("no such event")
	default:
		return errors.New("unknown command")
	}
	return nil
}

func (s *scenario) object(tree string) *v1alpha1.Commit {
	c, ok := client.Cached[*v1alpha1.Commit](s.fake.Cache(), schema.Key{Name: report.CommitName("cluster", s.shas[tree])})
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
	repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: "cluster"})
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

func (s *scenario) exists(want bool, k, key string) error {
	if _, ok := s.fake.Cache().Get(kind(k), schema.ParseKey(key)); ok != want {
		return fmt.Errorf("exists: %v", ok)
	}
	return nil
}

func (s *scenario) field(k, key, path, want string) error {
	o, ok := s.fake.Cache().Get(kind(k), schema.ParseKey(key))
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

func (s *scenario) ready() error {
	for _, d := range client.CachedList[*appsv1.Deployment](s.fake.Cache(), "") {
		d = d.DeepCopy()
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if _, err := client.UpdateStatus(s.t.Context(), s.fake, d); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) refuse(args []string) {
	if len(args) == 0 {
		s.fake.Reject = nil
		return
	}
	s.fake.Reject = func(_ client.Verb, r *schema.Resource, _ string, _ schema.Object) error {
		if r.Kind != args[0] {
			return nil
		}
		return apierrors.NewForbidden(r.GroupResource(), "x", errors.New(strings.Join(args[1:], " ")))
	}
}
