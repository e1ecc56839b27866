package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	defaultKubeVersion = "v1.36.4"
	hookAnnotation     = "helm.sh/hook"
	notesSuffix        = "NOTES.txt"
)

// maxArchive bounds what a packed subchart may unpack to.
const maxArchive = 32 << 20

// renderRelease renders the chart of a release into manifests.
func renderRelease(out *Rendered, n *node) {
	r := readRelease(out, n)
	if r == nil {
		return
	}
	if out.unit == nil || out.unit.CUE() {
		out.find(r.finding(nil, "", "Forbidden", "a CUE package cannot declare a HelmRelease", "declare it in a YAML or JSON file"))
		return
	}
	files := out.unit.charts[relative(r.file, r.chart)]
	if files == nil {
		files = &chartFiles{dir: relative(r.file, r.chart)}
	}
	if len(files.findings) > 0 {
		out.Findings = append(out.Findings, files.findings...)
		return
	}
	if _, ok := files.set.files[path.Join(files.dir, chartFile)]; !ok {
		out.find(r.finding(n.get("spec", "chart"), "spec.chart", "NotFound", "there is no chart in "+files.dir,
			"name the folder that has the "+chartFile+", relative to this file"))
		return
	}
	h := &helm{out: out, r: r, files: files, contents: map[string][]byte{}}
	if err := h.render(); err != nil {
		var f *findingError
		if errors.As(err, &f) {
			out.find(f.Finding)
			return
		}
		out.find(r.finding(nil, "", "Helm", err.Error(), ""))
	}
}

// findingError is an error that knows its place.
type findingError struct{ v1alpha1.Finding }

// Error implements error.
func (e *findingError) Error() string { return e.Message }

// helm renders one release.
type helm struct {
	out      *Rendered
	r        *releaseSpec
	files    *chartFiles
	contents map[string][]byte // by path in the repository
	chart    *chart.Chart
	values   valueSources
	origins  *origins
}

func (h *helm) render() error {
	c, err := h.load()
	if err != nil {
		return err
	}
	h.chart = c
	values, err := h.readValues()
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return h.chartError(err)
	}
	caps, err := h.capabilities()
	if err != nil {
		return err
	}
	top, err := util.ToRenderValuesWithSchemaValidation(c, values, common.ReleaseOptions{
		Name: h.r.name, Namespace: h.r.namespace, Revision: 1, IsInstall: true,
	}, caps, true)
	if err != nil {
		return h.chartError(err)
	}
	top["Capabilities"] = told{caps}
	if vals, ok := top["Values"].(common.Values); ok {
		if h.checkSchemas(c, vals, nil) {
			return nil
		}
	}
	if missing := missingDependencies(c); missing != "" {
		f := v1alpha1.Finding{File: path.Join(h.files.dir, chartFile), Line: 1, Column: 1, Rule: "Helm",
			Message: "the chart needs " + missing + ", which is not under charts/", Hint: "run helm dependency build, and commit charts/"}
		return &findingError{f}
	}
	made, err := h.execute(top)
	if err != nil {
		return err
	}
	h.origins = newOrigins(h)
	before := h.out.home
	h.out.home = h.r.home
	defer func() { h.out.home = before }()
	if !h.r.skipCRDs {
		h.definitions()
	}
	names := make([]string, 0, len(made.text))
	for name := range made.text {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !strings.HasSuffix(name, notesSuffix) {
			h.manifests(made, name)
		}
	}
	return nil
}

func (h *helm) chartError(err error) error {
	return &findingError{v1alpha1.Finding{File: path.Join(h.files.dir, chartFile), Line: 1, Column: 1, Rule: "Helm", Message: oneLine(err.Error())}}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// load reads the chart out of the files of the unit.
func (h *helm) load() (*chart.Chart, error) {
	var files []*archive.BufferedFile
	for _, f := range h.files.set.sorted() {
		data, err := f.read(maxFileSize)
		if err != nil {
			return nil, err
		}
		h.contents[f.Path] = data
		name := strings.TrimPrefix(f.Path, h.files.dir+"/")
		if h.files.dir == "." {
			name = f.Path
		}
		if path.Ext(name) == ".tgz" {
			if err := checkArchive(data); err != nil {
				return nil, &findingError{v1alpha1.Finding{File: f.Path, Rule: "Helm", Message: err.Error(), Hint: "pack it again with helm package"}}
			}
		}
		files = append(files, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))})
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, h.chartError(err)
	}
	sortDependencies(c)
	return c, nil
}

// sortDependencies undoes the random order in which the loader finds them.
func sortDependencies(c *chart.Chart) {
	deps := slices.Clone(c.Dependencies())
	slices.SortStableFunc(deps, func(a, b *chart.Chart) int { return strings.Compare(a.Name(), b.Name()) })
	c.SetDependencies(deps...)
	for _, d := range deps {
		sortDependencies(d)
	}
}

