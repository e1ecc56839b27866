package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	"github.com/writ-os/writ/controlplane/apiserver/table"
	"github.com/writ-os/writ/schema"
)

// rowTable turns objects into rows.
type rowTable interface {
	Definitions() []byte
	AppendCells(b []byte, row *table.Row) []byte
}

// tableOf returns the rows of a resource: of a built-in kind those that its
// columns say, of a custom one those of its definition.
func (s *Server) tableOf(r *schema.Resource) rowTable {
	if v := s.served().views.of(r); v != nil && v.table != nil {
		return v.table
	}
	return table.For(r)
}

// customTable shows custom resources by the JSON paths of their definition.
type customTable struct {
	defs    []byte
	columns []customColumn

	mu sync.Mutex // JSON paths hold state while they are evaluated
}

type customColumn struct {
	kind string
	path *jsonpath.JSONPath // nil: always null
}

// newCustomTable reads the columns of a version. The first is the name, which
// upstream puts before those of the definition.
func newCustomTable(r *schema.Resource) *customTable {
	t := &customTable{}
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	defs := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: docs["name"]}}
	for _, c := range r.Columns {
		if c.Path == "metadata.name" && c.Format == "name" {
			continue
		}
		path := c.Path
		if c.Func == "age" {
			path, c.Type = ".metadata.creationTimestamp", "date"
		}
		if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") {
			path = "." + path
		}
		if c.Description == "" {
			c.Description = "Custom resource definition column (in JSONPath format): " + path
		}
		col := customColumn{kind: c.Type}
		if p := jsonpath.New(c.Name); p.Parse("{"+path+"}") == nil {
			col.path = p.AllowMissingKeys(true)
		}
		t.columns = append(t.columns, col)
		defs = append(defs, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
		})
	}
	t.defs, _ = json.Marshal(defs) // strings and numbers
	return t
}

// Definitions implements rowTable.
func (t *customTable) Definitions() []byte { return t.defs }

// AppendCells implements rowTable.
func (t *customTable) AppendCells(b []byte, row *table.Row) []byte {
	cells := make([]any, 1, 1+len(t.columns))
	cells[0] = row.Object.GetName()
	if u, ok := row.Object.(*unstructured.Unstructured); ok {
		t.mu.Lock()
		for _, c := range t.columns {
			cells = append(cells, c.cell(u.Object))
		}
		t.mu.Unlock()
	}
	data, err := json.Marshal(cells)
	if err != nil {
		return append(b, "[]"...)
	}
	return append(b, data...)
}

func (c customColumn) cell(o map[string]any) any {
	if c.path == nil {
		return nil
	}
	found, err := c.path.FindResults(o)
	if err != nil || len(found) == 0 || len(found[0]) == 0 || !found[0][0].CanInterface() {
		return nil
	}
	v := found[0][0].Interface()
	if c.kind != "string" {
		return cellOf(c.kind, v)
	}
	var text bytes.Buffer
	if c.path.PrintResults(&text, []reflect.Value{reflect.ValueOf(v)}) != nil {
		return nil
	}
	return text.String()
}

// cellOf is a value as a column of a type shows it; nil where it does not fit.
func cellOf(kind string, v any) any {
	switch kind {
	case "integer":
		switch n := v.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := v.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := v.(bool); ok {
			return b
		}
	case "date":
		if s, ok := v.(string); ok {
			var at metav1.Time
			if at.UnmarshalQueryParameter(s) != nil {
				return "<invalid>"
			}
			return metatable.ConvertToHumanReadableDateType(at)
		}
	}
	return nil
}

// customField reads a field of a custom resource that its definition calls
// selectable, by its path "spec.color".
func customField(label string) func(map[string]any) string {
	steps := strings.Split(strings.TrimPrefix(label, "."), ".")
	return func(o map[string]any) string {
		v, ok, err := unstructured.NestedFieldNoCopy(o, steps...)
		if !ok || err != nil {
			return ""
		}
		switch v := v.(type) {
		case string:
			return v
		case bool:
			return strconv.FormatBool(v)
		case int64:
			return strconv.FormatInt(v, 10)
		}
		return fmt.Sprint(v)
	}
}
