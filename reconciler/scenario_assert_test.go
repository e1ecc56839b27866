package reconciler

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// asserts are the commands that look.
var asserts = map[string]command{
	// finding TREE Rule [substring of the finding's line]
	"finding": func(s *scenario, args []string) error {
		for _, f := range s.object(args[0]).Status.Findings {
			if f.Rule == args[1] && strings.Contains(Text(f), strings.Join(args[2:], " ")) {
				return nil
			}
		}
		return fmt.Errorf("findings are %+v", s.object(args[0]).Status.Findings)
	},
	// warned TREE Rule [substring of the warning's line]
	"warned": func(s *scenario, args []string) error {
		for _, f := range s.object(args[0]).Status.Warnings {
			if f.Rule == args[1] && strings.Contains(Text(f), strings.Join(args[2:], " ")) {
				return nil
			}
		}
		return fmt.Errorf("warnings are %+v", s.object(args[0]).Status.Warnings)
	},
	"no-warnings": func(s *scenario, args []string) error {
		if got := s.object(args[0]).Status.Warnings; len(got) > 0 {
			return fmt.Errorf("warnings are %+v", got)
		}
		return nil
	},
	// undeclared OBJECT substring: the status tells of fields that others have set
	"undeclared": func(s *scenario, args []string) error {
		repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
		for _, d := range repo.Status.Drifted {
			if d.Object == args[0] && d.Health == driftUndeclared && strings.Contains(d.Message, strings.Join(args[1:], " ")) {
				return nil
			}
		}
		return fmt.Errorf("drifted are %v", repo.Status.Drifted)
	},
	// stuck OBJECT substring: the status tells of what cannot be put back
	"stuck": func(s *scenario, args []string) error {
		repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
		for _, d := range repo.Status.Drifted {
			if d.Object == args[0] && d.Health == driftStuck && strings.Contains(d.Message, strings.Join(args[1:], " ")) {
				return nil
			}
		}
		return fmt.Errorf("drifted are %v", repo.Status.Drifted)
	},
	"no-drift": func(s *scenario, args []string) error {
		repo, _ := client.Cached[*v1alpha1.Repository](s.fake.Cache(), schema.Key{Name: s.name})
		if len(repo.Status.Drifted) > 0 {
			return fmt.Errorf("drifted are %v", repo.Status.Drifted)
		}
		return nil
	},
	// lacks KIND KEY path: a field that is not there
	"lacks": func(s *scenario, args []string) error {
		o, ok := s.fake.Cache().Get(s.kind(args[0]), schema.ParseKey(args[1]))
		if !ok {
			return errors.New("does not exist")
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		var v any = fields
		for step := range strings.SplitSeq(args[2], ".") {
			switch in := v.(type) {
			case map[string]any:
				v = in[step]
			case []any:
				i, _ := strconv.Atoi(step)
				if v = nil; i < len(in) {
					v = in[i]
				}
			}
		}
		if v != nil {
			return fmt.Errorf("is %v", v)
		}
		return nil
	},
	// number TREE N: how many findings there are
	"number": func(s *scenario, args []string) error {
		if got := s.object(args[0]).Status.Findings; strconv.Itoa(len(got)) != args[1] {
			return fmt.Errorf("findings are %+v", got)
		}
		return nil
	},
	// warnings TREE N: how many warnings there are
	"warnings": func(s *scenario, args []string) error {
		if got := s.object(args[0]).Status.Warnings; strconv.Itoa(len(got)) != args[1] {
			return fmt.Errorf("warnings are %+v", got)
		}
		return nil
	},
	// count KIND N: how many objects there are
	"count": func(s *scenario, args []string) error {
		if got := len(s.fake.Cache().List(kind(args[0]), "")); strconv.Itoa(got) != args[1] {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	},
	// way TREE PHASE...: every phase that the commit has had, in their order
	"way": func(s *scenario, args []string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.phases[objectName(s, args[0])]; !slices.Equal(got, args[1:]) {
			return fmt.Errorf("phases were %v", got)
		}
		return nil
	},
	// unknown TREE: there is no Commit object
	"unknown": func(s *scenario, args []string) error {
		if o, ok := s.fake.Cache().Get(kind("Commit"), schema.Key{Name: objectName(s, args[0])}); ok {
			return fmt.Errorf("is %s", o.(*v1alpha1.Commit).Status.Phase)
		}
		return nil
	},
	// settled: no commit but the one in force is on its way
	"settled": func(s *scenario, _ []string) error { return settled(s.fake) },
	// inventories: they declare what is there, each object once
	"inventories": func(s *scenario, _ []string) error { return inventoriesAgree(s.fake) },
	// head TREE: the repository has seen it
	"head": func(s *scenario, args []string) error {
		return s.status("head", args[0], func(r *v1alpha1.RepositoryStatus) string { return r.Head })
	},
	// nowhere TEXT [KIND KEY]: no stored object has it, but for one
	"nowhere": func(s *scenario, args []string) error {
		text := args[0]
		for _, r := range s.catalog.Load().All() {
			for _, o := range s.fake.Cache().List(r, "") {
				if len(args) > 2 && r.Kind == args[1] && schema.KeyOf(o) == schema.ParseKey(args[2]) {
					continue
				}
				data, _ := json.Marshal(o)
				for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text))} {
					if strings.Contains(string(data), form) {
						return fmt.Errorf("%s/%s has it: %s", r.Kind, schema.KeyOf(o), data)
					}
				}
			}
		}
		return nil
	},
	// owns MANAGER KIND KEY f:path...: the manager owns the field
	"owns": func(s *scenario, args []string) error {
		o, ok := s.fake.Cache().Get(kind(args[1]), schema.ParseKey(args[2]))
		if !ok {
			return errors.New("does not exist")
		}
		for _, m := range o.GetManagedFields() {
			if m.Manager == args[0] && m.FieldsV1 != nil && strings.Contains(string(m.FieldsV1.GetRawBytes()), `"`+args[3]+`"`) {
				return nil
			}
		}
		return fmt.Errorf("managers are %v", o.GetManagedFields())
	},
	// times TREE: seen, planned, applied and healthy come in this order
	"times": func(s *scenario, args []string) error {
		st := s.object(args[0]).Status
		if st.SeenTime == nil || st.PlannedTime == nil || st.AppliedTime == nil || st.HealthyTime == nil ||
			st.PlannedTime.Before(st.SeenTime) || st.AppliedTime.Before(st.PlannedTime) || st.HealthyTime.Before(st.AppliedTime) {
			return fmt.Errorf("times are %v %v %v %v", st.SeenTime, st.PlannedTime, st.AppliedTime, st.HealthyTime)
		}
		return nil
	},
	// unhealthy TREE object: the commit names it
	"unhealthy": func(s *scenario, args []string) error {
		got := s.object(args[0]).Status.Unhealthy
		if !slices.ContainsFunc(got, func(o v1alpha1.ObjectHealth) bool { return o.Object == args[1] }) {
			return fmt.Errorf("unhealthy are %v", got)
		}
		return nil
	},
}

