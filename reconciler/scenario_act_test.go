package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// command is one word of a script.
type command func(s *scenario, args []string) error

// acts are the commands that change something.
var acts = map[string]command{
	// copy TREE FROM [path...]: the tree gets the files of another that it does
	// not have itself, but for those named.
	"copy": func(s *scenario, args []string) error {
		tree := maps.Clone(s.trees[args[1]])
		for _, path := range args[2:] {
			delete(tree, path)
		}
		maps.Copy(tree, s.trees[args[0]])
		s.trees[args[0]] = tree
		return nil
	},
	// add KIND KEY path.of.list JSON: someone appends an item to a list
	"add": func(s *scenario, args []string) error {
		patch := fmt.Sprintf(`[{"op":"add","path":"/%s/-","value":%s}]`, strings.ReplaceAll(args[2], ".", "/"), strings.Join(args[3:], " "))
		_, err := s.fake.Patch(s.t.Context(), s.kind(args[0]), schema.ParseKey(args[1]), types.JSONPatchType, []byte(patch), client.WriteOptions{FieldManager: "someone"})
		return err
	},
	// by MANAGER patch KIND KEY JSON
	"by": func(s *scenario, args []string) error {
		_, err := s.fake.Patch(s.t.Context(), s.kind(args[2]), schema.ParseKey(args[3]), types.MergePatchType, []byte(strings.Join(args[4:], " ")), client.WriteOptions{FieldManager: args[0]})
		return err
	},
	// many TREE N: N ConfigMaps, one a file.
	"many": func(s *scenario, args []string) error {
		n, err := strconv.Atoi(args[1])
		tree := memTree{}
		for i := range n {
			tree[fmt.Sprintf("c%03d.yaml", i)] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n", i)
		}
		maps.Copy(tree, s.trees[args[0]])
		s.trees[args[0]] = tree
		return err
	},
	// fixture TREE PATH FILE: a file of secret/testdata/fixtures.
	"fixture": func(s *scenario, args []string) error {
		data, err := os.ReadFile(filepath.Join("secret/testdata/fixtures", args[2]))
		if s.trees[args[0]] == nil {
			s.trees[args[0]] = memTree{}
		}
		s.trees[args[0]][args[1]] = string(data)
		return err
	},
	// keys SECRET FILE...: a Secret with keys of secret/testdata/keys.
	"keys": func(s *scenario, args []string) error {
		key, data := schema.ParseKey(args[0]), map[string][]byte{}
		for _, name := range args[1:] {
			text, err := os.ReadFile(filepath.Join("secret/testdata/keys", name))
			if err != nil {
				return err
			}
			data[name] = text
		}
		s.fake.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: data})
		return nil
	},
	// pushes TREE...: one after the other, and nobody looks in between.
	"pushes": func(s *scenario, args []string) error {
		for _, name := range args {
			s.shas[name] = s.source().push(s.trees[name], name)
		}
		return nil
	},
	// force TREE: the branch is another history, which does not know the head.
	"force": func(s *scenario, args []string) error {
		src := s.source()
		src.mu.Lock()
		src.head = Commit{}
		src.mu.Unlock()
		s.shas[args[0]] = src.push(s.trees[args[0]], "rewritten")
		return nil
	},
	// poll: the source says that there may be something new.
	"poll": func(s *scenario, _ []string) error { s.source().notify(); return nil },
	// source-back: the remote answers again.
	"source-back": func(s *scenario, _ []string) error { s.source().fail(nil); return nil },
	// lost TREE: the clone has lost a commit.
	"lost": func(s *scenario, args []string) error {
		src := s.source()
		src.mu.Lock()
		defer src.mu.Unlock()
		delete(src.trees, s.shas[args[0]])
		delete(src.commits, s.shas[args[0]])
		return nil
	},
	// stop and begin: the process is not there in between.
	"stop":  func(s *scenario, _ []string) error { s.repositories[s.name].stop(); return nil },
	"begin": func(s *scenario, _ []string) error { s.start(); return nil },
	// apply FILE [manager]: somebody applies an object on the server.
	"apply": func(s *scenario, args []string) error {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(s.files[args[0]]), &head); err != nil {
			return err
		}
		manager := append(args, "someone")[1]
		r := s.catalog.Load().ByGVK(head.GroupVersionKind())
		_, err := s.fake.Patch(s.t.Context(), r, schema.Key{Namespace: head.Namespace, Name: head.Name}, types.ApplyPatchType,
			[]byte(s.files[args[0]]), client.WriteOptions{FieldManager: manager, Force: true})
		return err
	},
	// serve FILE: the server has read a definition, and serves its kind.
	"serve": func(s *scenario, args []string) error {
		def := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(s.files[args[0]]), def); err != nil {
			return err
		}
		custom.Defaults(def)
		rows, err := custom.Resources(def, nil, nil)
		if err != nil {
			return err
		}
		s.catalog.Publish(schema.NewCatalog(rows.Served...))
		return nil
	},
	// conflict N [M], busy N [M]: N transactions are answered so, after M that
	// are not.
	"conflict": func(s *scenario, args []string) error {
		return s.answer(args, &client.TransactionError{Errs: map[int]error{0: apierrors.NewConflict(kind("Inventory").GroupResource(), "x", errors.New("modified"))}})
	},
	"busy": func(s *scenario, args []string) error {
		return s.answer(args, apierrors.NewTooManyRequests("etcd has no leader", 1))
	},
	// finalizer KIND KEY [name]: sets it, or takes all away.
	"finalizer": func(s *scenario, args []string) error {
		list, _ := json.Marshal(args[2:])
		_, err := s.fake.Patch(s.t.Context(), kind(args[0]), schema.ParseKey(args[1]), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+string(list)+`}}`), client.WriteOptions{FieldManager: "someone"})
		return err
	},
	// unready [names]: Deployments lose all their pods.
	"unready": func(s *scenario, args []string) error {
		return s.deployments(args, func(int32) int32 { return 0 })
	},
	// status KIND KEY json: its controller says something of it.
	"status": func(s *scenario, args []string) error {
		_, err := s.fake.Patch(s.t.Context(), kind(args[0]), schema.ParseKey(args[1]), types.MergePatchType,
			[]byte(`{"status":`+strings.Join(args[2:], " ")+`}`), client.WriteOptions{FieldManager: "controller", Subresource: "status"})
		return err
	},
	// fleet: what follows the repositories that Git declares runs too.
	"fleet": func(s *scenario, _ []string) error {
		f := NewFleet(FleetConfig{Client: s.mortal, Except: "cluster", Open: func(repo *v1alpha1.Repository) (Follower, error) {
			if strings.Contains(repo.Spec.URL, "nowhere") {
				return nil, errors.New("no such place: " + repo.Spec.URL)
			}
			src := newMemSource()
			if f := s.repositories[repo.Name]; f != nil {
				src = f.source
			}
			s.repositories[repo.Name] = &follower{source: src, stop: func() {}}
			return fleetFollower{New(Config{Client: s.mortal, Source: src, Repository: repo.Name, Spec: repo.Spec, Declared: true, Catalog: &s.catalog}), src}, nil
		}})
		ctx, cancel := context.WithCancel(s.t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		s.stops = append(s.stops, func() { cancel(); <-done })
		return nil
	},
	// speak REPOSITORY: as "as", of a repository that the fleet may follow.
	"speak": func(s *scenario, args []string) error {
		s.name = args[0]
		return nil
	},
}

// fleetFollower is a reconciler that a webhook can wake.
type fleetFollower struct {
	*Reconciler
	src *memSource
}

func (f fleetFollower) Notify() { f.src.notify() }

// answer gives the next transactions an answer of its own.
func (s *scenario) answer(args []string, err error) error {
	count, bad := strconv.Atoi(args[0])
	free := 0
	if len(args) > 1 {
		free, bad = strconv.Atoi(args[1])
	}
	s.mortal.mu.Lock()
	defer s.mortal.mu.Unlock()
	s.mortal.answers = append(make([]error, free), slices.Repeat([]error{err}, count)...)
	return bad
}
