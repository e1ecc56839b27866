// Package crilog turns what containers print into log files and back.
//
// The files have the format that Kubernetes' container runtimes write, one
// line per line, "2026-01-02T15:04:05.123456789Z stdout F text", so that log
// shippers read them; a file that has grown too large is set aside under a
// name with the time.
//
//	container ──pipe──> shim ──append──> raw file ──Collector──> 0.log, 0.log.20260102-150405
//
// The shim appends to a plain file, not to a pipe that the agent reads: a
// container therefore never stalls and never loses a line while the agent is
// away, whoever of them dies first, and no process or pipe buffer per
// container is needed for it. The Collector follows the raw files by inotify,
// stamps the lines, notes how far it came and gives the space back to the file
// system behind it. A Collector that is killed may write the lines of one
// round twice; it loses none.
package crilog

import (
	"bytes"
	"fmt"
	"time"
)

// Stream is the output that a line came from.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// maxLine is the longest text of one log line; a longer one is continued on
// the next ones, tagged partial.
const maxLine = 16 << 10

// Line is one line of a log file.
type Line struct {
	Time    time.Time
	Stream  Stream
	Partial bool   // the text goes on in the next line of the stream
	Text    []byte // without the newline
}

// timeFormat is RFC 3339 with all nanoseconds, so that lines sort as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// appendLine appends the line in the format of the files.
func appendLine(b []byte, l Line) []byte {
	b = l.Time.UTC().AppendFormat(b, timeFormat)
	b = append(b, ' ')
	b = append(b, l.Stream...)
	if l.Partial {
		b = append(b, " P "...)
	} else {
		b = append(b, " F "...)
	}
	b = append(b, l.Text...)
	return append(b, '\n')
}

// ParseLine reads one line of a log file, with or without its newline.
func ParseLine(b []byte) (Line, error) {
	b = bytes.TrimSuffix(b, []byte("\n"))
	stamp, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok {
		return Line{}, fmt.Errorf("parse log line %.40q: no stream", b)
	}
	t, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Line{}, fmt.Errorf("parse log line %.40q: %w", b, err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if s := Stream(stream); !ok || (s != Stdout && s != Stderr) {
		return Line{}, fmt.Errorf("parse log line %.40q: unknown stream %q", b, stream)
	}
	tags, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return Line{}, fmt.Errorf("parse log line %.40q: no tag", b)
	}
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(tag) {
	case "F", "P":
	default:
		return Line{}, fmt.Errorf("parse log line %.40q: unknown tag %q", b, tag)
	}
	return Line{Time: t, Stream: Stream(stream), Partial: string(tag) == "P", Text: text}, nil
}
