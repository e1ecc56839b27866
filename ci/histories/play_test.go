package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// player plays one history.
type player struct {
	*world
	files map[string]string
	trees map[string]memTree

	plan    *plan.Plan // of the last push
	lines   []string   // that its author read
	refused error
	denied  error // of the last live change
	pushed  int
	before  snapshot // the last push
	touched bool     // somebody else has changed something since
}

// settled is how long a cluster gets to come to rest.
const settled = 5 * time.Minute

func play(w *world, ar *txtar.Archive) error {
	p := &player{world: w, files: map[string]string{}, trees: map[string]memTree{}}
	for _, f := range ar.Files {
		p.files[f.Name] = string(f.Data)
		if tree, path, ok := strings.Cut(f.Name, "/"); ok {
			if p.trees[tree] == nil {
				p.trees[tree] = memTree{}
			}
			p.trees[tree][path] = string(f.Data)
		}
	}
	for i, line := range strings.Split(string(ar.Comment), "\n") {
		args := strings.Fields(line)
		if len(args) == 0 || args[0][0] == '#' {
			continue
		}
		if err := p.do(args); err != nil {
			return fmt.Errorf("line %d: %s: %w", i+1, strings.TrimSpace(line), err)
		}
		if err := w.failed(); err != nil {
			return fmt.Errorf("line %d: %s: %w", i+1, strings.TrimSpace(line), err)
		}
	}
	return nil
}

func (p *player) do(args []string) error {
	rest := func(i int) string { return strings.Join(args[min(i, len(args)):], " ") }
	switch args[0] {
	case "push": // push TREE [message]
		return p.push(p.trees[args[1]], strings.ReplaceAll(rest(2), `\n`, "\n"))
	case "as": // as WHO create FILE | apply FILE | patch KIND KEY JSON | scale KIND KEY N | delete KIND KEY
		p.touched = true
		p.denied = p.live(args[1], args[2], args[3:])
		synctest.Wait()
		return p.rest()
	case "restart":
		p.halt()
		p.begin()
		return p.rest()
	case "wait":
		d, err := time.ParseDuration(args[1])
		time.Sleep(d)
		synctest.Wait()
		return err
	case "allowed":
		return p.denied
	case "denied":
		if p.denied == nil || !strings.Contains(p.denied.Error(), rest(1)) {
			return fmt.Errorf("the answer was %v", p.denied)
		}
	case "accepted":
		if p.refused != nil {
			return errors.New(strings.Join(p.lines, "\n"))
		}
	case "refused": // refused RULE [text]
		for _, f := range p.plan.Findings {
			if p.refused != nil && f.Rule == args[1] && strings.Contains(reconciler.Text(f), rest(2)) {
				return nil
			}
		}
		return fmt.Errorf("remote said %v\n%s", p.refused, strings.Join(p.lines, "\n"))
	case "says": // says TEXT: the author of the push reads it
		if !strings.Contains(strings.Join(p.lines, "\n"), rest(1)) {
			return errors.New(strings.Join(p.lines, "\n"))
		}
	case "op": // op ACTION OBJECT
		if !slices.ContainsFunc(p.plan.Ops, func(o plan.Op) bool { return string(o.Action) == args[1] && o.Ref.String() == args[2] }) {
			return errors.New(strings.Join(p.lines, "\n"))
		}
	case "exists", "gone": // KIND KEY
		_, ok := p.reg.Cache().Get(p.kind(args[1]), schema.ParseKey(args[2]))
		if ok != (args[0] == "exists") {
			return fmt.Errorf("exists: %v", ok)
		}
	case "field": // field KIND KEY PATH VALUE
		o, ok := p.reg.Cache().Get(p.kind(args[1]), schema.ParseKey(args[2]))
		if !ok {
			return errors.New("does not exist")
		}
		if got := at(o, args[3]); got != rest(4) {
			return fmt.Errorf("is %s", got)
		}
	case "stuck": // stuck OBJECT TEXT: the Repository says why it cannot be put back
		repo, _ := client.Cached[*v1alpha1.Repository](p.reg.Cache(), schema.Key{Name: "cluster"})
		if !slices.ContainsFunc(repo.Status.Drifted, func(o v1alpha1.ObjectHealth) bool {
			return o.Object == args[1] && o.Health == "Stuck" && strings.Contains(o.Message, rest(2))
		}) {
			return fmt.Errorf("drifted are %v", repo.Status.Drifted)
		}
	case "not":
		if err := p.do(args[1:]); err == nil {
			return errors.New("it holds")
		}
	default:
		return errors.New("unknown command")
	}
	return nil
}

// at is the value at a path of names and numbers.
func at(o schema.Object, path string) string {
	data, _ := json.Marshal(o)
	var v any
	_ = json.Unmarshal(data, &v)
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			if n, err := strconv.Atoi(step); err == nil && n < len(x) {
				v = x[n]
			}
		}
	}
	return fmt.Sprint(v)
}

// kind finds a kind that the server serves.
func (w *world) kind(name string) *schema.Resource {
	for _, r := range w.kinds() {
		if r.Kind == name {
			return r
		}
	}
	return schema.ResourceFor[*corev1.ConfigMap]()
}

// person is who changes the cluster besides Git. glass is break-glass, owner
// the controller manager; everybody else is an administrator by that name.
func (w *world) person(name string) *client.LocalClient {
	switch name {
	case "glass":
		return client.Local(w.reg, &user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}}, "kubectl")
	case "owner":
		return w.as(user.KubeControllerManager)
	}
	return client.Local(w.reg, &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}}, name)
}

// live is a change by somebody else than Git.
func (p *player) live(who, verb string, args []string) error {
	c, ctx := p.person(who), context.Background()
	switch verb {
	case "delete":
		return c.Delete(ctx, p.kind(args[0]), schema.ParseKey(args[1]), client.DeleteOptions{Propagation: metav1.DeletePropagationBackground})
	case "patch":
		_, err := c.Patch(ctx, p.kind(args[0]), schema.ParseKey(args[1]), types.MergePatchType, []byte(strings.Join(args[2:], " ")), client.WriteOptions{})
		return err
	case "scale":
		_, err := c.Patch(ctx, p.kind(args[0]), schema.ParseKey(args[1]), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%s}}`, args[2]), client.WriteOptions{Subresource: "scale"})
		return err
	case "create", "apply":
		data := []byte(p.files[args[0]])
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(data, &head); err != nil {
			return err
		}
		r := p.catalog.Load().ByGVK(head.GroupVersionKind())
		if r == nil {
			return errors.New("no such kind")
		}
		if verb == "apply" {
			_, err := c.Patch(ctx, r, schema.KeyOf(&head), types.ApplyPatchType, data, client.WriteOptions{Force: true})
			return err
		}
		o := r.New()
		if err := yaml.Unmarshal(data, o); err != nil {
			return err
		}
		o.GetObjectKind().SetGroupVersionKind(r.GVK())
		_, err := c.Create(ctx, r, o, client.WriteOptions{})
		return err
	}
	return errors.New("unknown verb")
}
