package fairness

// waiter is a request that waits for a seat.
type waiter struct {
	flow string
	// seat is closed when the request may run.
	seat chan struct{}
}

// queue holds the waiters of one level: a line for each flow, served in turn.
type queue struct {
	lines map[string][]*waiter
	turn  []string // flows with a line, the next first
	size  int
}

// push adds a waiter at the end of its flow's line. It refuses where the line
// or the whole queue is full.
func (q *queue) push(w *waiter, line, all int) bool {
	if q.size >= all || len(q.lines[w.flow]) >= line {
		return false
	}
	if q.lines == nil {
		q.lines = map[string][]*waiter{}
	}
	if len(q.lines[w.flow]) == 0 {
		q.turn = append(q.turn, w.flow)
	}
	q.lines[w.flow] = append(q.lines[w.flow], w)
	q.size++
	return true
}

// pop takes the first waiter of the flow whose turn it is; nil without any.
func (q *queue) pop() *waiter {
	if len(q.turn) == 0 {
		return nil
	}
	flow := q.turn[0]
	q.turn = q.turn[1:]
	line := q.lines[flow]
	w := line[0]
	line[0] = nil
	q.size--
	if line = line[1:]; len(line) > 0 {
		q.lines[flow] = line
		q.turn = append(q.turn, flow)
	} else {
		delete(q.lines, flow)
	}
	return w
}

// remove takes out a waiter that has given up.
func (q *queue) remove(w *waiter) {
	line := q.lines[w.flow]
	for i := range line {
		if line[i] != w {
			continue
		}
		q.size--
		line = append(line[:i:i], line[i+1:]...)
		if len(line) > 0 {
			q.lines[w.flow] = line
			return
		}
		delete(q.lines, w.flow)
		for j := range q.turn {
			if q.turn[j] == w.flow {
				q.turn = append(q.turn[:j:j], q.turn[j+1:]...)
				return
			}
		}
	}
}
