package impersonation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// group has what identities are made of.
const group = "authentication.k8s.io"

// many is from how many values on they are first asked for at once.
const many = 4

// question is a permission that it takes to have one part of an identity.
type question struct {
	authorizer.AttributesRecord
	// instead are asked one by one when this, which is for all, is refused.
	instead []authorizer.AttributesRecord
	// refused is why nobody may have that part.
	refused string
}

// questions are the permissions that it takes to be a user in this way.
func (w *way) questions(wanted *user.DefaultInfo) []question {
	all := []question{w.nameQuestion(wanted)}
	if wanted.UID != "" {
		all = append(all, ask(group, "uids", "", wanted.UID))
	}
	all = append(all, w.groupQuestions(wanted.Groups)...)
	return append(all, w.extraQuestions(wanted.Extra)...)
}

func ask(group, resource, sub, name string) question {
	return question{AttributesRecord: authorizer.AttributesRecord{APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Name: name}}
}

// api is the group of users, groups and service accounts: that of identities,
// but for impersonation of old.
func (w *way) api() string {
	if w.name == "" {
		return ""
	}
	return group
}

func (w *way) nameQuestion(wanted *user.DefaultInfo) question {
	q := ask(w.api(), "users", "", wanted.Name)
	if node, ok := nodeName(wanted.Name); ok && w.name != "" {
		q.Resource, q.Name = "nodes", node
		if w.name == associated {
			q.Name = "*" // whichever node it runs on
		}
	}
	if ns, name, err := serviceaccount.SplitUsername(wanted.Name); err == nil {
		q.Resource, q.Namespace, q.Name = "serviceaccounts", ns, name
	}
	return q
}

func (w *way) groupQuestions(groups []string) []question {
	each := make([]question, len(groups))
	for i, g := range groups {
		each[i] = ask(w.api(), "groups", "", g)
	}
	if w.name == "" {
		return each
	}
	none := ask(group, "groups", "", "")
	switch {
	case slices.Contains(groups, ""):
		none.refused = "impersonating the empty string group is not allowed"
	case slices.Contains(groups, user.SystemPrivilegedGroup):
		none.Name, none.refused = user.SystemPrivilegedGroup, "impersonating the system:masters group is not allowed"
	case len(groups) >= many:
		return []question{together(ask(group, "groups", "", "*"), each)}
	default:
		return each
	}
	return []question{none}
}

func (w *way) extraQuestions(extra map[string][]string) []question {
	var each []question
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		for _, v := range extra[key] {
			each = append(each, ask(group, "userextras", key, v))
		}
	}
	if w.name == "" || len(extra) == 0 {
		return each
	}
	if err := checkExtra(extra); err != nil {
		q := ask(group, "userextras", "", "")
		q.refused = err.Error()
		return []question{q}
	}
	if len(extra) >= many || len(each) >= many {
		return []question{together(ask(group, "userextras", "*", "*"), each)}
	}
	return each
}

// together asks for all at first, and only then for each.
func together(all question, each []question) question {
	for _, q := range each {
		all.instead = append(all.instead, q.AttributesRecord)
	}
	return all
}

// checkExtra refuses what no authenticator would say of a user.
func checkExtra(extra map[string][]string) error {
	at := field.NewPath("extra", "key")
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(at, key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		switch values := extra[key]; {
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}
