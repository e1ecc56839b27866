package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestLibraryLog(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  func()
		want string // "" is nothing at --log-level info
	}{
		{"an error", func() { klog.Errorf("no answer: %v", io.EOF) }, `level=WARN msg="no answer: EOF" part=library`},
		{"an error with facts", func() { klog.ErrorS(io.EOF, "Unhandled Error", "attempt", 3) }, `level=WARN msg="Unhandled Error" part=library err=EOF attempt=3`},
		{"from a context", func() { klog.FromContext(t.Context()).Error(errors.New("reset"), "Stream broken") }, `level=WARN msg="Stream broken" part=library err=reset`},
		{"a client that left", func() { klog.FromContext(t.Context()).Error(io.EOF, "Error on socket receive") }, ""},
		{"a tale", func() { klog.InfoS("Serving securely") }, ""},
		{"a warning", func() { klog.Warning("old form") }, ""},
		{"details", func() { klog.V(6).Info("request") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			libraryLog(slog.New(slog.NewTextHandler(&out, nil)))
			defer klog.ClearLogger()
			tt.log()
			_, got, _ := strings.Cut(strings.TrimSpace(out.String()), " ") // without the time
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
