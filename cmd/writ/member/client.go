package member

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Client asks the servers of a cluster about themselves.
type Client struct {
	HTTP *http.Client
	// Server is the URL of one of them.
	Server string
}

// List are the servers of the cluster.
func (c Client) List(ctx context.Context) ([]Server, error) {
	var all []Server
	if err := c.do(ctx, http.MethodGet, Path, &all); err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	return all, nil
}

// Remove takes a server out of the cluster, for good.
func (c Client) Remove(ctx context.Context, name string) error {
	if err := c.do(ctx, http.MethodDelete, Path+"/"+url.PathEscape(name), nil); err != nil {
		return fmt.Errorf("remove server: %w", err)
	}
	return nil
}

// Reset makes the server that is asked the only one of its cluster, when its name
// is given; without one it says what that takes away.
func (c Client) Reset(ctx context.Context, confirm string) (l Loss, err error) {
	path := resetPath
	if confirm != "" {
		path += "?" + url.Values{"confirm": {confirm}}.Encode()
	}
	if err := c.do(ctx, http.MethodPost, path, &l); err != nil {
		return l, fmt.Errorf("reset: %w", err)
	}
	return l, nil
}

func (c Client) do(ctx context.Context, method, path string, into any) error {
	resp, err := c.open(ctx, method, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// open asks, and returns what is answered if that is no refusal.
func (c Client) open(ctx context.Context, method, path string) (*http.Response, error) {
	return c.send(ctx, method, path, nil)
}

// send is open with a body.
func (c Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.Server, "/")+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return nil, said(resp, text)
}

// said is the error that a server answers with.
func said(resp *http.Response, text []byte) error {
	var st metav1.Status
	if json.Unmarshal(text, &st) != nil || st.Message == "" {
		st.Message = resp.Status
	}
	return fmt.Errorf("%s://%s answers: %s", resp.Request.URL.Scheme, resp.Request.URL.Host, st.Message)
}
