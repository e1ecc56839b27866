package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/writ-os/writ/cmd/writ/member"
)

// TestConfirmReset: nothing is done unless somebody says that it is to be.
func TestConfirmReset(t *testing.T) {
	l := member.Loss{Name: "s1", Dropped: []member.Lost{{Name: "s2", URL: "https://192.0.2.2:2380"}}}
	for answer, want := range map[string]bool{"s1\n": true, " s1 \n": true, "s1": true, "": false, "\n": false, "y\n": false, "yes\n": false, "s2\n": false, strings.Repeat("s1", 1<<10): false} {
		var said strings.Builder
		if err := typed(l.Name, strings.NewReader(answer), &said); (err == nil) != want || !strings.Contains(said.String(), "(s1)") {
			t.Errorf("%.10q: %v, %s", answer, err, said.String())
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var said strings.Builder
	var usage usageError
	if err := confirmReset(l, null, &said, false); !errors.As(err, &usage) {
		t.Errorf("without a terminal: %v", err)
	}
	if err := confirmReset(l, null, &said, true); err != nil || strings.Count(said.String(), "dropped  s2  https://192.0.2.2:2380  does not answer") != 2 {
		t.Errorf("%v\n%s", err, said.String())
	}
}

func TestWriteReset(t *testing.T) {
	dropped := []member.Lost{{Name: "s2"}}
	for want, l := range map[string]member.Loss{
		"nothing to do":          {Name: "s1", Dropped: []member.Lost{}},
		"s1 starts again":        {Name: "s1", Dropped: dropped},
		"what was there is in x": {Name: "s1", Dropped: dropped, Before: "x"},
	} {
		var text, asJSON strings.Builder
		if err := errors.Join(writeReset(&text, l, false), writeReset(&asJSON, l, true)); err != nil || !strings.Contains(text.String(), want) ||
			!strings.HasPrefix(asJSON.String(), `{"name":"s1","dropped":[`) {
			t.Errorf("%v: %s %s", err, text.String(), asJSON.String())
		}
	}
}
