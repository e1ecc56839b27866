package trust

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// world is a repository with three people: alice and carol look after the
// policy, bob after his application.
type world struct {
	*gitRepo
	key    map[string]string // files of private keys
	policy string
	first  *Policy
}

func newWorld(t *testing.T) *world {
	w := &world{gitRepo: newRepo(t), key: map[string]string{"": ""}}
	var b strings.Builder
	b.WriteString("keys:\n")
	for _, who := range []string{"alice", "bob", "carol"} {
		file, pub := sshKey(t, who, "-t", "ed25519")
		w.key[who] = file
		fmt.Fprintf(&b, "- {name: %s, type: ssh, key: %s, mails: [%s@example.org]}\n", who, pub, who)
	}
	w.key["mallory"], _ = sshKey(t, "mallory", "-t", "ed25519")
	b.WriteString("groups:\n- {name: admins, members: [alice, carol]}\n")
	b.WriteString("rules:\n- path: \"*\"\n- {path: /infra/, signers: [admins]}\n- {path: /vault/, signers: [admins, bob], minimum: 2}\n- {path: /.writ/, signers: [admins]}\n")
	w.policy = b.String()
	w.first = mustParse(t, w.policy)
	return w
}

// by commits a file, signed by its author.
func (w *world) by(who, file, text string) string {
	w.t.Helper()
	return w.commit(who, w.key[who], file, text)
}