// checkArchive refuses an archive that grows out of bounds.
func checkArchive(data []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("is no chart archive: %w", err)
	}
	limited := &io.LimitedReader{R: z, N: maxArchive + 1}
	r := tar.NewReader(limited)
	for {
		_, err := r.Next()
		if limited.N <= 0 {
			return fmt.Errorf("unpacks to more than %s", megabytes(maxArchive))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("is no chart archive: %w", err)
		}
	}
}

// missingDependencies names what Chart.yaml lists and charts/ has not.
func missingDependencies(c *chart.Chart) string {
	var out []string
	for _, d := range c.Metadata.Dependencies {
		found := slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool {
			return sub.Name() == d.Name || sub.Name() == d.Alias
		})
		if !found && d.Enabled {
			out = append(out, d.Name+" "+d.Version)
		}
	}
	return strings.Join(out, ", ")
}

// told is the cluster as templates see it. Helm gives them a pointer, and a
// template that prints all it has would print an address, another one each time.
type told struct{ *common.Capabilities }

// String implements fmt.Stringer as a pointer prints where nothing is around it.
func (t told) String() string { return fmt.Sprintf("&%v", *t.Capabilities) }

// capabilities is the cluster that a release is for.
func (h *helm) capabilities() (*common.Capabilities, error) {
	version := h.r.kubeVersion
	if version == "" {
		version = defaultKubeVersion
	}
	kube, err := common.ParseKubeVersion(version)
	if err != nil {
		return nil, &findingError{h.r.finding(h.r.node.get("spec", "kubeVersion"), "spec.kubeVersion", "OutOfRange",
			fmt.Sprintf("%q is no version", version), "write it like "+defaultKubeVersion)}
	}
	if want := h.chart.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, kube.String()) {
		return nil, &findingError{v1alpha1.Finding{File: path.Join(h.files.dir, chartFile), Line: 1, Column: 1, Rule: "Helm",
			Message: fmt.Sprintf("the chart wants Kubernetes %s, and this is %s", want, kube.String()), Hint: "update the chart"}}
	}
	caps := common.DefaultCapabilities.Copy()
	caps.KubeVersion, caps.APIVersions = *kube, nil
	for _, r := range schema.Resources {
		if gv := r.GVK().GroupVersion().String(); !caps.APIVersions.Has(gv) {
			caps.APIVersions = append(caps.APIVersions, gv)
		}
		caps.APIVersions = append(caps.APIVersions, r.GVK().GroupVersion().String()+"/"+r.Kind)
	}
	for _, n := range h.r.versions {
		caps.APIVersions = append(caps.APIVersions, n.text)
	}
	return caps, nil
}

// definitions adds the files of crds/, which are no templates.
func (h *helm) definitions() {
	crds := h.chart.CRDObjects()
	slices.SortStableFunc(crds, func(a, b chart.CRD) int { return strings.Compare(a.Filename, b.Filename) })
	for _, crd := range crds {
		var bad Rendered
		src := h.source(crd.Filename)
		readYAML(&bad, src.file, crd.File.Data, func(n *node) {
			if src.packed {
				src.pin(n)
			}
			identify(h.out, n)
		})
		for _, f := range bad.Findings {
			h.out.find(src.pinFinding(f))
		}
	}
}

// manifests reads what one template made.
func (h *helm) manifests(made *executed, name string) {
	src := h.source(name)
	lines := made.lines(h, name)
	var bad Rendered
	readYAML(&bad, src.file, []byte(made.text[name]), func(n *node) {
		lines.place(n, nil)
		if n.kind != mapNode || len(n.fields) == 0 {
			identify(h.out, n)
			return
		}
		if h.isHook(n) {
			return
		}
		identify(h.out, n)
	})
	for _, f := range bad.Findings {
		h.out.find(lines.finding(f))
	}
}

// isHook says whether an object is left out because it is a hook; a hook that
// nobody has decided about is a finding.
func (h *helm) isHook(n *node) bool {
	hook := n.get("metadata", "annotations", hookAnnotation)
	if hook == nil {
		return false
	}
	tests := true
	for event := range strings.SplitSeq(hook.text, ",") {
		switch strings.TrimSpace(event) {
		case "test", "test-success", "test-failure":
		case "crd-install":
			return false
		default:
			tests = false
		}
	}
	switch {
	case tests || h.r.hooks == "Ignore":
		return true
	case h.r.hooks == "Apply":
		return false
	}
	f := at(hook.pos, "HelmHook", fmt.Sprintf("is a hook (%s), and there is no moment before or after a commit to run it", hook.text))
	f.Object, f.Field = n.str("kind")+"/"+n.str("metadata", "name"), "metadata.annotations"
	f.Hint = fmt.Sprintf("set spec.hooks in %s:%d to Ignore to leave hooks out, or to Apply to have them as plain objects", h.r.file, h.r.node.pos.Line())
	h.out.find(f)
	return true
}
