// Package initrd packs the first root file system of a node: one program, the
// modules that it loads, and nothing else. The program is the package init.
//
// It owns nothing and watches nothing. The same files give the same bytes.
package initrd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxModule is more than any module has when it is unpacked, in bytes.
const maxModule = 64 << 20

// Parts are what an initrd is made of.
type Parts struct {
	// Init is the program of image/initrd/init, static.
	Init []byte
	// Modules is the folder lib/modules/<release> of the kernel, with modules.dep
	// and modules.builtin.
	Modules fs.FS
	// Optional modules are left out where the kernel has none; nil says Storage.
	Optional []string
}

// Build packs an initrd and compresses it by zstd. Modules are unpacked first:
// together they become smaller than each for itself, and load faster.
func Build(p Parts) ([]byte, error) {
	entries, err := Entries(p)
	if err != nil {
		return nil, fmt.Errorf("build initrd: %w", err)
	}
	var archive bytes.Buffer
	if err := WriteCpio(&archive, entries); err != nil {
		return nil, fmt.Errorf("build initrd: %w", err)
	}
	// One goroutine: the output then depends on nothing but the input.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("build initrd: %w", err)
	}
	return enc.EncodeAll(archive.Bytes(), nil), enc.Close()
}

// Entries are the files of an initrd. Modules lie in /modules under their own
// names; /modules.list says which are loaded when.
func Entries(p Parts) ([]Entry, error) {
	if len(p.Init) == 0 {
		return nil, fmt.Errorf("no init program")
	}
	modules, err := p.modules()
	if err != nil {
		return nil, err
	}
	entries := []Entry{
		{Name: "init", Mode: 0o755, Data: p.Init},
		// The kernel opens it for init before anything is mounted.
		{Name: "dev/console", Mode: fs.ModeDevice | fs.ModeCharDevice | 0o600, Major: 5, Minor: 1},
	}
	for _, folder := range []string{"dev", "modules", "proc", "run", "sys", "sysroot"} {
		entries = append(entries, Entry{Name: folder, Mode: fs.ModeDir | 0o755})
	}
	var list strings.Builder
	for _, m := range modules {
		data, err := readModule(p.Modules, m.file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&list, m.line())
		entries = append(entries, Entry{Name: "modules/" + plain(m.file), Mode: 0o644, Data: data})
	}
	return append(entries, Entry{Name: "modules.list", Mode: 0o644, Data: []byte(list.String())}), nil
}

// readModule reads a module and unpacks it.
func readModule(modules fs.FS, file string) ([]byte, error) {
	f, err := modules.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	defer f.Close()
	var r io.Reader = f
	switch path.Ext(file) {
	case ".xz":
		r, err = xz.NewReader(f)
	case ".zst":
		var dec *zstd.Decoder
		if dec, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1)); err == nil {
			defer dec.Close()
			r = dec
		}
	case ".ko":
	default:
		err = errors.New("only .ko, .ko.xz and .ko.zst are known")
	}
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(b) > maxModule {
		err = fmt.Errorf("more than %d bytes", maxModule)
	}
	if err == nil && !bytes.HasPrefix(b, []byte("\x7fELF")) {
		err = errors.New("it is no kernel module")
	}
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	return b, nil
}