func (w *world) check(base, head string, more ...func(*Input)) *Result {
	w.t.Helper()
	in := Input{Mode: Require, Base: base, Head: head, Bootstrap: w.first, History: w, Now: start.Add(later)}
	for _, m := range more {
		m(&in)
	}
	res, err := Check(context.Background(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// expect compares the findings with "rule file words".
func expect(t *testing.T, res *Result, want ...string) {
	t.Helper()
	if len(res.Findings) != len(want) {
		t.Errorf("%d findings, want %d:\n%s", len(res.Findings), len(want), listed(res))
		return
	}
	for _, x := range want {
		if !slices.ContainsFunc(res.Findings, func(f v1alpha1.Finding) bool { return placed([]string{f.Rule + " " + f.File + " " + f.Message}, x) }) {
			t.Errorf("no finding %q:\n%s", x, listed(res))
		}
	}
	if res.Refused() != (len(want) > 0) {
		t.Errorf("Refused = %v", res.Refused())
	}
}

func listed(res *Result) string {
	var b strings.Builder
	for _, f := range res.Findings {
		fmt.Fprintf(&b, "  %s %s:%d: %s (%s)\n", f.Rule, f.File, f.Line, f.Message, f.Hint)
	}
	return b.String()
}

// The first commit is judged as a whole: its signer vouches for all files.
func TestFirst(t *testing.T) {
	w := newWorld(t)
	w.commit("mallory", "", "old.yaml", "a: 1\n") // the history before does not matter
	w.by("alice", ".writ/trust.yaml", w.policy)
	head := w.by("alice", "infra/a.yaml", "a: 1\n")
	res := w.check("", head)
	expect(t, res)
	if h := res.Head(); h.State != "Verified" || h.Signer != "alice" {
		t.Errorf("head: %+v", h)
	}
	expect(t, w.check("", w.by("bob", "b.yaml", "b: 1\n")), "Signer .writ/trust.yaml bob may not", "Signer infra/a.yaml bob may not")
	expect(t, w.check("", w.commit("bob", "", "c.yaml", "c: 1\n")), "Signature bob@example.org> is not trusted: it has no signature")
	expect(t, w.check("", head, func(in *Input) { in.Bootstrap = nil }), "Signature no key is trusted yet")
}

func TestRange(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy)
	w.by("alice", "infra/a.yaml", "a: 1\n")
	good := w.by("bob", "b.yaml", "b: 1\n")
	expect(t, w.check(base, good))

	unsigned := w.commit("bob", "", "b.yaml", "b: 2\n")
	head := w.by("alice", "b.yaml", "b: 3\n")
	expect(t, w.check(base, head), "Signature b.yaml "+unsigned[:12]+" by bob") // also below a good head
	expect(t, w.check(unsigned, head))
	res := w.check(base, head, func(in *Input) { in.Mode = Warn })
	if res.Refused() || len(res.Findings) != 1 {
		t.Errorf("Warn: %v %s", res.Refused(), listed(res))
	}
	if res = w.check(base, head, func(in *Input) { in.Mode = Off }); res.Head().State != "Off" || res.Refused() {
		t.Errorf("Off: %+v", res)
	}

	w.git("reset", "-q", "--hard", good)
	expect(t, w.check(good, w.by("bob", "infra/a.yaml", "a: 2\n")), "Signer infra/a.yaml bob may not: the rule for /infra/ in line 9 of .writ/trust.yaml asks for admins")
	w.git("reset", "-q", "--hard", good)
	expect(t, w.check(good, w.by("mallory", "m.yaml", "a: 2\n")), "Signature m.yaml not in the policy")
	w.git("reset", "-q", "--hard", good)
	expect(t, w.check(good, w.commit("alice", w.key["bob"], "m.yaml", "a: 2\n")), "Signature m.yaml bob may not sign for the committer alice@example.org")
	// Deleting and renaming change both paths.
	w.git("reset", "-q", "--hard", good)
	w.git("mv", "infra/a.yaml", "mine.yaml")
	expect(t, w.check(good, w.as("bob", w.key["bob"], "commit", "-q", "-m", "move")), "Signer infra/a.yaml bob may not")
}

// The policy changes only by the policy before, and holds from then on.
func TestPolicyChange(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy)
	file, pub := sshKey(t, "dave", "-t", "ed25519")
	w.key["dave"] = file
	wider := strings.Replace(w.policy, "keys:\n", "keys:\n- {name: dave, type: ssh, key: "+pub+"}\n", 1)

	// One who gives himself rights.
	own := w.by("dave", ".writ/trust.yaml", wider)
	expect(t, w.check(base, own), "Signature .writ/trust.yaml not in the policy")
	w.git("reset", "-q", "--hard", base)
	expect(t, w.check(base, w.by("bob", ".writ/trust.yaml", wider)), "Signer .writ/trust.yaml bob may not")

	// Alice lets him in; he may commit from the next commit on.
	w.git("reset", "-q", "--hard", base)
	in := w.by("alice", ".writ/trust.yaml", wider)
	head := w.by("dave", "d.yaml", "d: 1\n")
	expect(t, w.check(base, head))
	expect(t, w.check(in, head))

	// Out again: the next commit of his is refused, in the same push too.
	w.by("carol", ".writ/trust.yaml", w.policy)
	expect(t, w.check(in, w.by("dave", "d.yaml", "d: 2\n")), "Signature d.yaml not in the policy")

	// A policy that is wrong is found and changes nothing.
	w.git("reset", "-q", "--hard", in)
	w.by("alice", ".writ/trust.yaml", "keys: 3\n")
	res := w.check(in, w.by("dave", "d.yaml", "d: 3\n"))
	expect(t, res, "WrongType .writ/trust.yaml must be a list")
	if res.Findings[0].Line != 1 || res.Findings[0].Column != 7 {
		t.Errorf("place: %+v", res.Findings[0])
	}

	// Without a policy that of the Secret holds.
	w.git("reset", "-q", "--hard", in)
	w.git("rm", "-q", ".writ/trust.yaml")
	w.as("alice", w.key["alice"], "commit", "-q", "-m", "remove")
	expect(t, w.check(in, w.by("dave", "d.yaml", "d: 4\n")), "Signature d.yaml not in the policy")
}

// A branch that was forked before the base is judged by the policy of the base:
// a key that was taken out since signs nothing any more.
func TestOldPolicy(t *testing.T) {
	w := newWorld(t)
	fork := w.by("alice", ".writ/trust.yaml", w.policy)
	without := strings.Replace(w.policy, "bob]", "carol]", 1)
	without = without[:strings.Index(without, "- {name: bob")] + without[strings.Index(without, "- {name: carol"):]
	base := w.by("alice", ".writ/trust.yaml", without)
	w.git("checkout", "-q", "-b", "side", fork)
	w.by("bob", "b.yaml", "b: 1\n")
	w.git("checkout", "-q", "main")
	head := w.as("alice", w.key["alice"], "merge", "-q", "--no-ff", "-m", "merge", "side")
	expect(t, w.check(base, head), "Signature b.yaml not in the policy")
}

func TestMerges(t *testing.T) {
	w := newWorld(t)
	w.by("alice", ".writ/trust.yaml", w.policy)
	w.by("alice", "infra/a.yaml", "a: 1\n")
	old := w.by("alice", "infra/b.yaml", "b: 1\n")
	base := w.by("alice", "infra/a.yaml", "a: 2\n")

	// Bob merges what alice did: he decides nothing himself.
	w.git("checkout", "-q", "-b", "side")
	side := w.by("alice", "infra/b.yaml", "b: 2\n")
	w.git("checkout", "-q", "main")
	main := w.by("bob", "b.yaml", "b: 1\n")
	expect(t, w.check(base, w.as("bob", w.key["bob"], "merge", "-q", "--no-ff", "-m", "merge", "side")))

	// Commits of the side branch are judged too.
	w.git("checkout", "-q", "side")
	w.commit("alice", "", "infra/b.yaml", "b: 3\n")
	w.git("checkout", "-q", "-B", "main", main)
	expect(t, w.check(base, w.as("bob", w.key["bob"], "merge", "-q", "--no-ff", "-m", "merge", "side")), "Signature infra/b.yaml no signature")

	// An evil merge changes what neither side has.
	w.git("checkout", "-q", "-B", "main", main)
	w.git("merge", "-q", "--no-ff", "--no-commit", side)
	w.write("infra/b.yaml", "b: 666\n")
	w.git("add", "-A")
	expect(t, w.check(base, w.as("bob", w.key["bob"], "commit", "-q", "-m", "merge")), "Signer infra/b.yaml bob may not")

	// A merge that drops what one side did.
	w.git("checkout", "-q", "-B", "main", main)
	w.by("alice", "infra/b.yaml", "b: 7\n")
	expect(t, w.check(base, w.as("bob", w.key["bob"], "merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", side)), "Signer infra/b.yaml bob may not")

	// A merge that brings back what was there before the base, from either side.
	for _, order := range [][]string{{"main", "fork"}, {"fork", "main"}} {
		w.git("checkout", "-q", "-B", "main", base)
		w.git("checkout", "-q", "-B", "fork", old)
		w.by("bob", "mine.yaml", "b: 1\n")
		w.git("checkout", "-q", order[0])
		w.git("merge", "-q", "--no-ff", "--no-commit", "-s", "ours", order[1])
		w.write("infra/a.yaml", "a: 1\n")
		w.git("add", "-A")
		expect(t, w.check(base, w.as("bob", w.key["bob"], "commit", "-q", "-m", "back")), "Signer infra/a.yaml bob may not")
	}
}

// Two signers: one writes, the other merges.
func TestMinimum(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy)
	w.git("checkout", "-q", "-b", "side")
	alone := w.by("bob", "vault/a.yaml", "a: 1\n")
	expect(t, w.check(base, alone), "Signer vault/a.yaml asks for 2 signers of admins, bob, and has bob")
	for who, want := range map[string][]string{"alice": nil, "bob": {"Signer vault/a.yaml has bob"}} {
		w.git("checkout", "-q", "-B", "main", base)
		expect(t, w.check(base, w.as(who, w.key[who], "merge", "-q", "--no-ff", "-m", "merge", "side")), want...)
	}
}

