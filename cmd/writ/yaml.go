package main

import (
	"io"

	"sigs.k8s.io/yaml"
)

// yamlWriter writes JSON as YAML. Each write is a document, as encoders of JSON
// make one write of each value.
type yamlWriter struct {
	to    io.Writer
	begun bool
}

func (y *yamlWriter) Write(p []byte) (int, error) {
	data, err := yaml.JSONToYAML(p)
	if err != nil {
		data = p // is no JSON: it is said as it is
	}
	if y.begun {
		data = append([]byte("---\n"), data...)
	}
	y.begun = true
	if _, err := y.to.Write(data); err != nil {
		return 0, err
	}
	return len(p), nil
}
