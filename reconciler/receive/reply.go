package receive

import (
	"bytes"
	"io"
	"strings"
)

// reply is the answer to a push.
type reply struct {
	w     io.Writer
	flush func() error
	caps  capabilities
}

// remote shows lines to the pusher, now. A client that is gone is noticed
// when the verdicts are written.
func (a reply) remote(lines []string) {
	for _, l := range lines {
		_, _ = io.WriteString(band{a.w, bandProgress, bandSize(a.caps)}, strings.TrimRight(l, "\n")+"\n")
	}
	_ = a.flush()
}

// report ends the answer.
func (a reply) report(unpack error, verdicts []verdict) error {
	if !a.caps["report-status"] {
		return nil
	}
	var b bytes.Buffer
	status := "ok"
	if unpack != nil {
		status = oneLine(unpack.Error())
	}
	_ = writePacket(&b, "unpack %s\n", status)
	for _, v := range verdicts {
		if v.reason != "" {
			_ = writePacket(&b, "ng %s %s\n", v.name, oneLine(v.reason))
			continue
		}
		_ = writePacket(&b, "ok %s\n", v.name)
	}
	_ = writeFlush(&b)
	size := bandSize(a.caps)
	if _, err := (band{a.w, bandData, size}).Write(b.Bytes()); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	return writeFlush(a.w)
}

// oneLine makes a text fit the line of a verdict.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 1000 {
		s = s[:1000] + "..."
	}
	return s
}
