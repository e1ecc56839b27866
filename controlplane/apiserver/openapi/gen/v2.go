package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
)

// swagger is the OpenAPI v2 document of everything, as JSON and as protobuf.
// It says what the v3 documents say, as far as the older form can.
func swagger(docs map[string]object) (doc, pb []byte, err error) {
	paths, definitions := map[string]any{}, map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		d, err := plain(docs[path])
		if err != nil {
			return nil, nil, err
		}
		for p, item := range d["paths"].(map[string]any) {
			paths[p] = pathItem(item.(map[string]any))
		}
		for name, s := range d["components"].(map[string]any)["schemas"].(map[string]any) {
			def := definition(s).(map[string]any)
			mergeKinds(def, definitions[name])
			definitions[name] = def
		}
	}
	var b bytes.Buffer
	for _, part := range []any{openapi.V2Head, paths, openapi.V2Definitions, definitions, openapi.V2Tail} {
		if text, ok := part.(string); ok {
			b.WriteString(text)
			continue
		}
		data, err := json.Marshal(part)
		if err != nil {
			return nil, nil, err
		}
		b.Write(data[1 : len(data)-1]) // the braces are in the texts
	}
	parsed, err := openapi_v2.ParseDocument(b.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("read the v2 document: %w", err)
	}
	pb, err = proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	return b.Bytes(), pb, err
}

// plain turns a document into what a JSON decoder makes of it.
func plain(doc object) (map[string]any, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var d map[string]any
	return d, json.Unmarshal(data, &d)
}

const kindsKey = "x-kubernetes-group-version-kind"

// mergeKinds adds the kinds that another document says a definition is.
func mergeKinds(def map[string]any, other any) {
	before, ok := other.(map[string]any)
	if !ok {
		return
	}
	have, _ := def[kindsKey].([]any)
	more, _ := before[kindsKey].([]any)
	for _, k := range more {
		if !slices.ContainsFunc(have, func(h any) bool { return fmt.Sprint(h) == fmt.Sprint(k) }) {
			have = append(have, k)
		}
	}
	if len(have) > 0 {
		slices.SortFunc(have, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		def[kindsKey] = have
	}
}

// definition turns a schema of v3 into one of v2.
func definition(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = definition(v[i])
		}
		return out
	case map[string]any:
		return definitionOf(v)
	case string:
		return strings.Replace(v, "#/components/schemas/", "#/definitions/", 1)
	}
	return v
}

func definitionOf(v map[string]any) map[string]any {
	out := map[string]any{}
	for k, x := range v {
		switch k {
		case "oneOf", "anyOf":
			out["type"] = "string" // IntOrString and Quantity
		case "nullable", "default":
		case "allOf":
			maps.Copy(out, definition(x.([]any)[0]).(map[string]any))
		case "properties":
			props := map[string]any{}
			for name, p := range x.(map[string]any) {
				props[name] = definition(p)
			}
			out[k] = props
		case "description":
			out[k] = x
		default:
			out[k] = definition(x)
		}
	}
	if len(out) == 1 && out["description"] != nil {
		out["type"] = "object"
	}
	return out
}

// pathItem turns the operations of a path into those of v2.
func pathItem(item map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range item {
		if k == "parameters" {
			if list := parameters(v); len(list) > 0 {
				out[k] = list
			}
			continue
		}
		out[k] = operation(v.(map[string]any))
	}
	return out
}

func operation(op map[string]any) map[string]any {
	out := map[string]any{"consumes": []any{"*/*"}, "schemes": []any{"https"}}
	var params []any
	if body, ok := op["requestBody"].(map[string]any); ok {
		content := body["content"].(map[string]any)
		types := slices.Sorted(maps.Keys(content))
		if op["x-kubernetes-action"] == "patch" {
			out["consumes"] = types
		}
		params = append(params, map[string]any{
			"in": "body", "name": "body", "required": true, "schema": definition(content[types[0]].(map[string]any)["schema"]),
		})
	}
	for k, v := range op {
		switch k {
		case "requestBody":
		case "parameters":
			params = append(params, parameters(v)...)
		case "responses":
			out["responses"], out["produces"] = responses(v.(map[string]any))
		default:
			out[k] = v
		}
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	return out
}

func responses(all map[string]any) (out map[string]any, produces []any) {
	out = map[string]any{}
	for code, v := range all {
		r := v.(map[string]any)
		o := map[string]any{"description": r["description"]}
		if content, ok := r["content"].(map[string]any); ok {
			types := slices.Sorted(maps.Keys(content))
			produces = nil
			for _, t := range types {
				produces = append(produces, t)
			}
			o["schema"] = definition(content[types[0]].(map[string]any)["schema"])
		}
		out[code] = o
	}
	return out, produces
}

func parameters(v any) []any {
	list, _ := v.([]any)
	out := make([]any, 0, len(list))
	for _, p := range list {
		m := maps.Clone(p.(map[string]any))
		if s, ok := m["schema"].(map[string]any); ok {
			delete(m, "schema")
			maps.Copy(m, s)
		}
		out = append(out, m)
	}
	return out
}
