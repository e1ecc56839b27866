package main

import (
	"strings"

	"github.com/writ-os/writ/schema"
)

// operations of one resource: the paths that clients look a kind up by, and
// the parameters by which they see what the server supports.
func resourcePaths(r *schema.Resource, refs kindRefs, paths object) {
	base := apiPath(r)
	collection := base + "/" + r.Plural
	if r.Namespaced {
		paths[collection] = object{"get": refs.operation("list", "ForAllNamespaces", refs.list, listParams), "parameters": []object{}}
		collection = base + "/namespaces/{namespace}/" + r.Plural
	}
	scope := pathParams(r)
	paths[collection] = object{
		"parameters": scope,
		"get":        refs.operation("list", "", refs.list, listParams),
		"post":       refs.withBody(refs.operation("post", "", refs.object, writeParams), refs.object, allBodies),
	}
	if r.String() != "namespaces" {
		paths[collection].(object)["delete"] = refs.operation("deletecollection", "", refs.status, append(listParams, deleteParams...))
	}
	item := collection + "/{name}"
	paths[item] = object{
		"parameters": append([]object{param("path", "name", "string", "name of the "+r.Kind)}, scope...),
		"get":        refs.operation("get", "", refs.object, nil),
		"put":        refs.withBody(refs.operation("put", "", refs.object, writeParams), refs.object, allBodies),
		"patch":      refs.withBody(refs.operation("patch", "", refs.object, patchParams), refs.patch, patchBodies),
		"delete":     refs.operation("delete", "", refs.status, deleteParams),
	}
	for _, sub := range editable(r) {
		paths[item+"/"+sub] = object{
			"parameters": paths[item].(object)["parameters"],
			"get":        refs.operation("get", title(sub), refs.object, nil),
			"put":        refs.withBody(refs.operation("put", title(sub), refs.object, writeParams), refs.object, allBodies),
			"patch":      refs.withBody(refs.operation("patch", title(sub), refs.object, patchParams), refs.patch, patchBodies),
		}
	}
}

// reviewPath is the one path of a resource that is only posted.
func reviewPath(r *schema.Resource, refs kindRefs, paths object) {
	p := apiPath(r) + "/" + r.Plural
	if r.Namespaced {
		p = apiPath(r) + "/namespaces/{namespace}/" + r.Plural
	}
	paths[p] = object{
		"parameters": pathParams(r),
		"post":       refs.withBody(refs.operation("post", "", refs.object, writeParams), refs.object, allBodies),
	}
}

// editable are the subresources that have the shape of their object.
func editable(r *schema.Resource) []string {
	var subs []string
	if r.Status {
		subs = append(subs, "status")
	}
	for _, s := range r.Subresources {
		if s == "ephemeralcontainers" || s == "resize" || s == "approval" {
			subs = append(subs, s)
		}
	}
	return subs
}

func apiPath(r *schema.Resource) string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}

// kindRefs are the schemas that the operations of a kind speak.
type kindRefs struct {
	r                           *schema.Resource
	object, list, patch, status object
}

var (
	allBodies   = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	patchBodies = []string{
		"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
	}
)

// operation describes one verb.
func (k kindRefs) operation(verb, suffix string, answer object, params []object) object {
	content := object{}
	for _, m := range allBodies {
		content[m] = object{"schema": answer}
	}
	id := map[string]string{"post": "create", "put": "replace", "get": "read", "deletecollection": "deleteCollection"}[verb]
	if id == "" {
		id = verb
	}
	scope := ""
	if k.r.Namespaced && suffix != "ForAllNamespaces" {
		scope = "Namespaced"
	}
	op := object{
		"operationId":         id + title(groupWord(k.r.Group)) + title(k.r.Version) + scope + k.r.Kind + suffix,
		"description":         description(id, k.r.Kind),
		"tags":                []string{groupWord(k.r.Group) + "_" + k.r.Version},
		"x-kubernetes-action": verb,
		"x-kubernetes-group-version-kind": object{
			"group": k.r.Group, "version": k.r.Version, "kind": k.r.Kind,
		},
		"responses": object{
			"200": object{"description": "OK", "content": content},
			"401": object{"description": "Unauthorized"},
		},
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

func (k kindRefs) withBody(op, body object, media []string) object {
	content := object{}
	for _, m := range media {
		content[m] = object{"schema": body}
	}
	op["requestBody"] = object{"required": true, "content": content}
	return op
}

func description(verb, kind string) string {
	switch verb {
	case "list":
		return "list or watch objects of kind " + kind
	case "patch":
		return "partially update the specified " + kind
	case "deleteCollection":
		return "delete collection of " + kind
	case "create", "delete":
		return verb + " a " + kind
	}
	return verb + " the specified " + kind
}

func groupWord(group string) string {
	if group == "" {
		return "core"
	}
	word, _, _ := strings.Cut(group, ".")
	return word
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
