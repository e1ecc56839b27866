package table

import (
	"cmp"
	"encoding/json"
	"reflect"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/writ-os/writ/controlplane/apiserver/fieldpath"
	"github.com/writ-os/writ/schema"
)

// What upstream prints where there is nothing to print.
const (
	none    = "<none>"
	unknown = "<unknown>"
	unset   = "<unset>"
)

// funcs are the computed columns, by the name that schema.Column.Func gives.
var funcs = map[string]func(*Row) any{}

// register adds the columns of one kind to funcs.
func register(m map[string]func(*Row) any) struct{} {
	for name, fn := range m {
		funcs[name] = fn
	}
	return struct{}{}
}

// since prints how long ago t was, as ages are printed.
func (r *Row) since(t metav1.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(r.Now.Sub(t.Time))
}

func (r *Row) sinceMicro(t metav1.MicroTime) string { return r.since(metav1.Time(t)) }

// value prints a path.
func value(r *Row, p fieldpath.Path, c schema.Column) any {
	v, ok := p.Value(r.Object)
	switch cmp.Or(c.Cell, c.Type) {
	case "integer":
		if ok && v.CanInt() {
			return v.Int()
		}
		return int64(0)
	case "boolean":
		return ok && v.Kind() == reflect.Bool && v.Bool()
	case "date":
		return r.date(v, ok)
	}
	if text := p.Text(r.Object); text != "" {
		return text
	}
	return c.Absent
}

// date prints a path of type "date" as an age.
func (r *Row) date(v reflect.Value, ok bool) string {
	if !ok {
		return unknown
	}
	switch t := v.Interface().(type) {
	case metav1.Time:
		return r.since(t)
	case metav1.MicroTime:
		return r.sinceMicro(t)
	}
	return unknown
}

// appendCell appends a cell as JSON.
func appendCell(b []byte, c any) []byte {
	switch v := c.(type) {
	case string:
		return appendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bool:
		return strconv.AppendBool(b, v)
	}
	j, err := json.Marshal(c)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, j...)
}

// appendString appends a JSON string. Nearly all cells are plain ASCII.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			j, _ := json.Marshal(s)
			return append(b, j...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// labelText prints a map as "a=1,b=2", "<none>" when it is empty.
func labelText(m map[string]string) string {
	if len(m) == 0 {
		return none
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k + "=" + m[k])
	}
	return b.String()
}

// limited joins the first max of all with sep and says how many are left out.
func limited(all []string, max int, sep string) string {
	if len(all) <= max {
		return strings.Join(all, sep)
	}
	return strings.Join(all[:max], sep) + " + " + strconv.Itoa(len(all)-max) + " more..."
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
