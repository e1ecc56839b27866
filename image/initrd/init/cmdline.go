//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/writ-os/writ/image/gpt"
)

// options are what the kernel's command line says to this program.
type options struct {
	hash       string   // roothash=, 64 hexadecimal digits
	data, tree gpt.GUID // of the partitions, from the hash
	init       string   // writ.init=, the program to hand over to
}

// parseCmdline reads the options. Of an option that is there twice the first
// counts: what an addon appends cannot put another root file system in place.
func parseCmdline(text string) (options, error) {
	args := map[string]string{}
	for _, word := range splitWords(text) {
		if word == "--" {
			break // what follows is for systemd
		}
		key, value, _ := strings.Cut(word, "=")
		if _, again := args[key]; !again {
			args[key] = value
		}
	}
	o := options{hash: strings.ToLower(args["roothash"]), init: args["writ.init"]}
	hash, err := hex.DecodeString(o.hash)
	if err != nil || len(hash) != 32 {
		return o, fmt.Errorf("roothash= on the kernel's command line is %q, not 64 hexadecimal digits; boot the kernel image that belongs to this disk", args["roothash"])
	}
	if o.data, o.tree, err = gpt.VerityGUIDs(hash); err != nil {
		return o, err
	}
	if o.init == "" {
		o.init = "/usr/lib/systemd/systemd"
	}
	if !strings.HasPrefix(o.init, "/") {
		return o, fmt.Errorf("writ.init=%s on the kernel's command line is not an absolute path", o.init)
	}
	return o, nil
}

// splitWords splits at spaces that are not between double quotes, as the
// kernel does.
func splitWords(text string) []string {
	var words []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\n'):
			flush()
		default:
			word.WriteRune(c)
		}
	}
	flush()
	return words
}