func TestDowngrade(t *testing.T) {
	w := newWorld(t)
	older := w.by("alice", ".writ/trust.yaml", w.policy)
	base := w.by("bob", "b.yaml", "b: 1\n")
	expect(t, w.check(base, base))
	expect(t, w.check(base, older), "Downgrade "+older[:12]+", which is older than the applied commit "+base[:12])
	expect(t, w.check(base, older, func(in *Input) { in.Pinned = true }))
	expect(t, w.check(base, older, func(in *Input) { in.AllowRewrite = true }), "Downgrade older")

	w.git("reset", "-q", "--hard", older)
	beside := w.by("bob", "c.yaml", "c: 1\n")
	expect(t, w.check(base, beside), "Downgrade does not descend from the applied commit")
	expect(t, w.check(base, beside, func(in *Input) { in.AllowRewrite = true }))

	// Who rewrites answers for all that is dropped.
	w.git("reset", "-q", "--hard", base)
	infra := w.by("alice", "infra/a.yaml", "a: 1\n")
	allow := func(in *Input) { in.AllowRewrite = true }
	expect(t, w.check(infra, beside, allow), "Signer infra/a.yaml bob may not")
	w.git("reset", "-q", "--hard", beside)
	expect(t, w.check(infra, w.by("alice", "d.yaml", "d: 1\n"), allow))

	// The applied commit is gone from the repository altogether, and its policy
	// with it: that of the Secret does not take its place.
	gone := strings.Repeat("0", 40)
	expect(t, w.check(gone, beside, allow), "Downgrade "+gone[:12]+" is no longer in the repository")
	trusted := func(in *Input) { in.Trusted = w.first }
	expect(t, w.check(gone, beside, trusted), "Downgrade does not descend")
	expect(t, w.check(gone, beside, trusted, allow), "Signer .writ/trust.yaml bob may not") // he answers for every file
	expect(t, w.check(gone, beside, func(in *Input) { in.Pinned = true }), "Signer .writ/trust.yaml bob may not")
}

