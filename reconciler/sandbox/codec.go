package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/fxamacker/cbor/v2"
)

// Bounds of what goes between a server and its children.
const (
	// MaxAnswer is how many bytes an answer may have, where its Func says no other.
	MaxAnswer = 128 << 20
	// MaxElements is how many elements a list or a map of an answer may have.
	MaxElements = 1 << 17
	maxQuestion = 1 << 30
	maxNesting  = 64
)

// errFrame is that of what is no frame.
var errFrame = errors.New("what the child process sent is no answer")

var (
	encoding = must(cbor.EncOptions{}.EncMode())
	// answers are hostile: they come out of a process that ran what others wrote.
	answers = must(cbor.DecOptions{MaxArrayElements: MaxElements, MaxMapPairs: MaxElements, MaxNestedLevels: maxNesting, TagsMd: cbor.TagsForbidden,
		IndefLength: cbor.IndefLengthForbidden, UTF8: cbor.UTF8DecodeInvalid}.DecMode())
	// questions are the server's own.
	questions = must(cbor.DecOptions{MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32, MaxNestedLevels: maxNesting, UTF8: cbor.UTF8DecodeInvalid}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options that do not fit together
	}
	return v
}

// writeFrame writes the length of some parts, in four bytes, and the parts.
func writeFrame(w io.Writer, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > maxQuestion {
		return fmt.Errorf("send %d bytes: a frame has at most %d", n, maxQuestion)
	}
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(parts[0])), uint32(n)) //nolint:gosec // bounded above
	if _, err := w.Write(append(head, parts[0]...)); err != nil {
		return err
	}
	for _, p := range parts[1:] {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads a frame of at most limit bytes. Memory is taken as the bytes
// arrive, and not as the length promises.
func readFrame(r io.Reader, limit int64) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are allowed", errFrame, n, limit)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 1<<16)) + bytes.MinRead)
	if _, err := io.CopyN(&b, r, n); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
