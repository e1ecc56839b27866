package superblock

import (
	"bytes"
	"reflect"
	"testing"
)

func FuzzParse(f *testing.F) {
	b, err := Superblock{UUID: [16]byte{1, 2}, DataBlocks: 300, Salt: []byte("salt")}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Parse(again); err != nil || !reflect.DeepEqual(same, s) {
			t.Fatalf("%+v came back as %+v, %v", s, same, err)
		}
	})
}

func TestRefuse(t *testing.T) {
	good, err := Superblock{DataBlocks: 1, Salt: bytes.Repeat([]byte{7}, 256)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 8, 12, 32, 64, 68, 72, 79, 81} {
		b := bytes.Clone(good)
		b[at] ^= 0x81
		if at == 72 {
			b[at] = 0
		}
		if s, err := Parse(b); err == nil {
			t.Errorf("byte %d: %+v", at, s)
		}
	}
	if _, err := Parse(good[:511]); err == nil {
		t.Error("511 bytes were accepted")
	}
	for _, s := range []Superblock{{}, {DataBlocks: MaxDataBlocks + 1}, {DataBlocks: 1, Salt: make([]byte, 257)}} {
		if _, err := s.Encode(); err == nil {
			t.Errorf("%d blocks, salt of %d bytes were accepted", s.DataBlocks, len(s.Salt))
		}
	}
}
