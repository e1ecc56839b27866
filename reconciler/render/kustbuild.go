package render

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// buildRoot is where the repository lies in the file system of a build.
const buildRoot = "/repository"

const (
	originAnnotation  = "config.kubernetes.io/origin"
	originAnnotations = "originAnnotations"
)

// build runs kustomize over the files of the unit and no others.
func (b *build) build(out *Rendered) error {
	fs, contents, err := b.fileSystem(out)
	if err != nil || len(out.Findings) > 0 {
		return err
	}
	p := newPlaces(b, contents)
	if len(p.findings) > 0 {
		out.Findings = p.findings
		return nil
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone // the file system has nothing else
	made, err := krusty.MakeKustomizer(options).Run(fs, path.Join(buildRoot, b.root.dir))
	if err != nil {
		b.fail(out, fs.from(err.Error()))
		return nil
	}
	size := 0
	for _, res := range made.Resources() {
		text, err := textOf(res)
		if err != nil {
			b.fail(out, err.Error())
			continue
		}
		if size += len(text); size > maxOutput {
			out.find(v1alpha1.Finding{File: out.unit.Path, Rule: "TooLarge", Message: "makes more than " + megabytes(maxOutput) + " of manifests", Hint: "split it"})
			return nil
		}
		b.collect(out, p, text)
	}
	return nil
}

// textOf is a resource as YAML. Its own AsYAML fails where a value has a
// character that YAML wants written as an escape, and JSON does not.
func textOf(res *resource.Resource) ([]byte, error) {
	data, err := res.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		if r == 0x7f || 0x80 <= r && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return sigsyaml.JSONToYAML(b.Bytes())
}

// collect reads one object that was built, and gives its fields their places.
func (b *build) collect(out *Rendered, p *places, text []byte) {
	var bad Rendered
	readYAML(&bad, b.root.file.Path, text, func(n *node) {
		origin := n.str("metadata", "annotations", originAnnotation)
		if !b.keepsOrigin() {
			dropAnnotation(n, originAnnotation)
		}
		p.place(n, origin)
		identify(out, n)
	})
	for _, f := range bad.Findings {
		f.Line, f.Column = 1, 1
		out.find(f)
	}
}

// dropAnnotation removes an annotation, and the map that it leaves empty.
func dropAnnotation(n *node, name string) {
	annotations := n.get("metadata", "annotations")
	annotations.remove(name)
	if annotations != nil && len(annotations.fields) == 0 {
		n.get("metadata").remove("annotations")
	}
}

// keepsOrigin says whether the author wants the origins in the objects.
func (b *build) keepsOrigin() bool {
	for _, n := range b.root.root.list("buildMetadata") {
		if n.text == originAnnotations {
			return true
		}
	}
	return false
}

// fileSystem holds what the build may read, and the contents by path.
func (b *build) fileSystem(out *Rendered) (*oddNames, map[string][]byte, error) {
	fs := newOddNames(b.files.sorted())
	contents := make(map[string][]byte, len(b.files.files))
	for _, f := range b.files.sorted() {
		data, err := f.read(maxFileSize)
		if err != nil {
			return nil, nil, err
		}
		opened := out.open(f.Path, data)
		out.Findings = append(out.Findings, opened.Findings...)
		data = opened.Data
		contents[f.Path] = data
		if f.Path == b.root.file.Path && !b.keepsOrigin() {
			if data, err = withOrigin(data); err != nil {
				return nil, nil, fmt.Errorf("rewrite %s: %w", f.Path, err)
			}
		}
		if err := fs.WriteFile(path.Join(buildRoot, f.Path), data); err != nil {
			out.find(v1alpha1.Finding{File: f.Path, Line: 1, Column: 1, Rule: "Kustomize", Message: "kustomize cannot read the file: " + oneLine(err.Error()), Hint: "give it another name"})
		}
	}
	return fs, contents, nil
}

// withOrigin asks kustomize to note where each object comes from.
func withOrigin(data []byte) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc == nil {
		doc = map[string]any{}
	}
	list, _ := doc["buildMetadata"].([]any)
	doc["buildMetadata"] = append(list, originAnnotations)
	var b bytes.Buffer
	err := yaml.NewEncoder(&b).Encode(doc)
	return b.Bytes(), err
}

var kustomizeNoise = regexp.MustCompile(`^(accumulating resources?|accumulation err='|accumulate|recursed accumulation of path '[^']*'|accumulating components?|loading KV pairs)(: | from '[^']*': )?`)

// fail turns an error of kustomize into a finding at the file that it names
// last: kustomize wraps errors from the outside in.
func (b *build) fail(out *Rendered, message string) {
	message = strings.ReplaceAll(oneLine(message), buildRoot+"/", "")
	f := v1alpha1.Finding{File: b.root.file.Path, Line: 1, Column: 1, Rule: "Kustomize"}
	last := -1
	for _, k := range b.all {
		for _, file := range append([]File{k.file}, k.files...) {
			for _, name := range []string{file.Path, "'" + path.Base(file.Path) + "'"} {
				if i := strings.LastIndex(message, name); i > last {
					last, f.File = i, file.Path
				}
			}
		}
	}
	message, _, _ = strings.Cut(message, "': must build at directory")
	b.placeFailure(&f, message)
	for {
		short := kustomizeNoise.ReplaceAllString(message, "")
		if short == message {
			break
		}
		message = short
	}
	f.Message = strings.TrimSpace(strings.TrimPrefix(message, "MalformedYAMLError: "))
	out.find(f)
}

var (
	yamlErrorLine = regexp.MustCompile(`line (\d+)`)
	quotedName    = regexp.MustCompile(`"([^"]+)"|'([^']+)'|name:([A-Za-z0-9.-]+)`)
)

// placeFailure looks for what the message names in the kustomizations.
func (b *build) placeFailure(f *v1alpha1.Finding, message string) {
	if m := yamlErrorLine.FindStringSubmatch(message); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // digits
		return
	}
	for _, m := range quotedName.FindAllStringSubmatch(message, -1) {
		name := m[1] + m[2] + m[3]
		for _, k := range b.all {
			if n := findText(k.root, name); n != nil {
				f.File, f.Line, f.Column = n.pos.Filename(), n.pos.Line(), n.pos.Column()
				if before, _, ok := strings.Cut(n.text, name); ok && n.style == blockStyle {
					f.Line, f.Column = f.Line+1+strings.Count(before, "\n"), 1
				}
				return
			}
		}
	}
}

// findText finds the first string of a value that is text, or, of a path into
// an object, the first that has it.
func findText(n *node, text string) *node {
	if n == nil || text == "" {
		return nil
	}
	if n.kind == stringNode && (n.text == text || text[0] == '/' && n.style == blockStyle && strings.Contains(n.text, text)) {
		return n
	}
	for _, f := range n.fields {
		if m := findText(f.val, text); m != nil {
			return m
		}
	}
	for _, item := range n.items {
		if m := findText(item, text); m != nil {
			return m
		}
	}
	return nil
}
