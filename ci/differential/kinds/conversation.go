package main

import (
	"fmt"
	"strings"
)

type fields = map[string]any

const (
	asTable    = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"
	asMetadata = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asList     = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	merge      = "Content-Type: application/merge-patch+json"
)

// conversation is what a kind goes through. Whole objects are asked for where
// something new can be seen in them, metadata elsewhere.
func (k kind) conversation() string {
	var out strings.Builder
	title := strings.ReplaceAll(strings.TrimPrefix(k.apiVersion(), k.group()+"/"), "/", " ") + " " + k.plural
	say := func(what, method, path, body string, headers ...string) {
		fmt.Fprintf(&out, "-- %s: %s/request --\n%s %s\n", title, what, method, path)
		for _, h := range headers {
			fmt.Fprintln(&out, h)
		}
		if body != "" {
			fmt.Fprintf(&out, "\n%s\n", body)
		}
	}
	all, name := k.collection(), k.name()
	one := all + "/" + name
	if !k.stays {
		say("nothing but a name", "POST", all, encode(fields{"apiVersion": k.object["apiVersion"], "kind": k.object["kind"], "metadata": fields{"name": name}}))
		say("take it away", "DELETE", one+"?gracePeriodSeconds=0", "", asMetadata)
	}
	say("bad name", "POST", all, k.with(fields{"name": "Bad_Name"}, nil))
	say("unknown field", "POST", all+"?fieldValidation=Strict", k.with(fields{"name": name}, fields{"unknown": 1}))
	say("create", "POST", all, k.with(fields{"name": name}, nil), "Save: rv=metadata.resourceVersion")
	say("create again", "POST", all, k.with(fields{"name": name}, nil))
	say("table", "GET", one, "", asTable)
	say("list", "GET", all+"?fieldSelector=metadata.name%3D"+name, "", asList)
	say("update", "PUT", one+"?fieldManager=putter", k.with(fields{"name": name, "resourceVersion": "${rv}", "labels": fields{"l": "m"}}, nil), k.binary()...)
	say("watch", "GET", all+"?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D"+name+"&resourceVersion=${rv}", "", asMetadata, "Events: 1")
	say("patch", "PATCH", one+"?fieldManager=patcher", encode(fields{"metadata": fields{"annotations": fields{"a": "b"}}}), merge, asMetadata)
	say("strategic patch", "PATCH", one, encode(fields{"metadata": fields{"labels": fields{"l": nil, "s": "p"}}}), "Content-Type: application/strategic-merge-patch+json", asMetadata)
	say("JSON patch", "PATCH", one, `[{"op":"add","path":"/metadata/labels/j","value":"p"}]`, "Content-Type: application/json-patch+json", asMetadata)
	say("apply", "PATCH", one+"?fieldManager=applier&force=true", k.with(fields{"name": name, "labels": fields{"l": "a"}}, nil), "Content-Type: application/apply-patch+yaml")
	if k.status {
		say("get status", "GET", one+"/status", "", asMetadata)
		say("patch status", "PATCH", one+"/status?fieldManager=status", encode(fields{"metadata": fields{"labels": fields{"from": "status"}}, "status": fields{}}), merge)
		say("unknown status", "PATCH", one+"/status?fieldValidation=Strict", encode(fields{"status": fields{"unknown": 1}}), merge)
	}
	if k.scale {
		say("get scale", "GET", one+"/scale", "")
		say("patch scale", "PATCH", one+"/scale?fieldManager=scaler", `{"spec":{"replicas":0}}`, merge)
	}
	say("delete dry", "DELETE", one+"?dryRun=All", "")
	say("delete", "DELETE", one+"?gracePeriodSeconds=0&propagationPolicy=Background", "", asMetadata)
	say("delete collection", "DELETE", all+"?labelSelector=none%3Dnone", "")
	return out.String()
}

// binary asks in protobuf where the kind has it.
func (k kind) binary() []string {
	switch k.group() {
	case "apiextensions.k8s.io", "apiregistration.k8s.io": // not among the library's types
		return nil
	}
	return []string{"Encode: protobuf", "Accept: application/vnd.kubernetes.protobuf"}
}
