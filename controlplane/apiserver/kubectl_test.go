package apiserver_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubectl runs kubectl as a user; it skips the test where there is none.
type kubectl struct {
	t          *testing.T
	bin        string
	kubeconfig string
	home       string
}

func newKubectl(t *testing.T, c *cluster, user string) *kubectl {
	t.Helper()
	bin, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("no kubectl on the PATH")
	}
	k := &kubectl{t: t, bin: bin, home: t.TempDir()}
	k.kubeconfig = filepath.Join(k.home, "config")
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: c.addr, CertificateAuthorityData: c.ca}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: user}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*cfg, k.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return k
}

// run returns what kubectl prints, on both streams.
func (k *kubectl) run(stdin string, args ...string) (string, error) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), k.bin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "HOME="+k.home)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "writ.local/demo:v1", ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: "writ.local/demo:v1"}]
`

// TestKubectl is what people do all day, with the tool that they do it with.
func TestKubectl(t *testing.T) {
	c := newCluster(t)
	k := newKubectl(t, c, "admin")
	for _, step := range []struct {
		args  string
		stdin string
		want  []string // parts of the output
		fail  bool
	}{
		{args: "version", want: []string{"Server Version: v1.36"}},
		{args: "api-resources", want: []string{"deployments", "po ", "commits", "selfsubjectaccessreviews"}},
		{args: "api-versions", want: []string{"apps/v1", "writ.dev/v1alpha1"}},
		{args: "get pods", want: []string{"No resources found"}},
		{args: "apply -f -", stdin: manifest, want: []string{"deployment.apps/web created", "service/web created", "pod/p created"}},
		{args: "apply -f -", stdin: manifest, want: []string{"deployment.apps/web unchanged"}},
		{args: "apply --server-side -f -", stdin: manifest, want: []string{"deployment.apps/web serverside-applied"}},
		{args: "diff -f -", stdin: strings.Replace(manifest, "replicas: 3", "replicas: 4", 1), want: []string{"+  replicas: 4"}, fail: true},
		{args: "create -f -", stdin: manifest, want: []string{"AlreadyExists"}, fail: true},
		{args: "create --dry-run=server -f -", stdin: strings.ReplaceAll(manifest, "name: web", "name: other"), want: []string{"other created (server dry run)", `pods "p" already exists`}, fail: true},
		{args: "apply -f -", stdin: strings.Replace(manifest, "replicas: 3", "replicaz: 3", 1), want: []string{`unknown field "spec.replicaz"`}, fail: true},
		{args: "get all", want: []string{"pod/p", "service/web", "deployment.apps/web", "0/3"}},
		{args: "get pods -o wide", want: []string{"NOMINATED NODE", "p      0/1     Pending", "<none>"}},
		{args: "get pods --show-labels --sort-by=.metadata.name", want: []string{"LABELS"}},
		{args: "get deploy web -o yaml", want: []string{"kind: Deployment", "resourceVersion"}},
		{args: "get deploy -o json", want: []string{`"kind": "List"`, `"kind": "Deployment"`}},
		{args: "get deploy -o jsonpath={.items[0].spec.replicas}", want: []string{"3"}},
		{args: "get pods -l app=none", want: []string{"No resources found"}},
		{args: "get pods --field-selector metadata.name=p -o name", want: []string{"pod/p"}},
		{args: "get nothing", want: []string{`the server doesn't have a resource type "nothing"`}, fail: true},
		{args: "get pod nothing", want: []string{`Error from server (NotFound): pods "nothing" not found`}, fail: true},
		{args: "describe pod p", want: []string{"Name: ", "Events:"}},
		{args: "describe deploy web", want: []string{"Replicas:"}},
		{args: "explain deployment.spec.strategy", want: []string{"GROUP:      apps", "rollingUpdate"}},
		{args: "explain pod.spec.containers --recursive", want: []string{"livenessProbe", "imagePullPolicy"}},
		{args: "explain commits.status", want: []string{"GROUP:      writ.dev", "phase"}},
		{args: "scale deploy/web --replicas=5", want: []string{"deployment.apps/web scaled"}},
		{args: "label pod p tier=front", want: []string{"pod/p labeled"}},
		{args: "annotate pod p note=x", want: []string{"pod/p annotated"}},
		{args: "set image deploy/web c=writ.local/demo:v2", want: []string{"deployment.apps/web image updated"}},
		{args: "patch deploy web -p {\"spec\":{\"replicas\":2}}", want: []string{"deployment.apps/web patched"}},
		{args: "auth can-i delete pods", want: []string{"yes"}},
		{args: "auth whoami", want: []string{"admin", "system:masters"}},
		{args: "auth can-i delete pods --as alice", want: []string{"no"}, fail: true},
		{args: "get pods --as alice", want: []string{`pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`}, fail: true},
		{args: "get events", want: []string{"No resources found"}},
		{args: "events", want: []string{"No events found"}},
		{args: "logs p", want: []string{""}},
		{args: "wait --for=jsonpath={.spec.replicas}=2 deploy/web --timeout=5s", want: []string{"condition met"}},
		{args: "create configmap cm --from-literal=a=b", want: []string{"configmap/cm created"}},
		{args: "get cm cm", want: []string{"NAME   DATA   AGE", "cm     1"}},
		{args: "get --raw /readyz?verbose", want: []string{"[+]etcd ok", "readyz check passed"}},
		{args: "get --raw /metrics", want: []string{"apiserver_request_total{"}},
		{args: "delete -f - --wait=false", stdin: manifest, want: []string{`deployment.apps "web" deleted`, `pod "p" deleted`}},
		{args: "get pods,deploy", want: []string{"No resources found"}},
	} {
		out, err := k.run(step.stdin, strings.Fields(step.args)...)
		if (err != nil) != step.fail {
			t.Errorf("kubectl %s: %v, want failure %v\n%s", step.args, err, step.fail, out)
			continue
		}
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s: output lacks %q:\n%s", step.args, want, out)
			}
		}
	}
}
