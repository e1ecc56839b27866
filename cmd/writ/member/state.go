// Package member makes a machine one of several servers of a cluster, and the only
// one again: what a server gives to one that joins, how that one asks for it, what
// both remember, who has left for good, and what is left when most are lost.
//
// It watches nothing. It owns <data-dir>/members.json, which says that a server
// is one of several, and <data-dir>/reset, by which one is told to go on alone,
// and serves /servers. It promises that the keys of the cluster are given to those
// alone whom the authorizer lets POST /servers/join, that each time is logged
// without them, that a server that dies while it joins comes through when it is
// started again, and that none goes on alone while another one says that most of
// them are there.
package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-os/writ/controlplane/durable"
)

const stateFile = "members.json"

// State is what a server remembers of being one of several.
type State struct {
	// Name of this member, which it keeps.
	Name string `json:"name"`
	// Peers are URLs of members that it joins by as long as it has no data.
	Peers []string `json:"peers,omitempty"`
	// Settings are those of the cluster, where the flags say nothing.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// ReadState reads what a data directory remembers; nil when it is that of a
// server that is alone.
func ReadState(dataDir string) (*State, error) {
	b, err := os.ReadFile(filepath.Join(dataDir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no state is a state
	}
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	s := &State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dataDir, stateFile), err)
	}
	if s.Name == "" {
		return nil, fmt.Errorf("read %s: it names no member", filepath.Join(dataDir, stateFile))
	}
	return s, nil
}

// added says that the server was added to others, and given their keys. The first
// of several has no peers, and must not begin anew without its data.
func (s *State) added() bool { return s != nil && len(s.Peers) > 0 }

// Write makes a data directory that of one of several servers.
func (s *State) Write(dataDir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode members: %w", err)
	}
	return durable.WriteFile(filepath.Join(dataDir, stateFile), append(b, '\n'), 0o600) // the settings may hold a password
}

// HasData says whether the store of a data directory has begun.
func HasData(dataDir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dataDir, "store", "member", "wal"))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fmt.Errorf("look for data: %w", err)
}
