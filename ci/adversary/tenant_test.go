package adversary

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/auth/identity"
)

// declared is what Git says of the namespace of the tenant.
const declared = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: declared, namespace: shop}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: declared, namespace: shop, labels: {app: alone}}
spec: {containers: [{name: c, image: "example.com/i:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "example.com/i:1"}]}
`

const (
	shop  = "/api/v1/namespaces/shop"
	apps  = "/apis/apps/v1/namespaces/shop"
	batch = "/apis/batch/v1/namespaces/shop"
	roles = "/apis/rbac.authorization.k8s.io/v1"
	refs  = "/api/v1/namespaces/kube-system/configmaps/writ-git-cluster"
)

// TestTenant: a user and a service account that may edit one namespace; one that
// may read all and patch roles; one with every right of RBAC, which are not those
// of Git.
func TestTenant(t *testing.T) {
	c := start(t, ofSeveral(t))
	c.clone().declares(map[string]string{"shop.yaml": declared})
	c.populate()
	report(t, "a tenant: rights", c.forRights(c.bearer(tenantToken)))
	report(t, "a tenant: what Git declares", c.againstGit(c.bearer(tenantToken)))
	report(t, "a tenant: its pods", c.forPods(c.bearer(tenantToken)))
	report(t, "a tenant: what servers reach", c.forReach(c.bearer(tenantToken)))
	report(t, "an account that edits", c.forRights(c.bearer(c.token("shop", "deployer"))))
	report(t, "who patches roles", c.forRoles(c.bearer(strangerToken)))
	report(t, "every right of RBAC", c.withAll(c.bearer(c.token("default", "operator"))))
}

// ofSeveral makes a server the first of several, which keep the refs of Git in
// the store.
func ofSeveral(t *testing.T) func(*cluster.Config) {
	return func(cfg *cluster.Config) {
		cfg.PeerAddress = freeport.On(t, cfg.NodeIP.String())
		if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
			panic(err)
		}
		if err := (&member.State{Name: cfg.NodeName}).Write(cfg.DataDir); err != nil {
			panic(err)
		}
	}
}

// populate makes who acts, and what it must not come by.
func (c *target) populate() {
	c.Helper()
	admin := c.asAdmin()
	must := func(path, body string) {
		c.Helper()
		if code, text := admin.ask("POST", path, body); code != http.StatusCreated {
			c.Fatal(text)
		}
	}
	must("/api/v1/namespaces", `{"metadata":{"name":"quiet"}}`)
	must("/api/v1/namespaces", `{"metadata":{"name":"other"}}`)
	for _, ns := range []string{"other", "kube-system"} {
		must("/api/v1/namespaces/"+ns+"/secrets", `{"metadata":{"name":"its"},"stringData":{"key":"`+secretText+`"}}`)
	}
	must(shop+"/serviceaccounts", `{"metadata":{"name":"deployer"}}`)
	must("/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"operator"}}`)
	must(roles+"/clusterroles", `{"metadata":{"name":"patches-roles"},"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles","clusterrolebindings"],"verbs":["get","list","create","patch","update"]}]}`)
	bind := func(name, role string, subject rbacv1.Subject, namespaces ...string) {
		c.Helper()
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		of := metav1.ObjectMeta{Name: name}
		if len(namespaces) == 0 {
			if _, err := c.admin.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: of, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{}); err != nil {
				c.Fatal(err)
			}
		}
		for _, ns := range namespaces {
			if _, err := c.admin.RbacV1().RoleBindings(ns).Create(c.Context(), &rbacv1.RoleBinding{ObjectMeta: of, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{}); err != nil {
				c.Fatal(err)
			}
		}
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	}
	bind("tenant", "edit", user("tenant"), "shop", "quiet")
	bind("deployer", "edit", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: "deployer"}, "shop", "quiet")
	bind("reads", "view", user("stranger"))
	bind("patches", "patches-roles", user("stranger"))
	bind("operator", "cluster-admin", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "operator"})
	c.soon("the roles are in force", func() bool {
		code, _ := c.bearer(tenantToken).ask("GET", "/api/v1/namespaces/quiet/secrets", "")
		all, _ := c.bearer(strangerToken).ask("GET", "/api/v1/pods", "")
		return code == http.StatusOK && all == http.StatusOK
	})
}

