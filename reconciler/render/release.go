package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/ignore"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// A release is a chart of the repository with its values. It is declared by an
// object that is rendered and never stored:
//
//	apiVersion: writ.dev/v1alpha1
//	kind: HelmRelease
//	metadata: {name: shop, namespace: shop}
//	spec:
//	  chart: ./charts/shop         # relative to this file
//	  valuesFiles: [./shop.yaml]   # merged in this order, over those of the chart
//	  values: {replicas: 3}        # over all files
//	  includeCRDs: true            # the default
//	  hooks: Refuse                # the default; or Ignore, or Apply
//	  kubeVersion: v1.36.4         # the default: that of the cluster
//	  apiVersions: [monitoring.coreos.com/v1]   # beside the built-in ones
const (
	releaseKind  = "HelmRelease"
	releaseGroup = "writ.dev/"
	chartFile    = "Chart.yaml"
)

// maxReleaseFile is the size up to which a file is searched for releases.
const maxReleaseFile = 1 << 20

// release is what a file must be read for to know what its releases read.
type release struct {
	chart  string
	values []string
}

// chartFiles is what a release reads of one chart.
type chartFiles struct {
	dir      string
	set      fileSet
	findings []v1alpha1.Finding
}

func isRelease(n *node) bool {
	return n.str("kind") == releaseKind && strings.HasPrefix(n.str("apiVersion"), releaseGroup)
}

// addReleases adds to a unit the charts that one of its files asks for.
func (s *scanner) addReleases(u *Unit, f File) error {
	if !s.searches {
		return nil
	}
	releases, err := s.releasesOf(u, f)
	if err != nil || len(releases) == 0 {
		return err
	}
	for _, r := range releases {
		if err := s.addChart(u, relative(f.Path, r.chart)); err != nil {
			return err
		}
		for _, v := range r.values {
			p := relative(f.Path, v)
			vf, ok, err := s.index.file(p)
			var bad *FileError
			if err != nil && !errors.As(err, &bad) {
				return err
			}
			if ok {
				if u.values == nil {
					u.values = map[string]File{}
				}
				u.values[p] = vf
			}
		}
	}
	if u.format != formatKustomize {
		u.Hash = hashFiles(append([]File{f}, u.chartFiles()...), u.known()...)
	}
	return nil
}

// relative joins a path of a spec to the folder of the file that has it.
func relative(file, p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(path.Dir(file), p)
}

// chartFiles lists what the releases of a unit read beside its own files.
func (u *Unit) chartFiles() []File {
	var out []File
	for _, c := range u.charts {
		out = append(out, c.set.sorted()...)
	}
	for _, f := range u.values {
		out = append(out, f)
	}
	slices.SortFunc(out, byPath)
	return slices.CompactFunc(out, func(a, b File) bool { return a.Path == b.Path })
}

// releasesOf says which charts a file asks for. Nearly all files ask for none,
// and are parsed no further than it takes to see that.
func (s *scanner) releasesOf(u *Unit, f File) ([]release, error) {
	if found, ok := s.releases[f.Blob]; ok {
		return found, nil
	}
	found, ok := s.opts.Memory.recall(f.Blob, s.opts.hash())
	if !ok && f.Size <= maxReleaseFile {
		data, err := f.read(maxReleaseFile)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte(releaseKind)) && bytes.Contains(data, []byte(releaseGroup)) {
			asking := *u
			asking.opts = s.opts
			found = parseReleases(&asking, f.Path, data)
		}
	}
	if f.Blob != "" {
		s.releases[f.Blob] = found
	}
	return found, nil
}

func parseReleases(u *Unit, file string, data []byte) []release {
	var found []release
	out := &Rendered{unit: u}
	each := func(n *node) {
		for _, item := range append([]*node{n}, n.list("items")...) {
			if !isRelease(item) {
				continue
			}
			substitute(out, item)
			r := release{chart: item.str("spec", "chart")}
			for _, v := range item.list("spec", "valuesFiles") {
				r.values = append(r.values, v.text)
			}
			found = append(found, r)
		}
	}
	if path.Ext(file) == ".json" {
		readJSON(out, file, data, each)
	} else {
		readYAML(out, file, data, each)
	}
	return found
}

// addChart gathers the files of a chart, without those that its .helmignore
// names, as helm does.
func (s *scanner) addChart(u *Unit, dir string) error {
	if u.charts[dir] != nil {
		return nil
	}
	if u.charts == nil {
		u.charts = map[string]*chartFiles{}
	}
	c := &chartFiles{dir: dir}
	u.charts[dir] = c
	if !inside(dir) {
		return nil
	}
	files, err := s.index.below(dir)
	var bad *FileError
	if errors.As(err, &bad) {
		c.findings = append(c.findings, v1alpha1.Finding{File: bad.Path, Rule: bad.Rule, Message: bad.Message})
		return nil
	}
	if err != nil {
		return err
	}
	for p, b := range s.bad {
		if below(p, dir) {
			c.findings = append(c.findings, v1alpha1.Finding{File: p, Rule: b.Rule, Message: b.Message})
		}
	}
	rules, err := helmIgnore(dir, files)
	if err != nil {
		return err
	}
	for _, f := range files {
		if ignored(rules, strings.TrimPrefix(f.Path, dir+"/")) {
			continue
		}
		if !c.set.add(f) {
			c.findings = append(c.findings, c.set.finding(path.Join(dir, chartFile)))
			return nil
		}
	}
	return nil
}

