package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// grants allow what they name, "verb resource[/sub] name", and keep what they
// were asked.
type grants struct {
	allow []string
	asked []string
}

func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	q := strings.TrimSpace(fmt.Sprintf("%s %s %s", a.GetVerb(), resource, a.GetName()))
	g.asked = append(g.asked, q)
	if slices.Contains(g.allow, q) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no grant", nil
}

func list(who user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: who, Verb: "list", Namespace: "shop", APIVersion: "v1", Resource: "pods", ResourceRequest: true}
}

var (
	alice = &user.DefaultInfo{Name: "alice"}
	agent = &user.DefaultInfo{Name: "system:serviceaccount:shop:agent", Extra: map[string][]string{serviceaccount.NodeNameKey: {"n1"}, "other": {"x"}}}
)

func TestUser(t *testing.T) {
	for _, tt := range []struct {
		name   string
		who    user.Info
		wanted user.DefaultInfo
		allow  string // grants, by ";"
		want   string // groups and constraint, or the refusal
	}{
		{"old", alice, user.DefaultInfo{Name: "bob"}, "impersonate users bob", "[system:authenticated] "},
		{"old, all parts", alice, user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"team": {"red"}}},
			"impersonate users bob;impersonate uids 7;impersonate groups dev;impersonate userextras/team red", "[dev system:authenticated] "},
		{"old, a group short", alice, user.DefaultInfo{Name: "bob", Groups: []string{"dev", "ops"}}, "impersonate users bob;impersonate groups dev", "impersonate-on:user-info:list pods"},
		{"old, masters", alice, user.DefaultInfo{Name: "bob", Groups: []string{user.SystemPrivilegedGroup}}, "impersonate users bob;impersonate groups system:masters", "[system:masters system:authenticated] "},
		{"anonymous", alice, user.DefaultInfo{Name: user.Anonymous}, "impersonate users system:anonymous", "[system:unauthenticated] "},
		{"constrained", alice, user.DefaultInfo{Name: "bob", Groups: []string{"dev"}},
			"impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups dev", "[dev system:authenticated] impersonate:user-info"},
		{"constrained, not that", alice, user.DefaultInfo{Name: "bob"}, "impersonate-on:user-info:get pods;impersonate:user-info users bob", "impersonate-on:user-info:list pods"},
		{"constrained, not whom", alice, user.DefaultInfo{Name: "bob"}, "impersonate-on:user-info:list pods", "impersonate:user-info users bob"},
		{"constrained, never masters", alice, user.DefaultInfo{Name: "bob", Groups: []string{user.SystemPrivilegedGroup}},
			"impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups system:masters",
			"impersonate:user-info groups system:masters: impersonating the system:masters group is not allowed"},
		{"constrained, many groups", alice, user.DefaultInfo{Name: "bob", Groups: []string{"a", "b", "c", "d"}},
			"impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups *", "[a b c d system:authenticated] impersonate:user-info"},
		{"constrained, many groups one by one", alice, user.DefaultInfo{Name: "bob", Groups: []string{"a", "b", "c", "d"}},
			"impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups a;impersonate:user-info groups b;impersonate:user-info groups c", "impersonate:user-info groups d"},
		{"constrained, bad key", alice, user.DefaultInfo{Name: "bob", Extra: map[string][]string{"team": {"red"}}},
			"impersonate-on:user-info:list pods;impersonate:user-info users bob", "impersonate:user-info userextras: impersonating an invalid key in extra is not allowed"},
		{"account", alice, user.DefaultInfo{Name: "system:serviceaccount:shop:web"}, "impersonate-on:serviceaccount:list pods;impersonate:serviceaccount serviceaccounts web",
			"[system:serviceaccounts system:serviceaccounts:shop system:authenticated] impersonate:serviceaccount"},
		{"account of old", alice, user.DefaultInfo{Name: "system:serviceaccount:shop:web", Groups: []string{"g"}}, "impersonate serviceaccounts web;impersonate groups g", "[g system:authenticated] "},
		{"any node", alice, user.DefaultInfo{Name: "system:node:n2"}, "impersonate-on:arbitrary-node:list pods;impersonate:arbitrary-node nodes n2", "[system:nodes system:authenticated] impersonate:arbitrary-node"},
		{"a node with groups", alice, user.DefaultInfo{Name: "system:node:n2", Groups: []string{user.NodesGroup}}, "", "impersonate users system:node:n2"},
		{"its own node", agent, user.DefaultInfo{Name: "system:node:n1"}, "impersonate-on:associated-node:list pods;impersonate:associated-node nodes *", "[system:nodes system:authenticated] impersonate:associated-node"},
		{"another's node", agent, user.DefaultInfo{Name: "system:node:n2"}, "impersonate-on:associated-node:list pods;impersonate:associated-node nodes *", "impersonate-on:arbitrary-node:list pods"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &grants{allow: strings.Split(tt.allow, ";")}
			u, constraint, err := New(g).User(t.Context(), &tt.wanted, list(tt.who))
			if err == nil {
				if got := fmt.Sprintf("%v %s", u.GetGroups(), constraint); got != tt.want || u.GetName() != tt.wanted.Name {
					t.Fatalf("%s %s, want %s; asked %q", u.GetName(), got, tt.want, g.asked)
				}
				return
			}
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatal(err)
			}
			resource := r.Attributes.GetResource()
			got := strings.TrimSpace(r.Attributes.GetVerb()+" "+resource+" "+r.Attributes.GetName()) + ": " + r.Reason
			if !strings.HasPrefix(got, tt.want) {
				t.Fatalf("refused %s, want %s; asked %q", got, tt.want, g.asked)
			}
		})
	}
}

// TestLastWayFirst: who succeeded in one way is asked for it first, and told of
// it when it is refused.
func TestLastWayFirst(t *testing.T) {
	g := &grants{allow: []string{"impersonate users bob"}}
	c := New(g)
	if _, _, err := c.User(t.Context(), &user.DefaultInfo{Name: "bob"}, list(alice)); err != nil {
		t.Fatal(err)
	}
	g.asked = nil
	if _, _, err := c.User(t.Context(), &user.DefaultInfo{Name: "bob"}, list(alice)); err != nil || len(g.asked) != 1 {
		t.Errorf("asked %q: %v", g.asked, err)
	}
	_, _, err := c.User(t.Context(), &user.DefaultInfo{Name: "carol"}, list(alice))
	var r *Refusal
	if !errors.As(err, &r) || r.Attributes.GetVerb() != "impersonate" || r.Attributes.GetName() != "carol" {
		t.Errorf("refused: %v", err)
	}
}

func TestWanted(t *testing.T) {
	h := http.Header{
		"Impersonate-User": {"bob"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"a", "b"},
		"Impersonate-Extra-Example.com%2fteam": {"red"}, "Impersonate-Extra-Bad%zz": {"x"}, "Accept": {"*/*"},
	}
	u, err := Wanted(h)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", *u); got != "{Name:bob UID:7 Groups:[a b] Extra:map[bad%zz:[x] example.com/team:[red]]}" {
		t.Errorf("wanted %s", got)
	}
	if len(h) != 1 || h.Get("Accept") == "" {
		t.Errorf("headers left: %v", h)
	}
	if u, err := Wanted(h); u != nil || err != nil {
		t.Errorf("no headers: %v %v", u, err)
	}
	for _, name := range []string{"Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-X"} {
		if _, err := Wanted(http.Header{name: {"x"}}); err == nil || !strings.Contains(err.Error(), "without impersonating a user name") {
			t.Errorf("%s alone: %v", name, err)
		}
	}
}
