package proxy

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// chunk is how many elements go into one message: the attribute that holds
// them is limited to 64 KiB.
const chunk = 500

// Apply implements Kernel.
func (k *nft) Apply(ops []Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.apply(ops)
}

// apply sends ops in one transaction, together with what is queued already.
func (k *nft) apply(ops []Op) error {
	q := queue{k: k}
	var drop []Op
	for _, op := range ops {
		if op.Verb == DropAffinity {
			drop = append(drop, op)
			continue
		}
		q.add(op)
	}
	q.send()
	if q.err != nil {
		// What is queued would go out with the next transaction.
		return errors.Join(q.err, k.discard())
	}
	if err := k.conn.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", tableName, err)
	}
	return k.dropAffinity(drop)
}

// discard makes the kernel refuse, and so forget, what is queued.
func (k *nft) discard() error {
	k.conn.DelChain(&nftables.Chain{Name: "no such chain", Table: k.table})
	if err := k.conn.Flush(); err == nil {
		return errors.New("discarded rules were taken")
	}
	return nil
}

// queue joins neighbouring operations of the same kind into one message.
type queue struct {
	k     *nft
	set   string
	del   bool
	elems []nftables.SetElement
	err   error
}

func (q *queue) add(op Op) {
	switch op.Verb {
	case AddShape:
		q.send()
		q.k.addShape(op.Shape)
	case AddEndpoint:
		q.element("endpoints", false, nftables.SetElement{Key: slotKey(op.Slot), Val: target(op.Endpoint)})
	case DelEndpoint:
		q.element("endpoints", true, nftables.SetElement{Key: slotKey(op.Slot), Val: target(op.Endpoint)})
	case AddVIP, DelVIP:
		q.element(string(op.Map), op.Verb == DelVIP, nftables.SetElement{Key: vipKey(op.VIP), VerdictData: verdictOf(op)})
	case AddHairpin, DelHairpin:
		a := op.Addr.AsSlice()
		q.element("hairpin", op.Verb == DelHairpin, nftables.SetElement{Key: append(a, a...)})
	}
}

func (q *queue) element(set string, del bool, e nftables.SetElement) {
	if set != q.set || del != q.del || len(q.elems) == chunk {
		q.send()
		q.set, q.del = set, del
	}
	q.elems = append(q.elems, e)
}

func (q *queue) send() {
	if len(q.elems) == 0 || q.err != nil {
		return
	}
	if q.del {
		q.err = q.k.conn.SetDeleteElements(q.k.sets[q.set], q.elems)
	} else {
		q.err = q.k.conn.SetAddElements(q.k.sets[q.set], q.elems)
	}
	q.elems = q.elems[:0]
}

func verdictOf(op Op) *expr.Verdict {
	switch {
	case op.Drop:
		return &expr.Verdict{Kind: expr.VerdictDrop}
	case op.Map == Closed:
		return &expr.Verdict{Kind: expr.VerdictGoto, Chain: "refuse"}
	}
	return &expr.Verdict{Kind: expr.VerdictGoto, Chain: op.Shape.String()}
}

// dropAffinity unbinds clients from endpoints that are gone. The kernel ends
// such elements by itself too, so each is removed on its own and may be missing.
func (k *nft) dropAffinity(ops []Op) error {
	if len(ops) == 0 {
		return nil
	}
	aff := k.sets["affinity"]
	elems, err := k.conn.GetSetElements(aff)
	if err != nil {
		return fmt.Errorf("list affinities: %w", err)
	}
	for _, op := range ops {
		key, val := vipKey(op.VIP), target(op.Endpoint)
		for _, e := range elems {
			if !bytes.HasPrefix(e.Key, key) || !bytes.Equal(e.Val, val) {
				continue
			}
			if err := k.conn.SetDeleteElements(aff, []nftables.SetElement{{Key: e.Key}}); err != nil {
				return err
			}
			if err := k.conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove affinity: %w", err)
			}
		}
	}
	return nil
}
