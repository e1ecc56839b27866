package apiserver

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// media is an encoding of the wire.
type media uint8

const (
	mediaJSON media = iota
	mediaYAML
	mediaProtobuf
)

var mediaNames = [...]string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

// String returns the MIME type.
func (m media) String() string { return mediaNames[m] }

// conversion is what a client wants instead of the object itself.
type conversion struct{ Kind, Group, Version string }

// output is the outcome of a negotiation.
type output struct {
	Media   media
	Convert conversion
	Pretty  bool
}

// table and partial say that the client wants rows or metadata only.
func (o output) table() bool   { return o.Convert.Kind == "Table" }
func (o output) partial() bool { return strings.HasPrefix(o.Convert.Kind, "PartialObjectMetadata") }

// allowObjects accepts what resources can be turned into.
func allowObjects(m media, c conversion) bool {
	switch c.Kind {
	case "":
		return c == conversion{}
	case "Table":
		return metaVersion(c) && m != mediaProtobuf
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return metaVersion(c)
	}
	return false
}

// allowPlain accepts no conversion.
func allowPlain(_ media, c conversion) bool { return c == conversion{} }

func metaVersion(c conversion) bool {
	return c.Group == "meta.k8s.io" && (c.Version == "v1" || c.Version == "v1beta1")
}

// negotiate picks the best clause of an Accept header that allow accepts.
func negotiate(r *http.Request, allow func(media, conversion) bool) (output, error) {
	pretty := wantsPretty(r)
	header := strings.Join(r.Header["Accept"], ",")
	if header == "" {
		return output{Pretty: pretty}, nil
	}
	for _, c := range parseAccept(header) {
		for m := mediaJSON; m <= mediaProtobuf; m++ {
			if c.matches(m) && allow(m, c.convert) {
				return output{Media: m, Convert: c.convert, Pretty: pretty || c.pretty}, nil
			}
		}
	}
	return output{}, errNotAcceptable(mediaNames[:])
}

// clause is one alternative of an Accept header.
type clause struct {
	mime    string
	q       float64
	convert conversion
	pretty  bool
}

func (c clause) matches(m media) bool {
	return c.mime == mediaNames[m] || c.mime == "*/*" || c.mime == "application/*"
}

// parseAccept reads an Accept header, best first, ties in the order given.
func parseAccept(header string) []clause {
	clauses := make([]clause, 0, 4)
	sorted := true
	for header != "" {
		var part string
		part, header, _ = strings.Cut(header, ",")
		c := parseClause(part)
		if c.mime == "" {
			continue
		}
		sorted = sorted && c.q == 1
		clauses = append(clauses, c)
	}
	if !sorted {
		slices.SortStableFunc(clauses, func(a, b clause) int {
			switch {
			case a.q > b.q:
				return -1
			case a.q < b.q:
				return 1
			}
			return 0
		})
	}
	return clauses
}

func parseClause(s string) clause {
	name, params, _ := strings.Cut(s, ";")
	c := clause{mime: strings.ToLower(strings.TrimSpace(name)), q: 1}
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		k, v, _ := strings.Cut(p, "=")
		v = strings.TrimSpace(v)
		switch strings.TrimSpace(k) {
		case "as":
			c.convert.Kind = v
		case "g":
			c.convert.Group = v
		case "v":
			c.convert.Version = v
		case "pretty":
			c.pretty = v == "1"
		case "q":
			if q, err := strconv.ParseFloat(v, 64); err == nil {
				c.q = q
			}
		}
	}
	return c
}

// wantsPretty says whether the body is for human eyes.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v := r.URL.Query().Get("pretty"); v != "" {
			pretty, _ := strconv.ParseBool(v)
			return pretty
		}
	}
	ua := r.UserAgent()
	return strings.HasPrefix(ua, "curl") || strings.HasPrefix(ua, "Wget") || strings.HasPrefix(ua, "Mozilla/5.0")
}

// bodyMedia returns the encoding of a request's body.
func bodyMedia(r *http.Request) (media, error) {
	ct := r.Header.Get("Content-Type")
	switch ct {
	case "", "application/json":
		return mediaJSON, nil
	case "application/vnd.kubernetes.protobuf":
		return mediaProtobuf, nil
	}
	if name, _, err := mime.ParseMediaType(ct); err == nil {
		for m := mediaJSON; m <= mediaProtobuf; m++ {
			if name == mediaNames[m] {
				return m, nil
			}
		}
	}
	return 0, errUnsupportedMediaType(mediaNames[:])
}
