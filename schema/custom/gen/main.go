// Command gen writes the OpenAPI documents of a definition by upstream's own
// builder: with -template those that package custom makes all others from
// (openapi/*.json.gz), otherwise the golden files of its tests:
//
//	go run gen/main.go -template openapi
//	go run gen/main.go testdata/widgets.yaml testdata/clusters.yaml
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"sigs.k8s.io/yaml"
)

// template has names that occur in no text of upstream.
const template = `
spec:
  group: zzg.zzd
  names: {kind: Zzkind, listKind: ZzListKind, plural: zzplurals}
  versions:
  - name: zzv
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object}}
`

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-template" {
		for _, scope := range []string{"Namespaced", "Cluster"} {
			def := read([]byte(template))
			def.Spec.Scope = apiextensionsv1.ResourceScope(scope)
			for form, doc := range build(def, "zzv") {
				write(filepath.Join(os.Args[2], strings.ToLower(scope)+"."+form+".json.gz"), zip(encode(doc, "")))
			}
		}
		return
	}
	for _, name := range os.Args[1:] {
		data, err := os.ReadFile(name)
		check(err)
		def := read(data)
		for _, v := range def.Spec.Versions {
			for form, doc := range build(def, v.Name) {
				write(fmt.Sprintf("%s.%s.%s.json.gz", strings.TrimSuffix(name, ".yaml"), v.Name, form), zip(encode(doc, " ")))
			}
		}
	}
}

func read(data []byte) *apiextensionsv1.CustomResourceDefinition {
	def := &apiextensionsv1.CustomResourceDefinition{}
	check(yaml.UnmarshalStrict(data, def))
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(def)
	return def
}

// build has the options of upstream's controllers.
func build(def *apiextensionsv1.CustomResourceDefinition, version string) map[string]any {
	v3, err := builder.BuildOpenAPIV3(def, version, builder.Options{IncludeSelectableFields: true})
	check(err)
	v2, err := builder.BuildOpenAPIV2(def, version, builder.Options{V2: true, IncludeSelectableFields: true})
	check(err)
	v2.Definitions = handler.PruneDefaults(v2.Definitions)
	return map[string]any{"v2": v2, "v3": v3}
}

func encode(doc any, indent string) []byte {
	data, err := json.Marshal(doc)
	check(err)
	var b bytes.Buffer
	if indent == "" {
		check(json.Compact(&b, data))
	} else {
		check(json.Indent(&b, data, "", indent))
	}
	return b.Bytes()
}

func zip(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	check(err)
	_, err = w.Write(data)
	check(err)
	check(w.Close())
	return b.Bytes()
}

func write(name string, data []byte) { check(os.WriteFile(name, data, 0o644)) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
