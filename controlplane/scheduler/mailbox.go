package scheduler

import "sync"

// mailbox takes messages from any goroutine and never blocks it; the owner
// takes them all at once.
type mailbox struct {
	mu       sync.Mutex
	messages []any
	signal   chan struct{}
}

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

func (m *mailbox) post(message any) {
	m.mu.Lock()
	m.messages = append(m.messages, message)
	m.mu.Unlock()
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.messages
	m.messages = nil
	return out
}
