package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// erasedComment begins a file whose secrets were taken from it.
const erasedComment = "# This machine keeps its configuration in /var/lib/writ/node.yaml since it read\n" +
	"# this file, and has erased the secrets here. To tell it something new write\n" +
	"# them again, with a higher generation.\n"

// Erase is a file without its secrets: token, passwords, keys. The rest stays
// as it was written. erased is false when there was nothing to erase.
func Erase(data []byte) (without []byte, erased bool, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", Name, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, false, fmt.Errorf("read %s: %w", Name, errors.New("it is no object"))
	}
	var gone []string
	for _, path := range secrets {
		gone = append(gone, remove(doc.Content[0], path)...)
	}
	if len(gone) == 0 {
		return data, false, nil
	}
	var b bytes.Buffer
	b.WriteString(erasedComment)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, false, fmt.Errorf("write %s: %w", Name, err)
	}
	for _, secret := range gone {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) > 3 && bytes.Contains(b.Bytes(), []byte(line)) {
				return []byte(erasedComment), true, nil // it stands elsewhere too, in a comment perhaps
			}
		}
	}
	return b.Bytes(), true, nil
}

// remove takes a field out of an object and returns what it said.
func remove(n *yaml.Node, path []string) (gone []string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value != path[0] {
			continue
		}
		if len(path) == 1 {
			gone = append(gone, n.Content[i+1].Value)
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		gone = append(gone, remove(n.Content[i+1], path[1:])...)
	}
	return gone
}

// blank says that a file was overwritten with zeros: its secrets are gone, and
// what takes its place had not come yet when the power went.
func blank(data []byte) bool {
	return len(bytes.Trim(data, "\x00")) == 0
}

// sameFile says that a file is another one, with or without its secrets.
func sameFile(whole, other []byte) bool {
	if bytes.Equal(whole, other) {
		return true
	}
	without, erased, err := Erase(whole)
	return err == nil && erased && bytes.Equal(without, other)
}
