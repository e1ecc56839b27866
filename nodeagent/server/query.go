package server

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of a query, as upstream.
const (
	maxTailLines     = 100_000
	maxServiceLength = 256
	maxServices      = 4
)

// kernelLog is what the kernel's own messages are asked for by. Upstream has no
// name for them.
const kernelLog = "kernel"

// unsafeCharacters are those that no name of a service has. It is upstream's
// defence against a name that is more than a name.
var unsafeCharacters = regexp.MustCompile(`[^a-zA-Z\-_.:0-9@]+`)

// logQuery asks for logs of the node's own services (KEP-2258).
type logQuery struct {
	services []string
	files    []string // below /var/log
	options
	// follow goes on with what comes. It is ours: upstream has none.
	follow bool
}

type options struct {
	since, until *time.Time
	tail         *int
	// boot is 0 for this start of the machine, -1 for the one before.
	boot    *int
	pattern string // PCRE2
}

// parseQuery reads the parameters of a request; nil when there are none. The
// texts of its errors are upstream's.
func parseQuery(v url.Values) (*logQuery, field.ErrorList) {
	q := &logQuery{}
	var errs field.ErrorList
	asked, ok := v["query"]
	for _, s := range asked {
		switch {
		case strings.ContainsAny(s, `/\`):
			q.files = append(q.files, s)
		case strings.TrimSpace(s) != "":
			q.services = append(q.services, s)
		}
	}
	if ok && len(q.files) == 0 && len(q.services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), asked, "may not be empty"))
	}
	for name, to := range map[string]**time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		if s := v.Get(name); s != "" {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				errs = append(errs, field.Invalid(field.NewPath(name), s, "invalid time format"))
				continue
			}
			*to = &t
		}
	}
	for name, to := range map[string]**int{"boot": &q.boot, "tailLines": &q.tail} {
		if s := v.Get(name); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil {
				errs = append(errs, field.Invalid(field.NewPath(name), s, err.Error()))
				continue
			}
			*to = &n
		}
	}
	q.pattern = v.Get("pattern")
	if s := v.Get("follow"); s != "" {
		var err error
		if q.follow, err = strconv.ParseBool(s); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("follow"), s, err.Error()))
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
		return nil, errs
	}
	if len(q.services)+len(q.files) == 0 && q.options == (options{}) && !q.follow {
		return nil, nil
	}
	return q, nil
}

// validate says what of a query cannot be answered; dir holds the log files.
func (q *logQuery) validate(dir string) field.ErrorList {
	at := field.NewPath("query")
	errs := validateServices(q.services)
	switch {
	case len(q.files) == 0 && len(q.services) == 0:
		errs = append(errs, field.Required(at, "cannot be empty with options"))
	case len(q.files) > 0 && len(q.services) > 0:
		errs = append(errs, field.Invalid(at, fmt.Sprintf("%v, %v", q.files, q.services), "cannot specify a file and service"))
	case len(q.files) > 1:
		errs = append(errs, field.Invalid(at, q.files, "cannot specify more than one file"))
	case len(q.files) == 1 && (q.options != (options{}) || q.follow):
		errs = append(errs, field.Invalid(at, q.files, "cannot specify file with options"))
	case len(q.files) == 1:
		if err := isLogFile(dir, logName(q.files[0])); err != nil {
			errs = append(errs, field.Invalid(at, q.files, err.Error()))
		}
	}
	if q.since != nil && q.until != nil && q.since.After(*q.until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), q.until, "must be after `sinceTime`"))
	}
	if q.follow && q.until != nil {
		errs = append(errs, field.Invalid(field.NewPath("follow"), q.follow, "cannot be specified with untilTime"))
	}
	if q.boot != nil && *q.boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *q.boot, "must be less than 1"))
	}
	if q.tail != nil {
		if why := validation.IsInRange(*q.tail, 0, maxTailLines); why != nil {
			errs = append(errs, field.Invalid(field.NewPath("tailLines"), *q.tail, why[0]))
		}
	}
	if _, err := syntax.Parse(q.pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), q.pattern, err.Error()))
	}
	return errs
}

func validateServices(services []string) field.ErrorList {
	at := field.NewPath("query")
	var errs field.ErrorList
	for _, s := range services {
		switch {
		case len(s) > maxServiceLength:
			errs = append(errs, field.Invalid(at, s, fmt.Sprintf("length must be less than %d", maxServiceLength)))
		case unsafeCharacters.MatchString(s):
			errs = append(errs, field.Invalid(at, s, "input contains unsupported characters"))
		case s == kernelLog && len(services) > 1:
			errs = append(errs, field.Invalid(at, services, "cannot specify kernel with others"))
		}
	}
	if len(services) > maxServices {
		errs = append(errs, field.TooMany(at, len(services), maxServices))
	}
	return errs
}

// logName is the name of a file below the folder of logs. Clients of Windows
// nodes write it with \.
func logName(asked string) string {
	return strings.TrimLeft(strings.ReplaceAll(asked, `\`, "/"), "/")
}

// errNotRegular refuses to read what may have no end.
var errNotRegular = errors.New("not a regular file")

// isLogFile says why a file cannot be read. Links out of dir are not followed.
func isLogFile(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	return err
}

// arguments are those of journalctl(1) that answer the query from units, as the
// journal names them; "kernel" is the kernel.
func (q *logQuery) arguments(units []string) []string {
	out := []string{"--utc", "--no-pager", "--output=short-precise"}
	// Seconds since 1970 have no zone that could be taken for another.
	if q.since != nil {
		out = append(out, "--since=@"+epoch(*q.since))
	}
	if q.until != nil {
		out = append(out, "--until=@"+epoch(*q.until))
	}
	if q.tail != nil {
		out = append(out, "--lines="+strconv.Itoa(*q.tail))
	}
	if q.follow {
		out = append(out, "--follow")
		if q.tail == nil {
			out = append(out, "--no-tail")
		}
	}
	if q.pattern != "" {
		out = append(out, "--grep="+q.pattern)
	}
	if q.boot != nil {
		out = append(out, "--boot="+strconv.Itoa(*q.boot))
	}
	for _, u := range units {
		if u == kernelLog {
			out = append(out, "_TRANSPORT=kernel")
			continue
		}
		out = append(out, "--unit="+u)
	}
	return out
}

// epoch writes a time in seconds since 1970, to the microsecond; journalctl
// knows no earlier ones.
func epoch(t time.Time) string {
	us := max(0, t.UnixMicro())
	return fmt.Sprintf("%d.%06d", us/1_000_000, us%1_000_000)
}
