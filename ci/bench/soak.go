package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// What a soak does: commits that roll some of the pods of a cluster, one after
// the other, as weeks of work do.
const (
	soakNodes       = 200
	soakDeployments = 60
	soakReplicas    = 10
	soakRolled      = 6 // Deployments that a commit changes
	soakCommits     = 259
	soakWarm        = 10 // commits before the first figure: what is made once is there
	soakMost        = 1.5
	soakPace        = 3500 * time.Millisecond // between two commits: all take a quarter of an hour
	// What a watch may resume from is kept for 75 seconds, and encodings for a minute
	// or two after somebody has asked for them.
	soakSettle = 200 * time.Second
)

// soak says what grows while commits come: memory of a server and of simulated
// nodes, at rest, after the first commits and after the last one, and the file of
// the store. It fails when memory grew by more than half. Profiles of both heaps,
// before and after, stay beside the binary: `go tool pprof -diff_base`.
func soak(ctx context.Context, e *env) ([]row, error) {
	s, err := startSoak(ctx, e)
	if err != nil {
		return nil, err
	}
	commits := soakCommits
	if n, err := strconv.Atoi(os.Getenv("COMMITS")); err == nil && n > soakWarm {
		commits = n
	}
	began := time.Now()
	var first, last soakFigures
	for round := range commits {
		next := time.Now().Add(soakPace)
		if err := s.roll(ctx, round+1); err != nil {
			return nil, err
		}
		if round+1 == soakWarm {
			if first, err = s.figures(ctx, "first"); err != nil {
				return nil, err
			}
			began = time.Now()
		}
		if (round+1)%25 == 0 {
			s.say(round+1, time.Since(began))
		}
		time.Sleep(time.Until(next))
	}
	took := time.Since(began)
	if last, err = s.figures(ctx, "last"); err != nil {
		return nil, err
	}
	e.stop(s.server)
	size, used, err := storeFile(e.data())
	if err != nil {
		return nil, err
	}
	rows := []row{
		soakRow("server", commits, first.server, last.server, fmt.Sprintf("; %d Events, %d objects in all; %s", last.events, last.objects, took.Round(time.Second))),
		soakRow(fmt.Sprintf("process of %d simulated nodes", soakNodes), commits, first.agent, last.agent, ""),
		{"P17", "file of the store after it", "", "", fmt.Sprintf("%s, %s of it in use (%s after %d commits)", mib(size), mib(used), mib(first.file), soakWarm)},
	}
	for _, u := range [][2]usage{{first.server, last.server}, {first.agent, last.agent}} {
		if float64(u[1].anon) > soakMost*float64(u[0].anon) {
			return rows, fmt.Errorf("memory grew from %s to %s, by more than half: compare the profiles in %s", mib(u[0].anon), mib(u[1].anon), s.profiles)
		}
	}
	return rows, nil
}

func soakRow(who string, commits int, first, last usage, more string) row {
	return row{"P17", fmt.Sprintf("memory of the %s after %d commits, anonymous", who, commits), "", "1.5 times the first",
		fmt.Sprintf("%s, %.2f times the first of %s (RSS %s / %s)%s", mib(last.anon), float64(last.anon)/float64(first.anon), mib(first.anon), mib(last.rss), mib(first.rss), more)}
}

// soakFigures are those of one moment at rest.
type soakFigures struct {
	server, agent   usage
	events, objects int
	file            int64 // bytes of the store's file
}

func (s *soaked) figures(ctx context.Context, name string) (f soakFigures, err error) {
	time.Sleep(soakSettle)
	if f.server, err = atRest(ctx, s.server); err != nil {
		return f, err
	}
	if f.agent, err = measurePid(s.agent.Process.Pid); err != nil {
		return f, err
	}
	if f.events, f.objects, err = counted(ctx, s.client); err != nil {
		return f, err
	}
	info, err := os.Stat(storePath(s.e.data()))
	if err != nil {
		return f, err
	}
	f.file = info.Size()
	return f, s.profile(ctx, name)
}

// counted is how many Events there are, and objects of the kinds that a soak makes.
func counted(ctx context.Context, c *kubernetes.Clientset) (events, all int, err error) {
	for _, path := range []string{"/api/v1/events", "/api/v1/pods", "/apis/apps/v1/replicasets", "/apis/apps/v1/deployments", "/api/v1/nodes", "/apis/writ.dev/v1alpha1/commits"} {
		var list metav1.PartialObjectMetadataList
		err := c.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Into(&list)
		if err != nil {
			return 0, 0, fmt.Errorf("count %s: %w", path, err)
		}
		if all += len(list.Items); path == "/api/v1/events" {
			events = len(list.Items)
		}
	}
	return events, all, nil
}

func storePath(data string) string { return filepath.Join(data, "store", "member", "snap", "db") }

// storeFile looks into the file of a store that has ended: its bytes, and those
// of pages that are not free.
func storeFile(data string) (size, used int64, err error) {
	db, err := bolt.Open(storePath(data), 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: time.Second})
	if err != nil {
		return 0, 0, fmt.Errorf("open the store's file: %w", err)
	}
	defer db.Close() //nolint:errcheck // it was only read
	err = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	s := db.Stats()
	return size, size - int64(s.FreePageN+s.PendingPageN)*int64(db.Info().PageSize), err
}

// roll pushes a commit that changes the pods of some Deployments, and waits until
// the cluster is healthy with it.
func (s *soaked) roll(ctx context.Context, round int) error {
	text := func(i, round int) string { return soakedDeployment(i, round) }
	if err := s.w.fill((round*soakRolled)%soakDeployments, soakRolled, round, text); err != nil {
		return err
	}
	p, err := s.w.push(ctx, fmt.Sprintf("Round %d", round))
	if err != nil {
		return err
	}
	_, err = s.w.await(ctx, p.sha, func(c *v1alpha1.Commit) bool { return c.Status.Phase == v1alpha1.CommitHealthy })
	if err != nil {
		return fmt.Errorf("await round %d: %w", round, err)
	}
	return nil
}
