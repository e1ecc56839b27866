package bundle

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestPack(t *testing.T) {
	raw := bytes.Repeat([]byte("image"), 1<<18)
	for _, level := range []Level{Best, Quick} {
		var a, b bytes.Buffer
		if err := Pack(&a, bytes.NewReader(raw), level); err != nil {
			t.Fatal(err)
		}
		if err := Pack(&b, bytes.NewReader(raw), level); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Error("packed twice, it is not the same", err)
		}
		dec, err := zstd.NewReader(&a)
		if err != nil {
			t.Fatal(err)
		}
		defer dec.Close()
		if got, err := io.ReadAll(dec); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// What is packed is believed as little as the rest: a root file system that
// unpacks to more, to less or not at all is refused where it is unpacked, and
// so much of it is read as was said.
func TestUnpackRefuses(t *testing.T) {
	key := signer(t, 1)
	wide := section(wideWindow(t))
	for _, tt := range []struct {
		name string
		root *io.SectionReader
		size int64
		want string
	}{
		{"more", packed(strings.Repeat("r", 1<<20)), 1000, "its root.erofs.zst does not unpack to the 1000 bytes that its manifest says"},
		{"less", packed("root"), 1000, "its root.erofs.zst does not unpack to the 1000 bytes that its manifest says"},
		{"no zstd", section(strings.Repeat("root", 1000)), 4000, "its root.erofs.zst cannot be unpacked: "},
		{"cut off", section(string(cut(t))), 4000, "its root.erofs.zst cannot be unpacked: "},
		{"a wide window", wide, 4000, "its root.erofs.zst cannot be unpacked: "},
		{"not said", packed("root"), 0, "its root.erofs.zst unpacks to 0 bytes"},
		{"too much", packed("root"), maxRoot + 1, "its root.erofs.zst unpacks to 4294967297 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parts()
			p.Root, p.RootSize = tt.root, tt.size
			var b bytes.Buffer
			_, err := Write(&b, p, key)
			if err == nil {
				_, err = all(&b, Trust{Keys: keys(t, key)})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !Refused(err) && tt.size > 0 && tt.size <= maxRoot {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func cut(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(&b, strings.NewReader(strings.Repeat("root", 1000)), Best); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[:b.Len()-8]
}

// wideWindow asks a reader for more memory than a bundle may.
func wideWindow(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	enc, err := zstd.NewWriter(&b, zstd.WithWindowSize(4*window), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(enc, io.LimitReader(strings.NewReader(strings.Repeat("root", 1<<20)), 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
