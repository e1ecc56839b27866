package receive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/writ-os/writ/controlplane/durable"
)

// repository is one bare repository on disk.
type repository struct {
	name, dir, incoming string

	commits    sync.Mutex   // held from the move of refs until they are committed
	mu         sync.Mutex   // held while refs are read or moved
	packs      sync.RWMutex // held while packs are merged; read-held by who opens packs by name
	collecting sync.Mutex   // held by the one who collects garbage
	pushes     sync.RWMutex // held while objects are dropped; read-held by each push

	seen seenKinds
}

// open makes the repository when there is none and clears what a crash left
// among its packs.
func (repo *repository) open(branch string) error {
	there, err := exists(repo.dir)
	if err != nil {
		return err
	}
	if !there {
		// Made aside and moved in place: a crash leaves none rather than half of one.
		aside := filepath.Join(repo.incoming, repo.name+".git")
		if err := initBare(aside, branch); err != nil {
			return err
		}
		return durable.Rename(aside, repo.dir)
	}
	for _, d := range []string{"objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(repo.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := repo.clearPacks(); err != nil {
		return err
	}
	return repo.merge()
}

// clearPacks removes files that belong to no complete pack. A pack is complete
// when it has its index; the pack is the last of the two to arrive.
func (repo *repository) clearPacks() error {
	dir := filepath.Join(repo.dir, "objects", "pack")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	have := make(map[string]bool)
	for _, e := range entries {
		have[e.Name()] = true
	}
	for name := range have {
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".pack"), ".idx")
		half := base != name && !(have[base+".pack"] && have[base+".idx"])
		if half || strings.HasPrefix(name, "tmp_") {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// initBare lays out an empty bare repository.
func initBare(dir, branch string) error {
	for _, d := range []string{"objects/pack", "objects/info", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(dir, "HEAD"), "ref: "+branch+"\n"); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
}

// refs returns the refs as they are now.
func (repo *repository) refs() (map[string]string, error) {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	return readRefs(repo.dir)
}

// writeFile writes a small file through to the disk.
func writeFile(path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close())
}