// token is one of a service account.
func (c *target) token(namespace, account string) (token string) {
	c.Helper()
	c.soon("a token of "+account, func() bool {
		r, err := c.admin.CoreV1().ServiceAccounts(namespace).CreateToken(c.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = r.Status.Token
		}
		return err == nil
	})
	return token
}

// serverSecret is a bootstrap token by which a machine becomes a server.
func serverSecret(id string) string {
	in := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return fmt.Sprintf(`{"metadata":{"name":"bootstrap-token-%s"},"type":"bootstrap.kubernetes.io/token","data":{"token-id":%q,"token-secret":%q,"usage-bootstrap-authentication":%q,"auth-extra-groups":%q}}`,
		id, in(id), in("0123456789abcdef"), in("true"), in(identity.ServersGroup))
}

func (a *actor) impersonates(what, user string, groups ...string) attempt {
	return attempt{what, refused, func() (string, bool) {
		cfg := rest.CopyConfig(a.cfg)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		code, text := a.c.actor(cfg).ask("GET", "/api/v1/namespaces/other/secrets", "")
		return text, code == http.StatusOK
	}}
}

func (a *actor) clones(g *clone, token string) attempt {
	return attempt{"clones the repository", refused, func() (string, bool) {
		said, err := g.tryGit(as(token, "ls-remote", "origin")...)
		return said, err == nil
	}}
}

