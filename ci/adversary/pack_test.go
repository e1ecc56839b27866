package adversary

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
)

// packer makes packs as nobody's git does.
type packer struct {
	bytes.Buffer
	count uint32
	z     *zlib.Writer
}

// Kinds of objects in a pack.
const (
	commits = 1
	trees   = 2
	blobs   = 3
)

var kindNames = map[byte]string{commits: "commit", trees: "tree", blobs: "blob"}

func newPacker() *packer {
	p := &packer{}
	p.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	return p
}

func (p *packer) begin(kind byte, n int) {
	p.count++
	c := kind<<4 | byte(n&15)
	for n >>= 4; n > 0; n >>= 7 {
		p.WriteByte(c | 0x80)
		c = byte(n & 0x7f)
	}
	p.WriteByte(c)
	if p.z == nil { // one writer costs a megabyte
		p.z, _ = zlib.NewWriterLevel(p, zlib.BestSpeed)
	}
	p.z.Reset(p)
}

func (p *packer) add(kind byte, data []byte) (sha string) {
	p.begin(kind, len(data))
	_, _ = p.z.Write(data)
	_ = p.z.Close()
	h := sha1.New()
	_, _ = io.WriteString(h, kindNames[kind]+" "+strconv.Itoa(len(data))+"\x00")
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// zeros adds a blob of n zeros, of which this process never holds more than a few.
func (p *packer) zeros(n int) (sha string) {
	p.begin(blobs, n)
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", n)
	_, _ = io.Copy(io.MultiWriter(p.z, h), io.LimitReader(zeros{}, int64(n)))
	_ = p.z.Close()
	return hex.EncodeToString(h.Sum(nil))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func (p *packer) commit(tree string) string {
	return p.add(commits, []byte("tree "+tree+"\nauthor A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\n\nx\n"))
}

func (p *packer) done() []byte {
	b := p.Bytes()
	binary.BigEndian.PutUint32(b[8:], p.count)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// entry is one of a tree.
func entry(mode, name, sha string) string {
	raw, err := hex.DecodeString(sha)
	if err != nil {
		panic(err)
	}
	return mode + " " + name + "\x00" + string(raw)
}
