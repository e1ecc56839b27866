package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Server is who answers.
type Server struct {
	URL string
	// Client returns the client of a user; "nobody" has no credentials.
	Client func(user string, groups []string) (*http.Client, error)
	// Strict ends a file at a response that does not come, or that lacks what
	// should be saved. Else that is the response.
	Strict bool
}

// limit of one exchange. Requests that last ask for it by timeoutSeconds.
const limit = 10 * time.Second

// patience is how long Until waits.
const patience = 3 * time.Second

// Play asks everything in order and calls tell with each response as text.
func (f *File) Play(ctx context.Context, s Server, tell func(e *Exchange, got string)) error {
	saved := values{}
	for _, e := range f.Exchanges {
		got, err := s.until(ctx, e.Request, saved)
		if err != nil && (s.Strict || ctx.Err() != nil) {
			return fmt.Errorf("%s: %s %s: %w", e.Name, e.Request.Method, e.Request.Path, err)
		} else if err != nil && got == "" {
			got = "no response: " + strings.ReplaceAll(err.Error(), s.URL, "") + "\n"
		}
		tell(e, got)
	}
	return nil
}

// own are the headers that are not sent.
var own = map[string]bool{"User": true, "Save": true, "Events": true, "Encode": true, "Repeat": true, "Until": true}

// until asks again while the answer is not the one that is waited for. What
// comes last is the answer.
func (s Server) until(ctx context.Context, r Request, saved values) (string, error) {
	want, began := r.Header.Get("Until"), time.Now()
	for {
		got, err := s.play(ctx, r, saved)
		if err != nil || want == "" || strings.HasPrefix(got, want) || time.Since(began) > patience {
			return got, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s Server) play(ctx context.Context, r Request, saved values) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := s.request(ctx, r, saved)
	if err != nil {
		return "", err
	}
	client, err := s.client(r.Header.Get("User"))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := readBody(resp, r.Header.Get("Events"))
	if err != nil {
		return "", fmt.Errorf("read body: %w", err)
	}
	docs, err := decode(resp.Header.Get("Content-Type"), body)
	if err != nil {
		return "", err
	}
	missing := save(r.Header.Values("Save"), docs, saved)
	text, err := render(resp, docs, saved)
	if err == nil && missing != nil {
		err = fmt.Errorf("%w; the response was %s", missing, text)
	}
	return text, err
}

func (s Server) client(who string) (*http.Client, error) {
	names := strings.Split(who, ",")
	switch {
	case who == "":
		return s.Client("admin", []string{"system:masters"})
	case who == "nobody":
		return s.Client("", nil)
	}
	return s.Client(names[0], names[1:])
}

func (s Server) request(ctx context.Context, r Request, saved values) (*http.Request, error) {
	body, kind, err := encodeBody(saved.expand(r.Body), r.Header.Get("Encode"))
	if err != nil {
		return nil, err
	}
	if n := r.Header.Get("Repeat"); n != "" {
		times, err := strconv.Atoi(n)
		if err != nil {
			return nil, fmt.Errorf("header Repeat: %w", err)
		}
		body = strings.Repeat(body, times)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.URL+saved.expand(r.Path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, all := range r.Header {
		for _, v := range all {
			if !own[name] {
				req.Header.Add(name, saved.expand(v))
			}
		}
	}
	if body != "" && r.Header.Values("Content-Type") == nil {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("User-Agent", "exchange/1")
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	return req, nil
}

// readBody reads all, or so many JSON documents.
func readBody(resp *http.Response, events string) ([]byte, error) {
	if events == "" || resp.StatusCode != http.StatusOK {
		return io.ReadAll(resp.Body)
	}
	n, err := strconv.Atoi(events)
	if err != nil {
		return nil, fmt.Errorf("header Events: %w", err)
	}
	dec, out := json.NewDecoder(resp.Body), []byte{}
	for range n {
		var doc json.RawMessage
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("only these events came within %v: %s", limit, out)
			}
			return nil, err
		}
		out = append(append(out, doc...), '\n')
	}
	return out, nil
}

// save keeps values of the first document.
func save(rules []string, docs []any, saved values) error {
	for _, rule := range rules {
		name, path, _ := strings.Cut(rule, "=")
		if len(docs) == 0 {
			return fmt.Errorf("save %s: the body is empty", rule)
		}
		v := docs[0]
		for _, step := range strings.Split(path, ".") {
			switch at := v.(type) {
			case map[string]any:
				v = at[step]
			case []any:
				i, err := strconv.Atoi(step)
				if err != nil || i >= len(at) {
					return fmt.Errorf("save %s: no element %s", rule, step)
				}
				v = at[i]
			default:
				v = nil
			}
		}
		switch v := v.(type) {
		case string:
			saved[name] = v
		case json.Number:
			saved[name] = v.String()
		default:
			return fmt.Errorf("save %s: there is no such value", rule)
		}
	}
	return nil
}