// A policy that was wrong before anything was required: its repair enters, by
// the policy of the Secret, and nothing before it.
func TestWrongBase(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", "keys: 3\n")
	expect(t, w.check(base, w.by("bob", "b.yaml", "b: 1\n")), "WrongType .writ/trust.yaml must be a list")
	expect(t, w.check(base, w.by("bob", ".writ/trust.yaml", w.policy)), "Signer .writ/trust.yaml bob may not")
	w.git("reset", "-q", "--hard", base)
	expect(t, w.check(base, w.by("alice", ".writ/trust.yaml", w.policy)))
}

// What the history cannot tell now is an error, and no verdict.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy)
	head := w.by("bob", "b.yaml", "b: 1\n")
	h := &failing{History: w, on: head}
	if res, err := Check(context.Background(), Input{Mode: Require, Base: base, Head: head, Bootstrap: w.first, History: h, Now: start}); err == nil || res != nil {
		t.Errorf("Check = %+v, %v", res, err)
	}
}

type failing struct {
	History
	on string
}

func (f *failing) Commit(sha string) ([]byte, error) {
	if sha == f.on {
		return nil, fmt.Errorf("disk: %w", fs.ErrPermission)
	}
	return f.History.Commit(sha)
}

// counting counts the commits that are read.
type counting struct {
	History
	n     int
	below map[string]bool // is missing, as in a shallow clone
}

func (c *counting) Commit(sha string) ([]byte, error) {
	c.n++
	if c.below[sha] {
		return nil, fs.ErrNotExist
	}
	return c.History.Commit(sha)
}

// The usual push reads the new commits and the base, nothing below it: the
// clone may be shallow.
func TestWalkReadsLittle(t *testing.T) {
	w := newWorld(t)
	shallow := w.by("alice", ".writ/trust.yaml", w.policy)
	base := w.by("bob", "b.yaml", "b: 1\n")
	w.by("bob", "b.yaml", "b: 2\n")
	head := w.by("bob", "b.yaml", "b: 3\n")
	h := &counting{History: w, below: map[string]bool{shallow: true}}
	res, err := Check(context.Background(), Input{Mode: Require, Base: base, Head: head, Bootstrap: w.first, History: h, Now: start.Add(later)})
	if err != nil || res.Refused() || len(res.Commits) != 2 {
		t.Fatalf("Check = %+v, %v", res, err)
	}
	if h.n > 3 {
		t.Errorf("%d commits were read", h.n)
	}
}

// A range is the one of git rev-list, whatever the clocks say.
func TestWalkAgrees(t *testing.T) {
	w := newWorld(t)
	var all []string
	rnd := uint32(7)
	next := func(n int) int { rnd = rnd*1664525 + 1013904223; return int(rnd>>16) % n }
	for i := range 40 {
		if len(all) > 2 && next(3) == 0 {
			w.git("checkout", "-q", all[next(len(all))])
		}
		w.time = start.Add(time.Duration(next(100)-50) * time.Hour)
		if len(all) > 3 && next(4) == 0 {
			w.as("bob", "", "merge", "-q", "--no-ff", "-s", "ours", "--allow-unrelated-histories", "-m", "merge", all[next(len(all))])
			all = append(all, w.git("rev-parse", "HEAD"))
			continue
		}
		all = append(all, w.commit("bob", "", fmt.Sprintf("f%d", next(5)), fmt.Sprint(i)))
	}
	for range 120 {
		base, head := all[next(len(all))], all[next(len(all))]
		r := &reader{h: w, seen: map[string]*object{}}
		s, err := r.walk(context.Background(), base, head)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, o := range s.commits {
			have = append(have, o.sha)
		}
		want := strings.Fields(w.git("rev-list", base+".."+head))
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s..%s: have %v want %v", short(base), short(head), have, want)
		}
		_, notAncestor := w.try("merge-base", "--is-ancestor", base, head)
		if (s.relation == forward || s.relation == same) != (notAncestor == nil) {
			t.Errorf("%s..%s: relation %d", short(base), short(head), s.relation)
		}
	}
}
