package sandbox

import (
	"bytes"
	"testing"
	"time"
)

// FuzzAnswer: whatever a child sends, the server reads no more than the bound,
// does not panic, and says that it is no answer.
func FuzzAnswer(f *testing.F) {
	type answer struct {
		Texts []string
		Deep  map[string][]map[string]int
		Data  []byte
	}
	good, err := encoding.Marshal(answer{[]string{"a"}, map[string][]map[string]int{"b": {{"c": 1}}}, []byte("d")})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{good, {0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0x81}, 1000), {0xa1, 0x61}, {0x5f}} {
		var b bytes.Buffer
		_ = writeFrame(&b, []byte{answered}, seed)
		f.Add(b.Bytes())
	}
	f.Add([]byte("HTTP/1.1 200 OK"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		frame, err := readFrame(bytes.NewReader(sent), 1<<20)
		if err != nil {
			return
		}
		begin := time.Now()
		var a answer
		if err := answers.Unmarshal(frame[min(1, len(frame)):], &a); err == nil && len(a.Texts) > MaxElements {
			t.Error("too many")
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Error(took)
		}
	})
}
