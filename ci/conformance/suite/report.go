package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// result is one spec of a report.
type result struct {
	name    string // with all labels
	state   string // passed, failed, ...; "skipped" when it did not run
	message string
	took    time.Duration
}

// group is the owner of the spec, of those in the table; else "".
func (r result) group() string {
	for _, g := range groups {
		if strings.HasPrefix(r.name, "["+g+"]") {
			return g
		}
	}
	return ""
}

// readReport reads ginkgo's JSON report.
func readReport(path string) ([]result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts    []string
			LeafNodeText, LeafNodeType string
			State                      string
			RunTime                    time.Duration
			Failure                    struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("decode %s: %w", path, err)
	}
	var all []result
	for _, s := range suites {
		for _, r := range s.SpecReports {
			if r.LeafNodeType != "It" {
				if r.State == "failed" || r.State == "panicked" {
					return nil, fmt.Errorf("%s failed: %.2000s", r.LeafNodeType, r.Failure.Message)
				}
				continue
			}
			name := strings.Join(append(slices.Clone(r.ContainerHierarchyTexts), r.LeafNodeText), " ")
			all = append(all, result{name, r.State, r.Failure.Message, r.RunTime})
		}
	}
	return all, nil
}

// writeFailures appends what failed specs said.
func writeFailures(path string, ran []result) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, r := range ran {
		if r.state != "passed" && r.state != "skipped" && r.state != "pending" {
			fmt.Fprintf(f, "## %s\n%s\n%.3000s\n\n", r.name, r.state, r.message)
		}
	}
	return f.Close()
}
