package tool

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writ-os/writ/image/tree"
)

// inputs are what depmod reads besides modules and nothing reads later.
var inputs = []string{"modules.order", "modules.builtin.modinfo"}

// Depmod makes the indexes of the modules of one kernel in t: modules.dep,
// modules.alias and others, as text for the builder and as .bin for kmod. What
// only depmod reads is taken away.
func (t *Tools) Depmod(ctx context.Context, files *tree.Tree, kernel string) error {
	base := "usr/lib/modules/" + kernel
	part := tree.New()
	for at, e := range files.All() {
		if strings.HasPrefix(at, base+"/") {
			if err := part.Add(at, e); err != nil {
				return fmt.Errorf("index modules: %w", err)
			}
		}
	}
	if part.Len() == 0 {
		return fmt.Errorf("index modules: there are none of the kernel %s", kernel)
	}
	dir, err := os.MkdirTemp("", "writ-modules-")
	if err != nil {
		return fmt.Errorf("index modules: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := part.Extract(dir); err != nil {
		return fmt.Errorf("index modules: %w", err)
	}
	if err := run(t.command(ctx, depmod, "--basedir", dir, "--moduledir", "/usr/lib/modules", kernel), depmod); err != nil {
		return fmt.Errorf("index modules: %w", err)
	}
	made, err := filepath.Glob(filepath.Join(dir, base, "modules.*"))
	if err != nil {
		return fmt.Errorf("index modules: %w", err)
	}
	for _, name := range made {
		at := path.Join(base, filepath.Base(name))
		if _, ours := part.Get(at); ours {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("index modules: %w", err)
		}
		e := tree.Entry{Mode: 0o644, Data: tree.Bytes(b), Origin: tree.Writ}
		if err := files.Replace(at, e); err != nil {
			return fmt.Errorf("index modules: %w", err)
		}
	}
	for at := range part.All() {
		if path.Dir(at) == base && slices.Contains(inputs, path.Base(at)) {
			files.Remove(at)
		}
	}
	return nil
}