// objectName is the name of the Commit object of a tree.
func objectName(s *scenario, tree string) string { return report.CommitName(s.name, s.shas[tree]) }

// settled says whether every commit has come to an end, but for the newest of
// each repository that is in force.
func settled(f *client.Fake) error {
	for _, c := range client.CachedList[*v1alpha1.Commit](f.Cache(), "") {
		repo, _ := client.Cached[*v1alpha1.Repository](f.Cache(), schema.Key{Name: c.Spec.Repository})
		final := c.Status.Phase == v1alpha1.CommitHealthy || c.Status.Phase == v1alpha1.CommitFailed || c.Status.Phase == v1alpha1.CommitSuperseded
		if !final && (repo == nil || repo.Status.Applied != c.Spec.SHA) {
			return fmt.Errorf("%s (%s) is left %s", c.Name, c.Spec.Message, c.Status.Phase)
		}
	}
	return nil
}

// inventoriesAgree says whether what the inventories declare is there, each
// object of a repository once.
func inventoriesAgree(f *client.Fake) error {
	seen := map[string]string{}
	for _, inv := range client.CachedList[*v1alpha1.Inventory](f.Cache(), "") {
		for _, o := range inv.Spec.Objects {
			name := fmt.Sprintf("%s: %s/%s/%s", inv.Spec.Repository, o.Kind, o.Namespace, o.Name)
			if before := seen[name]; before != "" {
				return fmt.Errorf("%s is declared in %s and in %s", name, before, inv.Spec.File)
			}
			seen[name] = inv.Spec.File
			if _, ok := f.Cache().Get(kind(o.Kind), schema.Key{Namespace: o.Namespace, Name: o.Name}); !ok {
				return fmt.Errorf("%s is declared in %s and does not exist", name, inv.Spec.File)
			}
		}
	}
	return nil
}
