package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/writ-os/writ/controlplane/durable"
)

// format is that of a server's data directory. It grows when an older version
// would take what it finds there for something else, not when it would only not
// see it.
//
//	1  until Secrets were encrypted without a flag
//	2  they may be: an older version would serve them as deleted
const format = 2

const formatFile = "format.json"

// formatNote is the file, which is replaced as a whole.
type formatNote struct {
	Format  int    `json:"format"`
	Version string `json:"version,omitempty"` // that ran last
}

// errNewer refuses the data of a newer version.
type errNewer struct {
	dir  string
	have formatNote
}

// Error implements error.
func (e errNewer) Error() string {
	by := ""
	if e.have.Version != "" {
		by = " by writ " + e.have.Version
	}
	return fmt.Sprintf("the data in %s was written%s in format %d, and this version understands formats up to %d: start that version or a newer one, or restore a backup of before",
		e.dir, by, e.have.Format, format)
}

// checkFormat refuses data of a newer format. What another version has left is
// saved, then ours is noted, on disk before anything is written in it. Without
// what was saved the format does not change; a version of the same format goes on.
func (c Config) checkFormat() error {
	var have formatNote
	text, err := os.ReadFile(c.file(formatFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the format of the data: %w", err)
	default:
		if err := json.Unmarshal(text, &have); err != nil {
			return fmt.Errorf("read %s: %w", c.file(formatFile), err)
		}
	}
	switch {
	case have.Format > format:
		return errNewer{c.DataDir, have}
	case have.Format == format && have.Version == c.Version:
		return nil
	}
	if err := c.backupBefore(have.Version); err != nil && have.Format < format {
		return fmt.Errorf("before the data changes to format %d: %w", format, err)
	} else if err != nil {
		c.Log.Warn("what the version before has left is not saved", "part", "backup", "before", have.Version, "err", err)
	}
	text, err = json.Marshal(formatNote{Format: format, Version: c.Version})
	if err == nil {
		err = durable.WriteFile(c.file(formatFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note the format of the data: %w", err)
	}
	return nil
}

// Restored forgets which version has written the data: its store was made anew out
// of a backup, and it is for whoever restored it to know of which version.
func Restored(dataDir string) error {
	if err := durable.Remove((Config{DataDir: dataDir}).file(formatFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the format of the data: %w", err)
	}
	return nil
}