func (c *target) forRights(a *actor) []attempt {
	admin := fmt.Sprintf(`{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, "tenant")
	const webhook = `{"metadata":{"name":"x"},"webhooks":[{"name":"a.example.org","clientConfig":{"url":"https://192.0.2.66/"},"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`
	csr := func(what, signer string, name pkix.Name) attempt {
		return attempt{what, refused, func() (string, bool) {
			cert, said := a.request(signer, key(c.T), &x509.CertificateRequest{Subject: name}, certificatesv1.UsageClientAuth, patience(refused))
			return said, cert != nil
		}}
	}
	g := c.clone()
	return []attempt{
		a.does("reads its Secrets", allowed, "GET", shop+"/secrets", "", ""),
		{"a ConfigMap of its own, and gone", allowed, func() (string, bool) {
			if code, text := a.ask("POST", shop+"/configmaps", `{"metadata":{"name":"own"},"data":{"a":"b"}}`); code != http.StatusCreated {
				return text, false
			}
			code, text := a.ask("DELETE", shop+"/configmaps/own", "")
			return text, code == http.StatusOK
		}},
		a.does("Secrets of another namespace", refused, "GET", "/api/v1/namespaces/other/secrets/its", "", ""),
		a.does("Secrets of kube-system", refused, "GET", "/api/v1/namespaces/kube-system/secrets", "", ""),
		a.does("Secrets of all", refused, "GET", "/api/v1/secrets", "", ""),
		a.does("a watch of all Secrets", refused, "GET", "/api/v1/secrets?watch=true&timeoutSeconds=1", "", ""),
		a.does("a path that leads to another namespace", refused, "GET", shop+"/../other/secrets/its", "", secretText),
		a.does("the same, escaped", refused, "GET", shop+"%2f..%2fother/secrets/its", "", secretText),
		a.does("a Secret by a label of another namespace", refused, "DELETE", "/api/v1/namespaces/other/secrets?labelSelector=a", "", ""),
		a.does("a token of another namespace's account", refused, "POST", "/api/v1/namespaces/other/serviceaccounts/default/token", `{"spec":{}}`, ""),
		a.does("a token of a controller", refused, "POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", `{"spec":{}}`, ""),
		a.does("binds cluster-admin in its namespace", refused, "POST", roles+"/namespaces/shop/rolebindings", admin, ""),
		a.does("binds cluster-admin", refused, "POST", roles+"/clusterrolebindings", admin, ""),
		a.impersonates("acts as an administrator", "x", "system:masters"),
		a.impersonates("acts as break-glass", identity.Admin),
		a.impersonates("acts as a node", "system:node:x", "system:nodes"),
		a.does("a bootstrap token of servers", refused, "POST", "/api/v1/namespaces/kube-system/secrets", serverSecret("aaaaaa"), ""),
		a.does("is given the keys of servers", refused, "POST", "/servers/join", `{"name":"evil","url":"https://192.0.2.66:2380"}`, ""),
		a.does("a webhook that sees all", refused, "POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", webhook, ""),
		a.does("a webhook that refuses all", refused, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", webhook, ""),
		a.does("an API of its own", refused, "POST", "/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.x.org"},"spec":{"group":"x.org","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"name":"x","namespace":"shop"}}}`, ""),
		csr("an administrator's certificate", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}),
		csr("a node's certificate", certificatesv1.KubeAPIServerClientKubeletSignerName, subject("evil")),
		a.does("an image of nodes", refused, "POST", "/apis/writ.dev/v1alpha1/nodeimages", `{"metadata":{"name":"x"},"spec":{}}`, ""),
		a.does("a pool of nodes", refused, "POST", "/apis/writ.dev/v1alpha1/nodepools", `{"metadata":{"name":"x"},"spec":{}}`, ""),
		a.does("what is followed", refused, "PATCH", repositories, `{"spec":{"pushes":[{"users":["tenant"]}]}}`, ""),
		a.clones(g, a.cfg.BearerToken),
		a.does("the refs of Git", refused, "GET", refs, "", ""),
		a.does("the page's dump of memory", refused, "GET", "/debug/pprof/heap", "", ""),
	}
}

// thief is a ReplicaSet of none that selects the pods of others.
func thief(app string) string {
	return fmt.Sprintf(`{"metadata":{"name":"thief-%s"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, app)
}

func (c *target) againstGit(a *actor) []attempt {
	owner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"00000000-0000-0000-0000-000000000000"}]}}`
	template := func(spec string) string { return `{"spec":{"template":` + spec + `}}` }
	uid := func(name string) string {
		p, err := c.admin.CoreV1().Pods("shop").Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(p.UID, p.DeletionTimestamp, p.OwnerReferences)
	}
	steals := attempt{"a ReplicaSet of none takes the declared pod", refused, func() (string, bool) {
		before := uid("declared")
		if code, text := a.ask("POST", apps+"/replicasets", thief("alone")); code != http.StatusCreated {
			return text, false
		}
		c.soon("the thief has looked", func() bool {
			rs, err := c.admin.AppsV1().ReplicaSets("shop").Get(c.Context(), "thief-alone", metav1.GetOptions{})
			return err == nil && rs.Status.ObservedGeneration > 0
		})
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(50 * time.Millisecond) {
			if now := uid("declared"); now != before {
				return before + " became " + now, true
			}
		}
		return "the pod stays", false
	}}
	deletesUnseen := attempt{"deletes by fields what it does not see", refused, func() (string, bool) {
		if code, text := a.ask("POST", batch+"/jobs", `{"metadata":{"name":"one"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`); code != http.StatusCreated {
			c.Fatal(text)
		}
		for _, selector := range []string{"status.successful!=0", "status.successful=1", "metadata.name!=one"} {
			_, seen := a.ask("GET", batch+"/jobs?fieldSelector="+strings.ReplaceAll(selector, "=", "%3D"), "")
			code, text := a.ask("DELETE", batch+"/jobs?fieldSelector="+strings.ReplaceAll(selector, "=", "%3D"), "")
			if left, _ := a.ask("GET", batch+"/jobs/one", ""); left != http.StatusOK && !strings.Contains(seen, `"one"`) {
				return fmt.Sprintf("%s: %d %s", selector, code, text), true
			}
		}
		return "the Job stays", false
	}}
	patch := func(what string, want result, body string) attempt {
		return a.does(what, want, "PATCH", apps+"/deployments/web", body, "")
	}
	return []attempt{
		a.does("a value of a declared object", refused, "PATCH", shop+"/configmaps/declared", `{"data":{"a":"c"}}`, ""),
		a.does("an owner that is not there, of a ConfigMap", refused, "PATCH", shop+"/configmaps/declared", owner, ""),
		a.does("the same, of a pod", refused, "PATCH", shop+"/pods/declared", owner, ""),
		patch("the same, of a Deployment", refused, owner),
		steals,
		a.does("deletes the declared pod", refused, "DELETE", shop+"/pods/declared", "", ""),
		a.does("deletes all pods", refused, "DELETE", shop+"/pods?labelSelector=app%3Dalone", "", ""),
		a.does("evicts the declared pod", refused, "POST", shop+"/pods/declared/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"declared","namespace":"shop"}}`, ""),
		a.does("deletes the declared Namespace", refused, "DELETE", "/api/v1/namespaces/shop", "", ""),
		patch("another image", refused, template(`{"spec":{"containers":[{"name":"c","image":"evil"}]}}`)),
		patch("a sidecar", refused, template(`{"spec":{"containers":[{"name":"c","image":"example.com/i:1"},{"name":"evil","image":"evil"}]}}`)),
		patch("an init container", refused, template(`{"spec":{"initContainers":[{"name":"evil","image":"evil"}]}}`)),
		patch("a command", refused, template(`{"spec":{"containers":[{"name":"c","image":"example.com/i:1","command":["sh"]}]}}`)),
		patch("the host's network", refused, template(`{"spec":{"hostNetwork":true}}`)),
		patch("another account", refused, template(`{"spec":{"serviceAccountName":"deployer"}}`)),
		patch("how many", refused, `{"spec":{"replicas":0}}`),
		a.does("how many, by scale", refused, "PATCH", apps+"/deployments/web/scale", `{"spec":{"replicas":0}}`, ""),
		a.does("an ephemeral container in the declared pod", refused, "PATCH", shop+"/pods/declared/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"evil","image":"evil"}]}}`, ""),
		deletesUnseen,
		a.does("an Inventory", refused, "POST", "/apis/writ.dev/v1alpha1/inventories", `{"metadata":{"name":"x"},"spec":{}}`, ""),
		// The template is Git's whole; spec.ignore of the Repository lets it.
		patch("restarts it, as kubectl rollout restart does", refused, template(`{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}`)),
		patch("a note on it", allowed, `{"metadata":{"annotations":{"example.com/note":"x"}}}`),
	}
}

func (c *target) forPods(a *actor) []attempt {
	n := 0
	pod := func(what string, want result, spec, container string) attempt {
		n++
		body := fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{%s"containers":[{"name":"c","image":"i"%s}]}}`, n, spec, container)
		return a.does("a pod with "+what, want, "POST", "/api/v1/namespaces/quiet/pods", body, "")
	}
	security := func(s string) string { return `,"securityContext":` + s }
	const hostPath = `"volumes":[{"name":"v","hostPath":{"path":"/"}}],`
	return []attempt{
		pod("nothing special", allowed, "", ""),
		pod("all privileges", refused, "", security(`{"privileged":true}`)),
		pod("a folder of the host", refused, hostPath, ""),
		pod("the processes of the host", refused, `"hostPID":true,`, ""),
		pod("the network of the host", refused, `"hostNetwork":true,`, ""),
		pod("the IPC of the host", refused, `"hostIPC":true,`, ""),
		pod("a port of the host", refused, "", `,"ports":[{"containerPort":80,"hostPort":80}]`),
		pod("a capability", refused, "", security(`{"capabilities":{"add":["SYS_ADMIN"]}}`)),
		pod("its own users and all of /proc", refused, `"hostUsers":false,`, security(`{"procMount":"Unmasked","runAsUser":0}`)),
		a.does("a pod that accepts by itself to have no users of its own", refused, "POST", "/api/v1/namespaces/quiet/pods",
			`{"metadata":{"name":"accepts","annotations":{"writ.dev/accept":"spec.hostUsers,PodSecurity"}},"spec":{"hostUsers":false,"containers":[{"name":"c","image":"i","securityContext":{"procMount":"Unmasked","runAsUser":0}}]}}`, ""),
		pod("all of /proc", refused, "", security(`{"procMount":"Unmasked"}`)),
		pod("no seccomp", refused, "", security(`{"seccompProfile":{"type":"Unconfined"}}`)),
		pod("a sysctl of the host", refused, `"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]},`, ""),
		pod("the same in an init container", refused, `"initContainers":[{"name":"i","image":"i","securityContext":{"privileged":true}}],`, ""),
		// As upstream, where a ResourceQuota bounds it.
		pod("a priority of the system", allowed, `"priorityClassName":"system-node-critical",`, ""),
		pod("a node that is a server", refused, `"nodeName":"server","tolerations":[{"operator":"Exists"}],"hostNetwork":true,`, ""),
		a.does("a mirror pod", refused, "POST", "/api/v1/namespaces/quiet/pods", `{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"x","hostPID":true}}`, ""),
		a.does("turns the check of pods off", refused, "PATCH", "/api/v1/namespaces/quiet", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, ""),
		{"a Deployment whose pods have a folder of the host: pods come", refused, func() (string, bool) { return c.comes(a, "host", hostPath) }},
		{"a Deployment: pods come", allowed, func() (string, bool) { return c.comes(a, "good", "") }},
	}
}

// comes makes a Deployment, and says whether there are pods of it.
func (c *target) comes(a *actor, name, spec string) (string, bool) {
	body := fmt.Sprintf(`{"metadata":{"name":%[1]q},"spec":{"replicas":1,"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{%s"containers":[{"name":"c","image":"i"}]}}}}`, name, spec)
	if code, text := a.ask("POST", "/apis/apps/v1/namespaces/quiet/deployments", body); code != http.StatusCreated {
		return text, false
	}
	said, come := "", false
	c.soon("the pods of "+name, func() bool {
		pods, err := c.admin.CoreV1().Pods("quiet").List(c.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			c.Fatal(err)
		}
		if come = len(pods.Items) > 0; come {
			said = pods.Items[0].Name
			return true
		}
		sets, err := c.admin.AppsV1().ReplicaSets("quiet").List(c.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			c.Fatal(err)
		}
		for _, rs := range sets.Items {
			for _, cond := range rs.Status.Conditions {
				if cond.Type == "ReplicaFailure" && cond.Status == corev1.ConditionTrue {
					said = cond.Message
					return true
				}
			}
		}
		return false
	})
	return said, come
}

// forReach has the server call where a tenant would have it call.
func (c *target) forReach(a *actor) []attempt {
	_, apiPort, _ := net.SplitHostPort(c.addr)
	service := func(name, spec string) {
		if code, text := a.ask("POST", shop+"/services", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s}}`, name, spec)); code != http.StatusCreated {
			c.Fatal(text)
		}
	}
	out := []attempt{
		a.does("a Service", allowed, "POST", shop+"/services", `{"metadata":{"name":"own"},"spec":{"ports":[{"port":80}]}}`, ""),
		a.does("Endpoints of its own choice", refused, "POST", shop+"/endpoints", `{"metadata":{"name":"own"},"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":80}]}]}`, ""),
		a.does("an EndpointSlice of its own choice", refused, "POST", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", `{"metadata":{"name":"own"},"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"]}]}`, ""),
		a.does("where its pod is", refused, "PATCH", shop+"/pods/declared/status", `{"status":{"podIP":"127.0.0.1"}}`, ""),
		a.does("a node, by its proxy", refused, "GET", "/api/v1/nodes/server/proxy/pods", "", ""),
	}
	// Where an administrator has let it choose, or a node has lied: still not the
	// servers, nor what only they reach.
	for i, ip := range []string{c.host, "127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "10.96.0.1", "10.244.0.1"} {
		name, port := fmt.Sprintf("to%d", i), apiPort
		if ip == "10.96.0.1" {
			port = "443"
		}
		out = append(out, attempt{"its pod at " + ip + ", by pods/proxy", refused, func() (string, bool) {
			if code, text := a.ask("POST", shop+"/pods", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`, name)); code != http.StatusCreated {
				c.Fatal(text)
			}
			if code, text := c.asAdmin().ask("PATCH", shop+"/pods/"+name+"/status", fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, ip, ip)); code != http.StatusOK {
				return "no such address: " + text, false
			}
			code, text := a.ask("GET", shop+"/pods/https:"+name+":"+port+"/proxy/version", "")
			return text, code == http.StatusOK
		}}, attempt{"a Service at " + ip + ", by services/proxy", refused, func() (string, bool) {
			service(name, `"clusterIP":"None","ports":[{"port":`+port+`}]`)
			at := fmt.Sprintf(`{"metadata":{"name":%[1]q},"subsets":[{"ports":[{"port":%[2]s}],"addresses":[{"ip":%[3]q,"targetRef":{"kind":"Pod","namespace":"shop","name":%[1]q}}]}]}`, name, port, ip)
			if code, text := c.asAdmin().ask("POST", shop+"/endpoints", at); code != http.StatusCreated {
				return "no such Endpoints: " + text, false
			}
			code, text := a.ask("GET", shop+"/services/https:"+name+":"+port+"/proxy/version", "")
			return text, code == http.StatusOK
		}})
	}
	return append(out,
		attempt{"a Service that is a name elsewhere, by services/proxy", refused, func() (string, bool) {
			service("named", `"type":"ExternalName","externalName":"localhost","ports":[{"port":`+apiPort+`}]`)
			code, text := a.ask("GET", shop+"/services/https:named:"+apiPort+"/proxy/version", "")
			return text, code == http.StatusOK
		}},
		// As upstream, whose plugin DenyServiceExternalIPs is off by default.
		a.does("an external IP of a Service", allowed, "POST", shop+"/services", `{"metadata":{"name":"external"},"spec":{"ports":[{"port":80}],"externalIPs":["192.0.2.9"]}}`, ""),
		a.does("an external IP on loopback", refused, "POST", shop+"/services", `{"metadata":{"name":"loop"},"spec":{"ports":[{"port":80}],"externalIPs":["127.0.0.1"]}}`, ""),
	)
}

