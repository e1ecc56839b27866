package plan

import (
	"crypto/sha1"
	"encoding/hex"
	"io"
	"iter"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
)

// oneFile is a tree of one file.
type oneFile struct{ path, content string }

func (o oneFile) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		sum := sha1.Sum([]byte(o.content))
		yield(render.File{Path: o.path, Blob: hex.EncodeToString(sum[:]), Size: int64(len(o.content)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(o.content)), nil }}, nil)
	}
}
