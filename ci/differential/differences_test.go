package differential

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const differencesFile = "testdata/differences"

const differencesHead = `# Where this server answers differently from upstream: exchange, and why.
# "to do" is a bug; anything else is meant. The list should shrink to nothing.
`

// differences are the exchanges that are known to differ, and why.
type differences map[string]string

func readDifferences(path string) (differences, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := differences{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		line := s.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndex(line, ": ") // names of exchanges have it too
		if i < 0 {
			return nil, fmt.Errorf("%s: %q: want EXCHANGE: why", path, line)
		}
		d[line[:i]] = line[i+2:]
	}
	return d, s.Err()
}

func (d differences) write(path string) error {
	var out strings.Builder
	out.WriteString(differencesHead)
	for _, id := range slices.Sorted(maps.Keys(d)) {
		why := d[id]
		if why == "" {
			why = "to do"
		}
		fmt.Fprintf(&out, "%s: %s\n", id, why)
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
