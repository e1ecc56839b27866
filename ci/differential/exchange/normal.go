package exchange

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// shown are the headers that are compared.
var shown = []string{"Warning", "Allow", "Location", "Retry-After", "Www-Authenticate"}

// render writes a response without what differs from run to run.
func render(resp *http.Response, docs []any, saved values) (string, error) {
	n := normal{saved: saved}
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", resp.StatusCode, resp.Header.Get("Content-Type"))
	for _, name := range shown {
		for _, v := range resp.Header.Values(name) {
			fmt.Fprintf(&out, "%s: %s\n", name, n.text(v))
		}
	}
	for i, d := range docs {
		out.WriteString(map[bool]string{true: "\n", false: "---\n"}[i == 0])
		if s, ok := d.(string); ok {
			out.WriteString(strings.TrimSuffix(n.text(s), "\n") + "\n")
			continue
		}
		data, err := yaml.Marshal(n.value("", d))
		if err != nil {
			return "", err
		}
		out.Write(data)
	}
	return out.String(), nil
}

// normal replaces what differs from run to run.
type normal struct{ saved values }

// mark are the keys whose non-empty values are never the same twice.
var mark = map[string]string{"uid": "<uid>", "resourceVersion": "<rv>", "continue": "<continue>", "token": "<token>", "caBundle": "<ca>",
	"auditID": "<audit>", "serverAddress": "<server>"}

// asked are the node ports that requests name: they are no accident.
var asked = []int{31001, 31002, 31007}

func (n normal) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return n.object(key, v)
	case []any:
		out := []any{}
		for _, e := range v {
			if !ours(e) {
				out = append(out, n.value(key, e))
			}
		}
		if key == "managedFields" {
			slices.SortStableFunc(out, byManager)
		}
		return out
	case json.Number:
		if port, err := strconv.Atoi(v.String()); err == nil && strings.HasSuffix(strings.ToLower(key), "nodeport") && port >= 30000 && port < 32768 && !slices.Contains(asked, port) {
			return "<port>"
		}
		return v
	case string:
		if m := mark[key]; m != "" && v != "" && v != "0" {
			return m
		}
		return n.text(v)
	}
	return v
}

// byManager is an order that does not depend on when a second ended, as that by
// time does.
func byManager(a, b any) int {
	text := func(v any) string {
		m, _ := v.(map[string]any) //nolint:errcheck // nil will do
		return fmt.Sprint(m["operation"], m["manager"], m["apiVersion"], m["subresource"])
	}
	return strings.Compare(text(a), text(b))
}

func (n normal) object(key string, m map[string]any) any {
	if key == "fieldsV1" {
		data, err := json.Marshal(m) // sorted, and short
		if err == nil {
			return string(data)
		}
	}
	if m["kind"] == "Table" {
		n.ages(m)
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = n.value(k, v)
	}
	if prefix, ok := m["generateName"].(string); ok {
		if name, ok := m["name"].(string); ok && strings.HasPrefix(name, prefix) {
			out["name"] = prefix + "<random>"
		}
	}
	return out
}

var age = regexp.MustCompile(`^(\d+[smhdy])+( ago)?$`)

// ages replaces the cells of a Table that say how long ago.
func (n normal) ages(table map[string]any) {
	rows, _ := table["rows"].([]any) //nolint:errcheck // none
	for _, r := range rows {
		row, _ := r.(map[string]any)     //nolint:errcheck // none
		cells, _ := row["cells"].([]any) //nolint:errcheck // none
		for i, c := range cells {
			if s, ok := c.(string); ok && age.MatchString(s) {
				cells[i] = "<age>"
			}
		}
	}
}

// ours says that an element of a list is this project's own: its group, or one
// of its kinds. Upstream has none of them.
func ours(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	meta, _ := m["metadata"].(map[string]any) //nolint:errcheck // none
	for _, name := range []any{m["name"], m["groupVersion"], meta["name"]} {
		if s, ok := name.(string); ok && strings.Contains(s, "writ.dev") {
			return true
		}
	}
	return false
}

var patterns = []struct {
	re *regexp.Regexp
	to func(string) string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), func(s string) string {
		if len(slices.Compact([]byte(s[:8]))) == 1 { // 11111111-...: the request's
			return s
		}
		return "<uid>"
	}},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), recent},
	{regexp.MustCompile(`\b10\.96\.\d+\.\d+\b`), address},
	{regexp.MustCompile(`too old resource version: \d+ \(\d+\)`), constant("too old resource version: <rv> (<rv>)")},
	{regexp.MustCompile(`, current: \d+`), constant(", current: <rv>")},
	{regexp.MustCompile(`ResourceVersion in object meta: \d+`), constant("ResourceVersion in object meta: <rv>")},
	{regexp.MustCompile(`\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`), constant("<jwt>")},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), constant("<server>")},
	{regexp.MustCompile(`https://[\d.]+:\d+/`), constant("https://<server>/")},
	{regexp.MustCompile(`:3[0-2]\d{3}/`), nodePort},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]+`), constant("X509SHA256=<hash>")},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), constant("kube-api-access-<random>")},
	// The whole object, in the order of upstream's types.
	{regexp.MustCompile(`(?s)Invalid value: "\{\\"(apiVersion|kind|metadata)\\".*\}":`), constant(`Invalid value: "<object>":`)},
}

// nodePort hides node ports that the server chose, in texts.
func nodePort(s string) string {
	port, err := strconv.Atoi(strings.Trim(s, ":/"))
	if err != nil || port >= 32768 || slices.Contains(asked, port) {
		return s
	}
	return ":<port>/"
}

func constant(to string) func(string) string { return func(string) string { return to } }

// recent hides times of about now; others are the request's.
func recent(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil || time.Since(t).Abs() > 48*time.Hour:
		return s
	case strings.Contains(s, "."):
		return "<microtime>"
	}
	return "<time>"
}

// known are the Service addresses that requests name, and those of the cluster
// itself.
var known = regexp.MustCompile(`^10\.96\.(0\.(0|1|10)|100\.([1-9]|50))$`)

// address hides Service addresses that the server chose.
func address(s string) string {
	if known.MatchString(s) {
		return s
	}
	return "<ip>"
}

func (n normal) text(s string) string {
	for _, name := range n.saved.names() {
		if v := n.saved[name]; len(v) > 1 {
			s = replaceWord(s, v, "${"+name+"}")
		}
	}
	for _, p := range patterns {
		s = p.re.ReplaceAllStringFunc(s, p.to)
	}
	return s
}

// replaceWord replaces what does not go on as a word on either side.
func replaceWord(s, old, with string) string {
	word := func(b byte) bool {
		return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for at := 0; ; {
		i := strings.Index(s[at:], old)
		if i < 0 {
			return s
		}
		i += at
		end := i + len(old)
		if i > 0 && word(s[i-1]) || end < len(s) && word(s[end]) {
			at = i + 1
			continue
		}
		s = s[:i] + with + s[end:]
		at = i + len(with)
	}
}
