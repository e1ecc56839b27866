package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Render reads a unit. The error is that of a file that could not be read or
// of ctx; everything that is wrong with the content is a finding.
func Render(ctx context.Context, u *Unit) (*Rendered, error) {
	out, err := renderUnit(ctx, u)
	if out != nil {
		out.seal()
	}
	if out != nil && len(out.Findings) > maxFindings {
		out.Findings = out.Findings[:maxFindings]
	}
	return out, err
}

func renderUnit(ctx context.Context, u *Unit) (*Rendered, error) {
	out := &Rendered{unit: u}
	switch {
	case u.opts == &unbound:
		return nil, errUnbound
	case u.format == formatKustomize && len(u.kust.findings) > 0:
		out.Findings = u.kust.findings
		return out, nil
	case u.format == formatCUE || u.format == formatKustomize:
		return renderBounded(ctx, out, nil)
	}
	if u.file.Size > maxFileSize {
		out.find(tooLarge(u.Path, u.file.Size))
		return out, nil
	}
	data, err := u.file.read(maxFileSize)
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		out.find(tooLarge(u.Path, int64(len(data))))
		return out, nil
	}
	opened := out.open(u.Path, data)
	if out.Findings = opened.Findings; len(opened.Findings) > 0 || opened.Opaque {
		return out, nil
	}
	data = opened.Data
	if f, bad := checkText(u.Path, data); bad {
		out.find(f)
		return out, nil
	}
	if len(u.charts) > 0 {
		return renderBounded(ctx, out, data)
	}
	return run(out, data)
}

// unbound stands for the options of a unit of a Scanned, which has them.
var (
	unbound    Options
	errUnbound = errors.New("a unit is rendered by the Scanned that it is of")
)

func renderFile(out *Rendered, u *Unit, data []byte) {
	if u.format == formatJSON {
		renderJSON(out, u.Path, data)
	} else {
		renderYAML(out, u.Path, data)
	}
}

func tooLarge(file string, size int64) v1alpha1.Finding {
	return v1alpha1.Finding{File: file, Rule: "TooLarge",
		Message: "is " + megabytes(size) + " long; a manifest file may have " + megabytes(maxFileSize),
		Hint:    "split the file, or list it in " + ignoreFile + " if it is no manifest"}
}

// checkText refuses what is not UTF-8 text, at its position.
func checkText(file string, data []byte) (v1alpha1.Finding, bool) {
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return v1alpha1.Finding{}, false
	}
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 || r == 0 {
			break
		}
		at += n
	}
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(data[:at], '\n')
	return v1alpha1.Finding{File: file, Line: line, Column: column, Rule: "Syntax",
		Message: "the file is not UTF-8 text", Hint: "save it as UTF-8"}, true
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }
