package sim

import (
	"errors"
	"math/rand/v2"
	"sync"
)

// ErrPower is what every write fails by after the power was cut.
var ErrPower = errors.New("the power is off")

// Power is that of one machine. All its writes count as steps.
type Power struct {
	mu    sync.Mutex
	steps int
	cut   int
	off   bool
}

// CutAfter cuts the power at the step after n more; a negative n never does.
func (p *Power) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = -1
	if n >= 0 {
		p.cut = p.steps + n
	}
}

// Steps counts them so far.
func (p *Power) Steps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}

func (p *Power) step() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off || p.steps == p.cut {
		p.off = true
		return ErrPower
	}
	p.steps++
	return nil
}

func (p *Power) isOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}

func (p *Power) on() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off, p.cut = false, -1
}

// chance is what becomes of the writes that a power failure finds unsynced.
type chance struct {
	*rand.Rand
	share float64 // of them that are lasting
}

func (c chance) lasts() bool { return c.Float64() < c.share }