func helmIgnore(dir string, files []File) (*ignore.Rules, error) {
	rules := ignore.Empty()
	for _, f := range files {
		if f.Path != path.Join(dir, ignore.HelmIgnore) {
			continue
		}
		data, err := f.read(1 << 16)
		if err != nil {
			return nil, err
		}
		if parsed, err := ignore.Parse(bytes.NewReader(data)); err == nil {
			rules = parsed
		}
	}
	rules.AddDefaults()
	return rules, nil
}

// ignored asks the rules about a file and the folders above it.
func ignored(rules *ignore.Rules, p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if rules.Ignore(dir, ignoreInfo{dir, true}) {
			return true
		}
	}
	return rules.Ignore(p, ignoreInfo{p, false})
}

// ignoreInfo is what the rules ask of a file.
type ignoreInfo struct {
	path string
	dir  bool
}

func (i ignoreInfo) Name() string       { return path.Base(i.path) }
func (i ignoreInfo) Size() int64        { return 0 }
func (i ignoreInfo) ModTime() time.Time { return time.Time{} }
func (i ignoreInfo) IsDir() bool        { return i.dir }
func (i ignoreInfo) Sys() any           { return nil }
func (i ignoreInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// releaseSpec is a release as it is declared.
type releaseSpec struct {
	node                  *node
	file                  string
	name, namespace       string
	home                  *node // the namespace, where it is written
	chart, hooks          string
	kubeVersion           string
	skipCRDs              bool
	values                *node
	valuesFiles, versions []*node
}

var releaseFields = map[string]nodeKind{
	"chart": stringNode, "values": mapNode, "valuesFiles": listNode, "includeCRDs": boolNode,
	"hooks": stringNode, "kubeVersion": stringNode, "apiVersions": listNode,
}

var kindNames = map[nodeKind]string{stringNode: "a string", mapNode: "a map", listNode: "a list", boolNode: "true or false"}

// readRelease reads and checks a declaration; nil when something is wrong.
func readRelease(out *Rendered, n *node) *releaseSpec {
	r := &releaseSpec{node: n, file: n.pos.Filename(), name: n.str("metadata", "name"), namespace: n.str("metadata", "namespace"),
		chart: n.str("spec", "chart"), hooks: n.str("spec", "hooks"), kubeVersion: n.str("spec", "kubeVersion"),
		values: n.get("spec", "values"), valuesFiles: n.list("spec", "valuesFiles"), versions: n.list("spec", "apiVersions")}
	before := len(out.Findings)
	bad := func(at *node, field, rule, message, hint string) { out.find(r.finding(at, field, rule, message, hint)) }
	spec := n.get("spec")
	if r.namespace == "" {
		r.namespace = defaultNamespace
	}
	r.home = &node{kind: stringNode, pos: n.pos, text: r.namespace}
	if at := n.get("metadata", "namespace"); at != nil {
		r.home.pos = at.pos
	}
	if r.name == "" {
		bad(n, "metadata.name", "Required", "metadata.name is required: it is the name of the release", "")
	}
	if r.chart == "" {
		bad(n, "spec.chart", "Required", "spec.chart is required: the folder of the chart, relative to this file", "chart: ./charts/web")
	}
	if spec != nil && spec.kind == mapNode {
		for _, f := range spec.fields {
			kind, ok := releaseFields[f.key]
			field := "spec." + f.key
			switch {
			case !ok:
				hint := ""
				if near := nearest(f.key, releaseFields); near != "" {
					hint = "did you mean " + near + "?"
				}
				bad(&node{pos: f.pos}, field, "UnknownField", "a HelmRelease has no field "+field, hint)
			case f.val.kind != kind && f.val.kind != nullNode:
				bad(f.val, field, "WrongType", field+" must be "+kindNames[kind], "")
			}
		}
	}
	if v := n.get("spec", "includeCRDs"); v != nil && v.text == "false" {
		r.skipCRDs = true
	}
	switch r.hooks {
	case "":
		r.hooks = "Refuse"
	case "Refuse", "Ignore", "Apply":
	default:
		bad(n.get("spec", "hooks"), "spec.hooks", "OutOfRange", fmt.Sprintf("spec.hooks is %q", r.hooks), "it must be Refuse, Ignore or Apply")
	}
	if isRemote(r.chart) || strings.HasPrefix(r.chart, "oci:") {
		bad(n.get("spec", "chart"), "spec.chart", "Forbidden", r.chart+" is not in this repository, and nothing is fetched while it is rendered",
			"commit the chart (helm pull --untar), and name its folder")
	}
	if len(out.Findings) > before {
		return nil
	}
	return r
}

func (r *releaseSpec) finding(at0 *node, field, rule, message, hint string) v1alpha1.Finding {
	pos := r.node.pos
	if at0 != nil {
		pos = at0.pos
	}
	f := at(pos, rule, message)
	f.Object, f.Field, f.Hint = releaseKind+"/"+r.namespace+"/"+r.name, field, hint
	return f
}
