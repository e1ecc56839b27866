package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// electionTicks are how many ticks without a word from the leader begin an
// election, in a cluster. Alone it takes two.
const electionTicks = 10

// What a member is that is alone. It needs a URL to be one; nobody listens there.
const (
	aloneName = "writ"
	aloneURL  = "http://127.0.0.1:2380"
)

// newToken makes the ID of a cluster, of which there is to be no other.
func newToken() string { return rand.Text() }

// serverConfig is etcd's own default where nothing is said here.
func serverConfig(cfg Config) (config.ServerConfig, error) {
	def := embed.NewConfig()
	urls, err := types.NewURLs([]string{aloneURL})
	if err != nil {
		return config.ServerConfig{}, err
	}
	return config.ServerConfig{
		Name: aloneName, DataDir: cfg.Dir, PeerURLs: urls, ClientURLs: urls,
		InitialPeerURLsMap: types.URLsMap{aloneName: urls}, InitialClusterToken: newToken(), NewCluster: true,

		TickMs: uint(max(cfg.Tick/time.Millisecond, 1)), ElectionTicks: 2,
		InitialElectionTickAdvance: true, PreVote: true, StrictReconfigCheck: true,

		// Entries since the last snapshot stay in memory and are replayed at
		// start: few of them.
		SnapshotCount: 1000, SnapshotCatchUpEntries: 500,
		MaxSnapFiles: def.MaxSnapFiles, MaxWALFiles: def.MaxWalFiles,

		// The store's own limits come first and give better errors.
		MaxRequestBytes: uint(cfg.MaxTxnBytes + cfg.MaxTxnBytes/4 + 1<<20), MaxTxnOps: uint(cfg.MaxTxnWrites),
		QuotaBackendBytes: -1,

		BackendBatchLimit: def.BackendBatchLimit, BackendBatchInterval: def.BackendBatchInterval,
		BackendFreelistType:               "map",
		BootstrapDefragThresholdMegabytes: 100,
		CompactionBatchLimit:              10000, CompactionSleepInterval: def.CompactionSleepInterval,

		AuthToken: "simple", BcryptCost: 4, TokenTTL: 300,
		WatchProgressNotifyInterval: 10 * time.Minute, DowngradeCheckTime: def.DowngradeCheckTime,
		WarningApplyDuration: time.Second, WarningUnaryRequestDuration: 2 * time.Second,
		MaxLearners:       def.MaxLearners,
		ServerFeatureGate: def.ServerFeatureGate, V2Deprecation: def.V2DeprecationEffective(),
		Metrics: "basic",
	}, nil
}

// memberConfig makes the configuration that of a member among others. It asks
// them, when this one has no data and is to join.
func memberConfig(ctx context.Context, sc *config.ServerConfig, m *Members, rt http.RoundTripper) error {
	self, err := types.NewURLs([]string{m.URL})
	if err != nil {
		return err
	}
	sc.Name, sc.PeerURLs, sc.ClientURLs, sc.PeerTLSInfo = m.Name, self, self, m.info()
	sc.ElectionTicks = electionTicks
	sc.CompactHashCheckTime, sc.CorruptCheckTime = compactHashEvery, hashEvery
	if err := corruptionChecks(sc.ServerFeatureGate); err != nil {
		return err
	}
	if m.keepLog != 0 {
		sc.SnapshotCatchUpEntries = m.keepLog
	}
	sc.InitialPeerURLsMap = types.URLsMap{m.Name: self}
	if wal.Exist(sc.WALDir()) {
		return nil // all that follows is decided
	}
	if len(m.Initial) > 0 {
		sc.InitialClusterToken = "writ" // the same for all
		for name, u := range m.Initial {
			if sc.InitialPeerURLsMap[name], err = types.NewURLs([]string{u}); err != nil {
				return err
			}
		}
	}
	if len(m.Join) > 0 {
		sc.NewCluster = false
		if sc.InitialPeerURLsMap, err = findCluster(ctx, sc, m, rt); err != nil {
			return fmt.Errorf("join the cluster of %v: %w", m.Join, err)
		}
	}
	return nil
}

// joinPatience is how long one that joins asks for the members: the one that
// answers may not have heard yet that it was added.
const joinPatience = 30 * time.Second

// findCluster asks the members who the members are.
func findCluster(ctx context.Context, sc *config.ServerConfig, m *Members, rt http.RoundTripper) (types.URLsMap, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	for {
		var last error
		for _, u := range m.Join {
			cluster, err := etcdserver.GetClusterFromRemotePeers(sc.Logger, []string{u}, rt)
			if err != nil {
				last = fmt.Errorf("ask %s: %w", u, err)
				continue
			}
			urls, added, err := initialMembers(cluster.Members(), m)
			if err != nil || added {
				return urls, err
			}
			last = fmt.Errorf("%s says that %s is not a member: add it there first", u, m.URL)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, last
		}
	}
}

// initialMembers is what etcd wants to know of the members by one that joins.
// It refuses one that has been a member already: with its data went the votes
// that it gave, and it must not vote again under the same ID.
func initialMembers(members []*membership.Member, m *Members) (urls types.URLsMap, added bool, err error) {
	urls = types.URLsMap{}
	for _, other := range members {
		name := other.ID.String() // etcd only wants them to differ
		if len(other.PeerURLs) == 1 && other.PeerURLs[0] == m.URL {
			if other.IsStarted() {
				return nil, false, fmt.Errorf("%s was a member before, as %s, and its data is gone: remove it and add it again", m.URL, other.ID)
			}
			name, added = m.Name, true
		}
		if urls[name], err = types.NewURLs(other.PeerURLs); err != nil {
			return nil, false, err
		}
	}
	return urls, added, nil
}
