package receive

import (
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// streamPack writes objects as a pack, one by one, each whole: it holds one of them
// in memory at a time. The encoder of go-git holds all of them.
func streamPack(w io.Writer, st storer.EncodedObjectStorer, objs []plumbing.Hash) error {
	sum := sha1.New()
	out := io.MultiWriter(w, sum)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objs))) //nolint:gosec // a repository has fewer
	if _, err := out.Write(head); err != nil {
		return err
	}
	z := zlib.NewWriter(out)
	for _, h := range objs {
		if err := streamObject(out, z, st, h); err != nil {
			return err
		}
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

func streamObject(out io.Writer, z *zlib.Writer, st storer.EncodedObjectStorer, h plumbing.Hash) error {
	o, err := st.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return fmt.Errorf("read object %s: %w", h, err)
	}
	in, err := o.Reader()
	if err != nil {
		return fmt.Errorf("read object %s: %w", h, err)
	}
	defer in.Close()
	if _, err := out.Write(entryHead(o.Type(), o.Size())); err != nil {
		return err
	}
	z.Reset(out)
	n, err := io.Copy(z, in)
	if err == nil && n != o.Size() {
		err = fmt.Errorf("object %s has %d bytes and says %d", h, n, o.Size())
	}
	return errors.Join(err, z.Close())
}

// entryHead is what stands before an object in a pack: its kind and its length, four
// bits of it and then seven a byte (gitformat-pack(5)).
func entryHead(kind plumbing.ObjectType, size int64) []byte {
	n := uint64(size) //nolint:gosec // it is none below 0
	head := []byte{byte(kind)<<4 | byte(n&15)}
	for n >>= 4; n > 0; n >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(n&0x7f))
	}
	return head
}
