// Package table turns objects into the rows that `kubectl get` shows.
//
// Which columns a kind has is data of the resource table (schema.Column). A
// column names a path into the object or a function of this package; the
// functions know what upstream's printers print. Rows are written straight as
// JSON: a list of thousands builds no tree of cells first.
//
// It owns nothing, does no I/O and is safe for concurrent use.
package table

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/apiserver/fieldpath"
	"github.com/writ-os/writ/schema"
)

// Table knows the columns of one kind.
type Table struct {
	columns []column
	defs    []byte
	// stored is the version that the columns read, where there are two.
	stored *schema.Resource
}

type column struct {
	def  metav1.TableColumnDefinition
	cell func(*Row) any
}

// Row is one object on its way into a row, and the time to count ages from.
type Row struct {
	Object schema.Object
	Now    time.Time

	pod *podSummary // computed once for all columns of the row
}

var tables sync.Map // *schema.Resource -> *Table

// For returns the table of a resource.
func For(r *schema.Resource) *Table {
	if t, ok := tables.Load(r); ok {
		return t.(*Table)
	}
	t, err := compile(r)
	if err != nil {
		// A column that no code can fill is a mistake in the resource table,
		// which a test of this package finds. Show what can be shown.
		t, _ = compile(&schema.Resource{Columns: []schema.Column{
			{Name: "Name", Type: "string", Format: "name", Path: "metadata.name"},
			{Name: "Age", Type: "string", Func: "age"},
		}, New: r.New})
	}
	actual, _ := tables.LoadOrStore(r, t)
	return actual.(*Table)
}

// compile finds the code for every column.
func compile(r *schema.Resource) (*Table, error) {
	t := &Table{}
	if r.Custom == nil && r.Storage != nil {
		t.stored = r.Storage
	}
	for _, c := range r.Columns {
		cell, err := cellOf(r, c)
		if err != nil {
			return nil, err
		}
		col := column{def: metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
		}, cell: cell}
		t.columns = append(t.columns, col)
	}
	return t, t.encodeDefinitions()
}

func cellOf(r *schema.Resource, c schema.Column) (func(*Row) any, error) {
	if c.Func != "" {
		fn := funcs[c.Func]
		if fn == nil {
			return nil, fmt.Errorf("column %s of %s: no function %q", c.Name, r.Kind, c.Func)
		}
		return fn, nil
	}
	p, err := fieldpath.Compile(r.Stored().New(), c.Path)
	if err != nil {
		return nil, fmt.Errorf("column %s of %s: %w", c.Name, r.Kind, err)
	}
	return func(row *Row) any { return value(row, p, c) }, nil
}

func (t *Table) encodeDefinitions() error {
	defs := make([]metav1.TableColumnDefinition, len(t.columns))
	for i, c := range t.columns {
		defs[i] = c.def
	}
	b, err := json.Marshal(defs)
	if err != nil {
		return fmt.Errorf("encode column definitions: %w", err)
	}
	t.defs = b
	return nil
}

// Definitions returns the columnDefinitions of the Table, as JSON.
func (t *Table) Definitions() []byte { return t.defs }

// Names returns the names of the columns, in order.
func (t *Table) Names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.def.Name
	}
	return names
}

// readable converts the object of a row to the version that the columns read.
func (t *Table) readable(row *Row) *Row {
	if t.stored == nil || schema.ResourceOf(row.Object) == t.stored {
		return row
	}
	objects, err := t.stored.Convert(context.Background(), []schema.Object{row.Object})
	if err != nil { // an object of another kind: show its name and nothing else
		o := t.stored.New()
		o.SetName(row.Object.GetName())
		objects = []schema.Object{o}
	}
	return &Row{Object: objects[0], Now: row.Now}
}

// Cells returns the values of a row: strings, integers and booleans.
func (t *Table) Cells(row *Row) []any {
	row = t.readable(row)
	cells := make([]any, len(t.columns))
	for i, c := range t.columns {
		cells[i] = c.cell(row)
	}
	return cells
}

// AppendCells appends the JSON array of a row's cells to b.
func (t *Table) AppendCells(b []byte, row *Row) []byte {
	row = t.readable(row)
	b = append(b, '[')
	for i, c := range t.columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, c.cell(row))
	}
	return append(b, ']')
}
