package machine

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/writ-os/writ/image/config"
)

// sources reads every place, in the order in which they count. What cannot be
// read is said and left out; then all is false.
func (m *Machine) sources(volumes []string) (out []config.Source, all bool) {
	all = true
	add := func(kind config.Kind, where string, data []byte, err error) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			all = false
			m.say(fmt.Sprintf("cannot read %s: %v", where, err))
		default:
			out = append(out, config.Source{Kind: kind, Where: where, Data: data})
		}
	}
	data, err := read(m.path("var"), config.VarPath)
	add(config.Kept, "/var/"+config.VarPath, data, err)
	if m.cfg.Credentials != "" {
		data, err = read(m.cfg.Credentials, "node.config")
		add(config.Credential, "the credential node.config", data, err)
	}
	err = m.cfg.Disks.ESP(false, func(dir string) error {
		m.esp, err = read(dir, config.ESPPath)
		return err
	})
	add(config.Boot, "/"+config.ESPPath+" of the EFI system partition", m.esp, err)
	for _, v := range volumes {
		err := m.cfg.Disks.Volume(v, func(dir string) error {
			data, err = read(dir, config.Name)
			if errors.Is(err, fs.ErrNotExist) {
				data, err = read(dir, "user-data")
			}
			return err
		})
		add(config.Volume, config.Name+" of the volume "+label(v), data, err)
	}
	data, where, err := m.argument()
	add(config.CommandLine, where, data, err)
	return out, all
}

// label is the name of a volume without what tells media apart.
func label(volume string) string {
	name, _, _ := strings.Cut(volume, " ")
	return name
}

// read reads a file of a directory that others may have filled: it follows no
// link out of it, and takes no more than a node.yaml may have.
func read(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	return io.ReadAll(io.LimitReader(f, config.MaxSize+1))
}

// commandArgument is how the kernel's command line carries a node.yaml: in
// base64, or as a path in the system. Every process can read the command line:
// it is for tests, and for files that are elsewhere.
const commandArgument = "writ.config="

func (m *Machine) argument() (data []byte, where string, err error) {
	where = "the kernel's command line, " + strings.TrimSuffix(commandArgument, "=")
	line, err := os.ReadFile(m.path("proc/cmdline"))
	if err != nil {
		return nil, where, err
	}
	for _, word := range bytes.Fields(line) {
		value, ok := bytes.CutPrefix(word, []byte(commandArgument))
		if !ok {
			continue
		}
		if path := string(value); filepath.IsAbs(path) {
			data, err := read(m.path(), strings.TrimPrefix(filepath.Clean(path), "/"))
			return data, path, err
		}
		data, err := base64.StdEncoding.DecodeString(string(value))
		if err != nil {
			return nil, where, fmt.Errorf("neither a path nor base64: %w", err)
		}
		return data, where, nil
	}
	return nil, where, fs.ErrNotExist
}
