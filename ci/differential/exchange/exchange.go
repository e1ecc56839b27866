// Package exchange reads, plays and writes recorded conversations with an API
// server.
//
// A file is a txtar archive. Its comment says what it is about; every exchange
// has two sections:
//
//	-- create/request --
//	POST /api/v1/namespaces/example/configmaps?dryRun=All
//	User: alice,developers
//	Save: rv=metadata.resourceVersion
//
//	{"kind": "ConfigMap", ...}
//	-- create/response --
//	201 application/json
//
//	apiVersion: v1
//	...
//
// Headers of the request are sent, except these:
//
//	User    who asks: name[,group...]; "nobody" sends no credentials. Default: a
//	        member of system:masters.
//	Save    name=path keeps a value of the response's JSON body; ${name} in
//	        later requests of the file is that value.
//	Events  n ends the exchange after n documents of the response's body: a watch.
//	Encode  protobuf or cbor: the body, written as JSON or YAML, is sent so.
//	Until   a status: ask again, for some seconds, until it comes. For what a
//	        server does in its own time.
//	Repeat  n sends the body n times over, as one.
//
// The package promises that a response is written without what differs from
// run to run (Normal), so that responses can be compared as text.
package exchange

import (
	"bufio"
	"fmt"
	"net/http"
	"net/textproto"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// File is one conversation.
type File struct {
	Comment   string
	Exchanges []*Exchange
}

// Exchange is one request and its response.
type Exchange struct {
	Name     string
	request  string // as written
	Request  Request
	Response string // "" when not recorded
}

// Request is what is asked. ${name} is not replaced yet.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         string
}

// Parse reads a file.
func Parse(data []byte) (*File, error) {
	a := txtar.Parse(data)
	f := &File{Comment: string(a.Comment)}
	byName := map[string]*Exchange{}
	for _, s := range a.Files {
		name, part, ok := cutLast(s.Name, "/")
		e := byName[name]
		switch {
		case ok && part == "request" && e == nil:
			req, err := parseRequest(string(s.Data))
			if err != nil {
				return nil, fmt.Errorf("section %q: %w", s.Name, err)
			}
			e = &Exchange{Name: name, request: string(s.Data), Request: req}
			byName[name] = e
			f.Exchanges = append(f.Exchanges, e)
		case ok && part == "response" && e != nil && e.Response == "":
			e.Response = string(s.Data)
		default:
			return nil, fmt.Errorf("section %q: want one NAME/request, and NAME/response after it", s.Name)
		}
	}
	return f, nil
}

// Format writes a file.
func (f *File) Format() []byte {
	a := &txtar.Archive{Comment: []byte(f.Comment)}
	for _, e := range f.Exchanges {
		a.Files = append(a.Files, txtar.File{Name: e.Name + "/request", Data: []byte(e.request)})
		if e.Response != "" {
			a.Files = append(a.Files, txtar.File{Name: e.Name + "/response", Data: []byte(e.Response)})
		}
	}
	return txtar.Format(a)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func parseRequest(text string) (Request, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	line, rest, _ := strings.Cut(head, "\n")
	method, path, ok := strings.Cut(strings.TrimSpace(line), " ")
	if !ok || !strings.HasPrefix(path, "/") {
		return Request{}, fmt.Errorf("first line is %q; want METHOD /path", line)
	}
	r := Request{Method: method, Path: path, Header: http.Header{}, Body: strings.TrimSuffix(body, "\n")}
	s := bufio.NewScanner(strings.NewReader(rest))
	for s.Scan() {
		if s.Text() == "" {
			continue
		}
		name, value, ok := strings.Cut(s.Text(), ":")
		if !ok {
			return Request{}, fmt.Errorf("%q is no header", s.Text())
		}
		r.Header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	return r, s.Err()
}

// values are what Save kept.
type values map[string]string

// expand replaces ${name}.
func (v values) expand(s string) string {
	for _, name := range v.names() {
		s = strings.ReplaceAll(s, "${"+name+"}", v[name])
	}
	return s
}

// names in order of falling length of their values: a longer value may hold a
// shorter one.
func (v values) names() []string {
	all := make([]string, 0, len(v))
	for n := range v {
		all = append(all, n)
	}
	sort.Slice(all, func(i, j int) bool {
		if len(v[all[i]]) != len(v[all[j]]) {
			return len(v[all[i]]) > len(v[all[j]])
		}
		return all[i] < all[j]
	})
	return all
}
