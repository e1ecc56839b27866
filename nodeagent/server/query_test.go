package server

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuery(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "boot.log"), []byte("up\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out.log")); err != nil {
		t.Fatal(err)
	}
	const base = "--utc --no-pager --output=short-precise"
	for _, c := range []struct{ query, want string }{
		{"", "nothing"},
		{"unknown=true", "nothing"},
		{"sinceTime=", "nothing"},
		{"query=writ-agent", base + " --unit=writ-agent"},
		{"query=a&query=b%40c:d.e_f", base + " --unit=a --unit=b@c:d.e_f"},
		{"query=kernel&tailLines=5&boot=-1", base + " --lines=5 --boot=-1 _TRANSPORT=kernel"},
		{"query=a&sinceTime=2023-01-04T02:00:00Z&untilTime=2023-01-04T03:00:00.25%2B01:00", base + " --since=@1672797600.000000 --until=@1672797600.250000 --unit=a"},
		{"query=a&pattern=^x+y$&boot=0", base + " --grep=^x y$ --boot=0 --unit=a"},
		{"query=a&follow=true", base + " --follow --no-tail --unit=a"},
		{"query=a&follow=1&tailLines=0", base + " --lines=0 --follow --unit=a"},
		{"query=a&tailLines=100000", base + " --lines=100000 --unit=a"},
		{"query=/boot.log", "file boot.log"},
		{`query=\boot.log`, "file boot.log"},

		{"query=", `query: Invalid value: [""]: may not be empty`},
		{"query=+&query=++", `query: Invalid value: [" ","  "]: may not be empty`},
		{"query=a&sinceTime=2019-12-04+02:00:00", `sinceTime: Invalid value: "2019-12-04 02:00:00": invalid time format`},
		{"query=a&boot=x&tailLines=y", `[boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax, tailLines: Invalid value: "y": strconv.Atoi: parsing "y": invalid syntax]`},
		{"query=a&follow=maybe", `follow: Invalid value: "maybe": strconv.ParseBool: parsing "maybe": invalid syntax`},
		{"tailLines=3", `query: Required value: cannot be empty with options`},
		{"follow=true", `query: Required value: cannot be empty with options`},
		{"query=a&query=/b", `query: Invalid value: "[/b], [a]": cannot specify a file and service`},
		{"query=/a&query=/b", `query: Invalid value: ["/a","/b"]: cannot specify more than one file`},
		{"query=/boot.log&tailLines=1", `query: Invalid value: ["/boot.log"]: cannot specify file with options`},
		{"query=/none.log", `query: Invalid value: ["/none.log"]: statat none.log: no such file or directory`},
		{"query=/../../etc/passwd", `query: Invalid value: ["/../../etc/passwd"]: statat ../../etc/passwd: path escapes from parent`},
		{"query=/out.log", `query: Invalid value: ["/out.log"]: statat out.log: path escapes from parent`},
		{"query=/.", `query: Invalid value: ["/."]: not a regular file`},
		{"query=a%0A", `query: Invalid value: "a\n": input contains unsupported characters`},
		{"query=a*", `query: Invalid value: "a*": input contains unsupported characters`},
		{"query=a%00b", `query: Invalid value: "a\x00b": input contains unsupported characters`},
		{"query=" + strings.Repeat("a", 257), `query: Invalid value: "` + strings.Repeat("a", 257) + `": length must be less than 256`},
		{"query=a&query=b&query=c&query=d&query=e", `query: Too many: 5: must have at most 4 items`},
		{"query=a&query=kernel", `query: Invalid value: ["a","kernel"]: cannot specify kernel with others`},
		{"query=a&sinceTime=2023-02-04T02:00:00Z&untilTime=2023-01-04T02:00:00Z", "untilTime: Invalid value: \"2023-01-04T02:00:00Z\": must be after `sinceTime`"},
		{"query=a&follow=true&untilTime=2023-01-04T02:00:00Z", `follow: Invalid value: true: cannot be specified with untilTime`},
		{"query=a&boot=1", `boot: Invalid value: 1: must be less than 1`},
		{"query=a&tailLines=-1", `tailLines: Invalid value: -1: must be between 0 and 100000, inclusive`},
		{"query=a&tailLines=100001", `tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive`},
		{`query=a&pattern=foo\`, "pattern: Invalid value: \"foo\\\\\": error parsing regexp: trailing backslash at end of expression: ``"},
	} {
		v, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(v, dir); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.query, got, c.want)
		}
	}
}

// answer says what a query becomes.
func answer(v url.Values, dir string) string {
	q, errs := parseQuery(v)
	if q != nil {
		errs = q.validate(dir)
	}
	switch {
	case len(errs) > 0:
		return errs.ToAggregate().Error()
	case q == nil:
		return "nothing"
	case len(q.files) == 1:
		return "file " + logName(q.files[0])
	}
	return strings.Join(q.arguments(q.services), " ")
}

// Whatever is asked for, every argument of journalctl is one that was meant.
func FuzzQuery(f *testing.F) {
	f.Add("query=a&tailLines=3&boot=-1&pattern=x&sinceTime=2023-02-04T02:00:00Z")
	f.Add("query=--file=/etc/passwd&follow=1")
	f.Add("query=-x&query=a%20--root=/&pattern=--unit=b")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		q, errs := parseQuery(v)
		if q == nil || len(errs) > 0 || len(q.validate(dir)) > 0 {
			return
		}
		for _, a := range q.arguments(q.services) {
			name, _, _ := strings.Cut(a, "=")
			switch name {
			case "--utc", "--no-pager", "--output", "--since", "--until", "--lines", "--follow", "--no-tail", "--grep", "--boot", "--unit", "_TRANSPORT":
			default:
				t.Errorf("%q gives %q", raw, a)
			}
		}
	})
}
