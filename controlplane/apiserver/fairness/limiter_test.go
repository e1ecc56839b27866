package fairness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func as(name string, groups ...string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}, Verb: "list", APIVersion: "v1",
		Resource: "configmaps", Namespace: "default", ResourceRequest: true, Path: "/api/v1/namespaces/default/configmaps",
	}
}

func lease(node string) authorizer.AttributesRecord {
	a := as(node, "system:nodes")
	a.Verb, a.APIGroup, a.Resource, a.Namespace = "update", "coordination.k8s.io", "leases", "kube-node-lease"
	return a
}

func TestClassify(t *testing.T) {
	l := New(Config{})
	for _, c := range []struct {
		a    authorizer.AttributesRecord
		want string
	}{
		{as("alice"), "global-default/global-default"},
		{as("boss", user.SystemPrivilegedGroup), "exempt/exempt"},
		{lease("system:node:one"), "system-node-high/node-high"},
		{as("system:node:one", "system:nodes"), "system-nodes/system"},
		{as("system:kube-controller-manager"), "kube-controller-manager/workload-high"},
		{as("system:kube-scheduler"), "kube-scheduler/workload-high"},
		{as("system:serviceaccount:kube-system:gc", "system:serviceaccounts", "system:serviceaccounts:kube-system"), "kube-system-service-accounts/workload-high"},
		{as("system:serviceaccount:shop:web", "system:serviceaccounts"), "service-accounts/workload-low"},
		{authorizer.AttributesRecord{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Verb: "get", Path: "/healthz"}, "probes/exempt"},
		{authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "nobody"}, Verb: "get", Path: "/x"}, "catch-all/catch-all"},
	} {
		s, err := l.Acquire(t.Context(), c.a)
		if got := s.FlowSchema + "/" + s.PriorityLevel; got != c.want || err != nil {
			t.Errorf("%s %s%s: %s, %v, want %s", c.a.User.GetName(), c.a.Resource, c.a.Path, got, err, c.want)
		}
		s.Release()
	}
}

// A flood of one client fills its level and all that it may borrow; leases,
// nodes, the cluster's controllers and the other users go on.
func TestFloodStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Seats: 60})
		ctx, stop := context.WithCancel(t.Context())
		var running, refused atomic.Int32
		var flood sync.WaitGroup
		for range 2000 {
			flood.Go(func() {
				s, err := l.Acquire(ctx, as("flood"))
				if err != nil {
					refused.Add(1)
					return
				}
				running.Add(1)
				<-ctx.Done() // never ends by itself
				s.Release()
			})
		}
		synctest.Wait()
		if running.Load() == 0 || refused.Load() == 0 {
			t.Fatalf("%d run, %d refused: no flood", running.Load(), refused.Load())
		}
		for _, a := range []authorizer.AttributesRecord{lease("system:node:one"), as("system:node:one", "system:nodes"), as("system:kube-controller-manager"),
			as("system:serviceaccount:shop:web", "system:serviceaccounts"), as("boss", user.SystemPrivilegedGroup)} {
			began := time.Now()
			s, err := l.Acquire(ctx, a)
			if err != nil || time.Since(began) > 0 {
				t.Errorf("%s waited %v: %v", a.User.GetName(), time.Since(began), err)
			}
			s.Release()
		}
		stop()
		flood.Wait()
	})
}