// forRoles: view everywhere, and patch on roles and bindings.
func (c *target) forRoles(a *actor) []attempt {
	role := func(what, name, body string) attempt {
		return a.does(what, refused, "PATCH", roles+"/clusterroles/"+name, body, "")
	}
	all := `[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`
	return []attempt{
		a.does("reads roles", allowed, "GET", roles+"/clusterroles/view", "", ""),
		a.does("a role of what it may", allowed, "POST", roles+"/clusterroles", `{"metadata":{"name":"less"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, ""),
		role("cluster-admin becomes a part of view", "cluster-admin", `{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}`),
		role("admin becomes a part of view", "admin", `{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}}`),
		role("view gathers all", "view", `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`),
		role("view gathers nothing more", "view", `{"aggregationRule":null}`),
		role("view is all", "view", `{"rules":`+all+`}`),
		role("view drops what gathers and is all", "view", `{"aggregationRule":null,"rules":`+all+`}`),
		role("its own role is all", "patches-roles", `{"rules":`+all+`}`),
		role("its own role binds", "patches-roles", `{"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"verbs":["bind","escalate"]}]}`),
		role("its own role gathers", "less", `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`),
		a.does("binds cluster-admin", refused, "POST", roles+"/clusterrolebindings", `{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"stranger"}]}`, ""),
		a.does("joins who is bound to cluster-admin", refused, "PATCH", roles+"/clusterrolebindings/operator", `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"stranger"}]}`, ""),
		a.does("then reads Secrets", refused, "GET", "/api/v1/secrets", "", ""),
	}
}

// withAll: cluster-admin by RBAC is neither Git nor break-glass.
func (c *target) withAll(a *actor) []attempt {
	const commits = "/apis/writ.dev/v1alpha1/commits"
	_, inventories := a.ask("GET", "/apis/writ.dev/v1alpha1/inventories", "")
	name := func(list string) string {
		_, rest, _ := strings.Cut(list, `"name":"`)
		n, _, _ := strings.Cut(rest, `"`)
		return n
	}
	_, list := a.ask("GET", commits, "")
	inventory, commit := name(inventories), name(list)
	if inventory == "" || commit == "" {
		c.Fatal("there is nothing that Git declares")
	}
	return []attempt{
		a.does("reads Secrets", allowed, "GET", "/api/v1/secrets", "", ""),
		a.does("the declared Namespace", refused, "DELETE", "/api/v1/namespaces/shop", "", ""),
		a.does("ends the declared Namespace by finalize", refused, "PUT", "/api/v1/namespaces/shop/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"finalizers":[]}}`, ""),
		a.does("the declared pod", refused, "DELETE", shop+"/pods/declared", "", ""),
		a.does("all declared pods", refused, "DELETE", shop+"/pods?labelSelector=app%3Dalone", "", ""),
		a.does("evicts the declared pod", refused, "POST", shop+"/pods/declared/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"declared","namespace":"shop"}}`, ""),
		a.does("lets Git's fields go", refused, "PATCH", shop+"/configmaps/declared", `{"metadata":{"managedFields":[{}]},"data":{"a":"c"}}`, ""),
		a.does("an Inventory", refused, "PATCH", "/apis/writ.dev/v1alpha1/inventories/"+inventory, `{"spec":{"objects":[]}}`, ""),
		a.does("deletes an Inventory", refused, "DELETE", "/apis/writ.dev/v1alpha1/inventories/"+inventory, "", ""),
		a.does("makes an Inventory", refused, "POST", "/apis/writ.dev/v1alpha1/inventories", `{"metadata":{"name":"x"},"spec":{"repository":"cluster","file":"x.yaml","commit":"x","objects":[{"version":"v1","kind":"ConfigMap","namespace":"other","name":"x"}]}}`, ""),
		a.does("a Commit", refused, "PATCH", commits+"/"+commit, `{"metadata":{"labels":{"a":"b"}}}`, ""),
		a.does("the status of a Commit", refused, "PATCH", commits+"/"+commit+"/status", `{"status":{"phase":"Failed"}}`, ""),
		a.does("deletes a Commit", refused, "DELETE", commits+"/"+commit, "", ""),
		a.does("a bootstrap token of servers", refused, "POST", "/api/v1/namespaces/kube-system/secrets", serverSecret("bbbbbb"), ""),
		a.does("what the version before takes for refs", allowed, "GET", refs, "", "moved: the servers keep the branches"),
		a.does("the refs of Git", refused, "PATCH", refs, `{"data":{"refs":"{}"}}`, ""),
		a.does("a note on the refs of Git", refused, "PATCH", refs, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`, ""),
		a.does("deletes the refs of Git", refused, "DELETE", refs, "", ""),
		a.does("deletes all ConfigMaps there", refused, "DELETE", "/api/v1/namespaces/kube-system/configmaps", "", ""),
		{"an administrator's certificate", refused, func() (string, bool) {
			cert, said := a.request(certificatesv1.KubeAPIServerClientSignerName, key(c.T), &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}}, certificatesv1.UsageClientAuth, patience(refused))
			return said, cert != nil
		}},
	}
}
