package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// table is docs/conformance.md.
type table struct {
	rows map[string]row
}

// row is what is known of a spec.
type row struct{ result, note string }

const notRun = "not run"

func readTable(path string) (*table, error) {
	t := &table{rows: map[string]row{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) == 3 && strings.HasPrefix(line, "| [sig-") {
			t.rows[unescape(strings.TrimPrefix(cells[0], "| "))] = row{cells[1], strings.TrimSuffix(cells[2], " |")}
		}
	}
	return t, nil
}

// keep makes the rows those of the specs that there are.
func (t *table) keep(all []string) {
	rows := map[string]row{}
	for _, name := range all {
		rows[name] = row{notRun, notAsked}
		if r, ok := t.rows[name]; ok && r.result != notRun {
			rows[name] = r
		}
	}
	t.rows = rows
}

func (t *table) set(ran []result) {
	for _, r := range ran {
		if _, ok := t.rows[r.name]; !ok || r.state == "skipped" && r.message == "" {
			continue
		}
		note := ""
		if r.state != "passed" {
			note = shorten(r.message)
		}
		t.rows[r.name] = row{r.state, note}
	}
}

// shorten is the first lines of a failure as the cell of a table.
func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 240 {
		s = strings.ToValidUTF8(s[:240], "") + "..."
	}
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(s)
}

func (t *table) write(path string) error {
	var out strings.Builder
	out.WriteString("# Conformance\n\nEvery [Conformance] spec of Kubernetes v1.36.4 that concerns the API, and what it said of this project.\nWritten by `make conformance`; a row changes when its spec runs.\n\n")
	fmt.Fprintf(&out, "| | passed | failed | not run |\n|---|---|---|---|\n")
	for _, g := range groups {
		n := map[string]int{}
		for name, r := range t.rows {
			if strings.HasPrefix(name, "["+g+"]") {
				n[kind(r.result)]++
			}
		}
		fmt.Fprintf(&out, "| %s | %d | %d | %d |\n", g, n["passed"], n["failed"], n[notRun])
	}
	out.WriteString("\n" + about)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n| spec | result | |\n|---|---|---|\n", g)
		var names []string
		for name := range t.rows {
			if strings.HasPrefix(name, "["+g+"]") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", escape(name), t.rows[name].result, t.rows[name].note)
		}
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// kind is the column of the summary.
func kind(result string) string {
	switch result {
	case "passed", notRun:
		return result
	case "skipped", "pending":
		return notRun
	}
	return "failed"
}

func escape(s string) string   { return strings.ReplaceAll(s, "|", "\\|") }
func unescape(s string) string { return strings.ReplaceAll(s, "\\|", "|") }