// Two users of one level take turns, whoever came first and however often.
func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Seats: 2})
		level := l.levels["global-default"]
		level.share = share{nominal: 1, kept: 1, most: 1}
		first, err := l.Acquire(t.Context(), as("flood"))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var served []string
		var all sync.WaitGroup
		ask := func(who string) {
			all.Go(func() {
				s, err := l.Acquire(t.Context(), as(who))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served = append(served, who)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				s.Release()
			})
		}
		for range 50 {
			ask("flood")
		}
		synctest.Wait()
		ask("alice")
		synctest.Wait()
		first.Release()
		all.Wait()
		if at := strings.Index(strings.Join(served, " "), "alice"); at > len("flood ")*2 {
			t.Errorf("alice was served after %d of the flood", at/len("flood "))
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Seats: 1, Wait: 15 * time.Second})
		l.levels["global-default"].share = share{nominal: 1, kept: 1, most: 1}
		held, err := l.Acquire(t.Context(), as("a"))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = l.Acquire(t.Context(), as("b"))
		if !apierrors.IsTooManyRequests(err) || time.Since(began) != 15*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = l.Acquire(ctx, as("b")); !apierrors.IsTooManyRequests(err) || ctx.Err() == nil {
			t.Errorf("cancelled: %v", err)
		}
		if n := l.levels["global-default"].queue; n.size != 0 || len(n.turn) != 0 || len(n.lines) != 0 {
			t.Errorf("the queue keeps %+v", n)
		}
		held.Release()
	})
}

// Whatever happens, no more seats are used than there are but for those that
// are guaranteed, every guarantee holds, and nothing is left at the end.
func TestSeatsAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Seats: 20})
		custom := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "custom"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}}}
		one := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: 5,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "custom"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{Subjects: []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "user-1"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true}}}}}}
		var all sync.WaitGroup
		for i := range 3000 {
			who := as(fmt.Sprintf("user-%d", rnd.IntN(4)))
			hold := time.Duration(rnd.IntN(50)) * time.Millisecond
			all.Go(func() {
				s, err := l.Acquire(t.Context(), who)
				if err == nil {
					time.Sleep(hold)
				}
				s.Release()
			})
			switch {
			case i%97 == 0:
				l.Set([]*flowcontrolv1.FlowSchema{one}, []*flowcontrolv1.PriorityLevelConfiguration{custom})
			case i%53 == 0:
				l.Set(nil, nil)
			case i%10 == 0:
				time.Sleep(5 * time.Millisecond)
			}
			l.check(t)
		}
		all.Wait()
		l.check(t)
		for name, lv := range l.levels {
			if lv.running != 0 || lv.queue.size != 0 {
				t.Errorf("%s: %d run, %d wait at the end", name, lv.running, lv.queue.size)
			}
		}
	})
}

func (l *Limiter) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, kept := 0, 0
	for name, lv := range l.levels {
		sum += max(lv.running, lv.kept)
		kept += lv.kept
		if lv.queue.size > 0 && lv.mayRun(lv.running, l.reserved, l.seats) {
			t.Fatalf("%s: somebody waits for a seat that is free", name)
		}
	}
	for _, lv := range l.deleted {
		sum += lv.running
	}
	if sum != l.reserved {
		t.Fatalf("reserved is %d, the levels hold %d", l.reserved, sum)
	}
}

func TestDangling(t *testing.T) {
	s := &flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "x"}}}
	at := time.Unix(1e9, 0)
	bad := newer(s, dangling(s, nil), at)
	if bad.Status != flowcontrolv1.ConditionTrue || bad.Reason != "NotFound" {
		t.Errorf("without level: %+v", bad)
	}
	s.Status.Conditions = append(s.Status.Conditions, *bad)
	if again := newer(s, dangling(s, nil), at.Add(time.Hour)); again != nil {
		t.Errorf("nothing new is written: %+v", again)
	}
	good := newer(s, dangling(s, map[string]bool{"x": true}), at.Add(time.Hour))
	if good.Status != flowcontrolv1.ConditionFalse || !good.LastTransitionTime.Time.Equal(at.Add(time.Hour)) {
		t.Errorf("with level: %+v", good)
	}
	data, err := applied(s, good)
	if err != nil || !strings.Contains(string(data), `"conditions":[{"type":"Dangling","status":"False"`) {
		t.Errorf("declared: %s, %v", data, err)
	}
}

func BenchmarkAcquire(b *testing.B) {
	l := New(Config{})
	a := as("alice")
	b.ReportAllocs()
	for b.Loop() {
		s, _ := l.Acquire(b.Context(), &a)
		s.Release()
	}
}
