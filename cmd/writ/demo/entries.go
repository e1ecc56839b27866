package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
)

const (
	maxEntry   = 4 << 10 // bytes of one request
	maxEntries = 1000    // kept; the oldest go first
)

// Entry is what one guest wrote.
type Entry struct {
	Name string    `json:"name"`
	Text string    `json:"text"`
	Time time.Time `json:"time"`
}

func (e Entry) check() error {
	switch {
	case e.Name == "" || e.Text == "":
		return errors.New("an entry needs a name and a text")
	case len(e.Name) > 60 || len(e.Text) > 500:
		return errors.New("an entry has at most 60 bytes of name and 500 of text")
	}
	return nil
}

// entries is where a server keeps what guests wrote.
type entries interface {
	add(context.Context, Entry) error
	list(context.Context) ([]Entry, error)
}

// local keeps entries in this process, and in a file if it has one.
type local struct {
	file string

	mu     sync.Mutex
	loaded bool
	all    []Entry
}

func (l *local) load() error {
	if l.loaded || l.file == "" {
		return nil
	}
	b, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		l.loaded = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	if err := json.Unmarshal(b, &l.all); err != nil {
		return fmt.Errorf("decode entries of %s: %w", l.file, err)
	}
	l.loaded = true
	return nil
}

func (l *local) add(_ context.Context, e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(); err != nil {
		return err
	}
	next := append(append([]Entry(nil), l.all...), e)
	if len(next) > maxEntries {
		next = next[len(next)-maxEntries:]
	}
	if l.file != "" {
		if err := writeFile(l.file, next); err != nil {
			return err
		}
	}
	l.all = next
	return nil
}

// writeFile replaces the file in one step, so that a kill leaves the old one.
func writeFile(file string, all []Entry) error {
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode entries: %w", err)
	}
	if err := durable.WriteFile(file, b, 0o600); err != nil {
		return fmt.Errorf("write entries: %w", err)
	}
	return nil
}

func (l *local) list(context.Context) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(); err != nil {
		return nil, err
	}
	return append([]Entry{}, l.all...), nil
}

// remote keeps entries in another guestbook server.
type remote struct {
	url    string
	client *http.Client
}

func (r *remote) add(ctx context.Context, e Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode entry: %w", err)
	}
	_, err = r.call(ctx, http.MethodPost, b, http.StatusCreated)
	return err
}

func (r *remote) list(ctx context.Context) ([]Entry, error) {
	b, err := r.call(ctx, http.MethodGet, nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var all []Entry
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("decode entries of %s: %w", r.url, err)
	}
	return all, nil
}

func (r *remote) call(ctx context.Context, method string, body []byte, want int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+"/entries", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call the store: %w", err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the store: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxEntry*maxEntries))
	if err != nil {
		return nil, fmt.Errorf("read from the store: %w", err)
	}
	if resp.StatusCode != want {
		return nil, fmt.Errorf("call the store: %s: %s", resp.Status, bytes.TrimSpace(b))
	}
	return b, nil
}

// Greet signs the guestbook at url once, trying until ctx ends.
func Greet(ctx context.Context, url string, e Entry) error {
	r := &remote{url: url, client: &http.Client{Timeout: 3 * time.Second}}
	for {
		err := r.add(ctx, e)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
