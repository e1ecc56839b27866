package adversary

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
)

const (
	secretText = "never-to-be-read"
)

// patience is how long a request for a certificate may wait: those that are
// admitted are signed at once, on a machine that is not busy.
func patience(want result) time.Duration {
	if want == allowed {
		return time.Minute
	}
	return 2 * time.Second
}

func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// join makes a machine a node by the token; nil when the cluster says no.
func (c *target) join(name string, patience time.Duration) (*actor, string) {
	c.Helper()
	k := key(c.T)
	cert, why := c.actor(&rest.Config{BearerToken: joinToken}).request(certificatesv1.KubeAPIServerClientKubeletSignerName, k,
		&x509.CertificateRequest{Subject: subject(name)}, certificatesv1.UsageClientAuth, patience)
	if cert == nil {
		return nil, why
	}
	_, keyPEM := pair(c.T, cert, k)
	return c.actor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert, KeyData: keyPEM}}), why
}

// register makes its Node, which says where it is.
func (a *actor) register(name string, port int, addresses ...string) {
	a.c.Helper()
	n, err := a.kube.CoreV1().Nodes().Create(a.c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		a.c.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	n.Status.NodeInfo.KubeletVersion = "v1.36.4"
	for _, at := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: at})
	}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	status, err := json.Marshal(map[string]any{"status": n.Status})
	if err != nil {
		a.c.Fatal(err)
	}
	if code, text := a.ask(http.MethodPatch, "/api/v1/nodes/"+name+"/status", string(status)); code != http.StatusOK {
		a.c.Fatal(text)
	}
	now, life := metav1.NewMicroTime(time.Now()), int32(40)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &life, RenewTime: &now}}
	if _, err := a.kube.CoordinationV1().Leases("kube-node-lease").Create(a.c.Context(), l, metav1.CreateOptions{}); err != nil {
		a.c.Fatal(err)
	}
}

// serving asks for a certificate that a node serves by.
func (a *actor) serving(want result, node string, hosts ...string) (certPEM []byte, said string, as *tls.Certificate) {
	a.c.Helper()
	req := &x509.CertificateRequest{Subject: subject(node)}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			req.IPAddresses = append(req.IPAddresses, ip)
		} else {
			req.DNSNames = append(req.DNSNames, h)
		}
	}
	k := key(a.c.T)
	cert, why := a.request(certificatesv1.KubeletServingSignerName, k, req, certificatesv1.UsageServerAuth, patience(want))
	if cert == nil {
		return nil, why, nil
	}
	p, _ := pair(a.c.T, cert, k)
	return cert, why, &p
}

// moves says where a node is, in its own status.
func (a *actor) moves(node, ip string, port int) {
	a.c.Helper()
	code, text := a.ask(http.MethodPatch, "/api/v1/nodes/"+node+"/status",
		fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, ip, port))
	if code != http.StatusOK {
		a.c.Errorf("node %s does not say where it is: %s", node, text)
	}
}

// agent is what listens on an honest node, and whom it was called by.
func (c *target) agent(cert tls.Certificate) (port int) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "agent of %s, called by %s", cert.Leaf.Subject.CommonName, r.TLS.PeerCertificates[0].Subject.Organization)
	}))
	l, err := net.Listen("tcp", net.JoinHostPort(c.host, "0"))
	if err != nil {
		c.Fatal(err)
	}
	srv.Listener.Close()
	srv.Listener, srv.TLS = l, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	c.Cleanup(srv.Close)
	return l.Addr().(*net.TCPAddr).Port
}

// honest is a node that does as it should, with a pod and a Secret of its own.
func (c *target) honest(name string) *actor {
	c.Helper()
	a, why := c.join(name, time.Minute)
	if a == nil {
		c.Fatalf("an honest node does not join: %s", why)
	}
	a.register(name, 10250, c.host, "192.0.2.50")
	_, why, cert := a.serving(allowed, name, name)
	if cert == nil {
		c.Fatalf("an honest node has nothing to serve by: %s", why)
	}
	a.moves(name, c.host, c.agent(*cert))
	c.pod(name)
	return a
}

// pod is one that runs on a node, as an account of its own.
func (c *target) pod(node string) {
	c.Helper()
	ctx, core := c.Context(), c.admin.CoreV1()
	of := metav1.ObjectMeta{Name: "of-" + node}
	if _, err := core.ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: of}, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	if _, err := core.Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: of, StringData: map[string]string{"key": secretText}}, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: of, Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: of.Name, Containers: []corev1.Container{{Name: "c", Image: "x",
		Env: []corev1.EnvVar{{Name: "K", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: of.Name}, Key: "key"}}}}}}}}
	if _, err := core.Pods("shop").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// does is an attempt by one request; it succeeds when the answer is one of 2xx
// and, where has is given, contains it.
func (a *actor) does(what string, want result, method, path, body, has string) attempt {
	return attempt{what, want, func() (string, bool) {
		code, text := a.ask(method, path, body)
		return text, code/100 == 2 && strings.Contains(text, has)
	}}
}

// TestNode: what the token of a machine that joins is good for, and a node that
// was taken over.
func TestNode(t *testing.T) {
	c := start(t)
	if _, err := c.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.honest("victim")
	token := c.actor(&rest.Config{BearerToken: joinToken})
	attempts := c.byToken(token)
	evil, why := c.join("evil", time.Minute)
	if evil == nil {
		t.Fatalf("the adversary's own node does not join: %s", why)
	}
	evil.register("evil", 10250, "192.0.2.66")
	c.pod("evil")
	report(t, "a stolen token of agents", attempts)
	report(t, "a node that was taken over", c.byNode(evil))
	report(t, "what it writes is believed by others", c.throughOthers(evil))
}

func (c *target) byToken(a *actor) []attempt {
	joins := func(name string, want result) attempt {
		return attempt{"becomes node " + name, want, func() (string, bool) {
			got, said := c.join(name, patience(want))
			return said, got != nil
		}}
	}
	client := func(what string, name pkix.Name, signer string) attempt {
		return attempt{what, refused, func() (string, bool) {
			cert, said := a.request(signer, key(c.T), &x509.CertificateRequest{Subject: name}, certificatesv1.UsageClientAuth, patience(refused))
			return said, cert != nil
		}}
	}
	return []attempt{
		a.does("reads all Secrets", refused, "GET", "/api/v1/secrets", "", ""),
		a.does("reads bootstrap tokens", refused, "GET", "/api/v1/namespaces/kube-system/secrets", "", ""),
		a.does("lists nodes", refused, "GET", "/api/v1/nodes", "", ""),
		a.does("makes a token for servers", refused, "POST", "/api/v1/namespaces/kube-system/secrets", `{"metadata":{"name":"bootstrap-token-aaaaaa"},"type":"bootstrap.kubernetes.io/token"}`, ""),
		a.does("is given the keys of servers", refused, "POST", "/servers/join", `{"name":"evil","url":"https://192.0.2.66:2380"}`, ""),
		a.does("reaches an agent", refused, "GET", "/api/v1/nodes/victim/proxy/pods", "", ""),
		a.does("approves its own request", refused, "PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", `{"metadata":{"name":"x"}}`, ""),
		joins("victim", refused), joins("server", refused), joins("kubernetes", refused), joins("localhost", refused), joins("web.shop.svc", refused), joins("10.96.0.1", refused),
		joins("another", allowed),
		client("an administrator's certificate", pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}, certificatesv1.KubeAPIServerClientSignerName),
		client("an administrator's, as a node", pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes", "system:masters"}}, certificatesv1.KubeAPIServerClientKubeletSignerName),
		client("that of a machine that becomes a server", pkix.Name{CommonName: "x", Organization: []string{identity.ServersGroup}}, certificatesv1.KubeAPIServerClientSignerName),
		client("that of the calls to nodes", pkix.Name{CommonName: identity.KubeletClient, Organization: []string{identity.KubeletClientsGroup}}, certificatesv1.KubeAPIServerClientSignerName),
	}
}

func (c *target) byNode(a *actor) []attempt {
	serve := func(what string, want result, hosts ...string) attempt {
		return attempt{"serves as " + what, want, func() (string, bool) {
			cert, said, _ := a.serving(want, "evil", hosts...)
			return said, cert != nil
		}}
	}
	tokenOf := func(pod string, want result) attempt {
		return attempt{"a token of the account of " + pod, want, func() (string, bool) {
			p, err := c.admin.CoreV1().Pods("shop").Get(c.Context(), pod, metav1.GetOptions{})
			if err != nil {
				c.Fatal(err)
			}
			_, err = a.kube.CoreV1().ServiceAccounts("shop").CreateToken(c.Context(), pod, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: p.UID}}}, metav1.CreateOptions{})
			return fmt.Sprint(err), err == nil
		}}
	}
	_, apiPort, _ := net.SplitHostPort(c.addr)
	self := func(what, path string) attempt {
		return attempt{what, refused, func() (string, bool) {
			a.moves("evil", c.host, c.port)
			code, text := a.ask(http.MethodGet, path, "")
			return text, code != http.StatusForbidden // what it gets there, another attempt asks
		}}
	}
	const shop = "/api/v1/namespaces/shop"
	return []attempt{
		a.does("reads its own Node", allowed, "GET", "/api/v1/nodes/evil", "", ""),
		a.does("reads its pod's Secret", allowed, "GET", shop+"/secrets/of-evil", "", ""),
		a.does("lists its pods", allowed, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Devil", "", "of-evil"),
		tokenOf("of-evil", allowed),
		serve("itself", allowed, "evil", "192.0.2.66"),

		self("its own proxy, which leads to the API server", "/api/v1/nodes/evil/proxy/api/v1/secrets"),
		self("the same by port", "/api/v1/nodes/https:evil:"+apiPort+"/proxy/api/v1/secrets"),
		a.does("the proxy of another", refused, "GET", "/api/v1/nodes/victim/proxy/pods", "", ""),
		a.does("logs of another's pod", refused, "GET", shop+"/pods/of-victim/log", "", ""),
		a.does("logs of its own pod", refused, "GET", shop+"/pods/of-evil/log", "", ""),
		a.does("a command in another's pod", refused, "POST", shop+"/pods/of-victim/exec?command=id&stdout=true", "", ""),
		a.does("a command in its own pod", refused, "POST", shop+"/pods/of-evil/exec?command=id&stdout=true", "", ""),
		a.does("another pod's Secret", refused, "GET", shop+"/secrets/of-victim", "", ""),
		a.does("all Secrets", refused, "GET", "/api/v1/secrets", "", ""),
		a.does("Secrets of a namespace", refused, "GET", shop+"/secrets", "", ""),
		a.does("another's pod", refused, "GET", shop+"/pods/of-victim", "", ""),
		a.does("all pods", refused, "GET", "/api/v1/pods", "", ""),
		a.does("the status of another node", refused, "PATCH", "/api/v1/nodes/victim/status", `{"status":{"addresses":[]}}`, ""),
		a.does("the labels of another node", refused, "PATCH", "/api/v1/nodes/victim", `{"metadata":{"labels":{"a":"b"}}}`, ""),
		a.does("deletes another node", refused, "DELETE", "/api/v1/nodes/victim", "", ""),
		a.does("gives itself up, for a twin", refused, "PATCH", "/api/v1/nodes/evil", `{"metadata":{"annotations":{"writ.dev/given-up":""}}}`, ""),
		a.does("makes itself a server", refused, "PATCH", "/api/v1/nodes/evil", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, ""),
		a.does("makes another Node", refused, "POST", "/api/v1/nodes", `{"metadata":{"name":"third"}}`, ""),
		a.does("the status of another's pod", refused, "PATCH", shop+"/pods/of-victim/status", `{"status":{"phase":"Failed"}}`, ""),
		a.does("deletes another's pod", refused, "DELETE", shop+"/pods/of-victim", "", ""),
		a.does("evicts another's pod", refused, "POST", shop+"/pods/of-victim/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"of-victim","namespace":"shop"}}`, ""),
		a.does("binds a pod to itself", refused, "POST", shop+"/pods/of-victim/binding", `{"target":{"kind":"Node","name":"evil"}}`, ""),
		a.does("a pod with a Secret on itself", refused, "POST", shop+"/pods", `{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"evil","containers":[{"name":"c","image":"x"}],"volumes":[{"name":"v","secret":{"secretName":"of-victim"}}]}}`, ""),
		a.does("another's Lease", refused, "PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/victim", `{"spec":{"holderIdentity":"evil"}}`, ""),
		a.does("a server's Lease", refused, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", `{"metadata":{"name":"writ-server-evil","labels":{"writ.dev/server":""}}}`, ""),
		tokenOf("of-victim", refused),
		a.does("a token bound to nothing", refused, "POST", shop+"/serviceaccounts/of-evil/token", `{"spec":{}}`, ""),
		a.does("a token of a controller", refused, "POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", `{"spec":{}}`, ""),
		{"acts as an administrator", refused, func() (string, bool) {
			cfg := rest.CopyConfig(a.cfg)
			cfg.Impersonate = rest.ImpersonationConfig{UserName: "x", Groups: []string{"system:masters"}}
			code, text := c.actor(cfg).ask("GET", "/api/v1/secrets", "")
			return text, code == http.StatusOK
		}},
		{"a client certificate of another node", refused, func() (string, bool) {
			cert, said := a.request(certificatesv1.KubeAPIServerClientKubeletSignerName, key(c.T), &x509.CertificateRequest{Subject: subject("victim")}, certificatesv1.UsageClientAuth, patience(refused))
			return said, cert != nil
		}},
		serve("kubernetes", refused, "evil", "kubernetes"),
		serve("kubernetes.default.svc", refused, "kubernetes.default.svc"),
		serve("localhost", refused, "evil", "localhost", "127.0.0.1"),
		serve("another node", refused, "victim"),
		{"serves as the server, having said that it is there", refused, func() (string, bool) {
			a.moves("evil", c.host, 10250)
			cert, said, _ := a.serving(refused, "evil", "evil", c.host)
			return said, cert != nil
		}},
		{"serves as the cluster IP, having said so", refused, func() (string, bool) {
			a.moves("evil", cluster.APIService.String(), 443)
			cert, said, _ := a.serving(refused, "evil", cluster.APIService.String())
			return said, cert != nil
		}},
		{"serves as loopback, having said so", refused, func() (string, bool) {
			a.moves("evil", "127.0.0.1", 10250)
			cert, said, _ := a.serving(refused, "evil", "127.0.0.1")
			return said, cert != nil
		}},
		{"is taken for the API server by its clients", refused, func() (string, bool) {
			cert, said, _ := a.serving(allowed, "evil", "evil")
			if cert == nil {
				c.Fatalf("no certificate to serve by: %s", said)
			}
			block, _ := pem.Decode(cert)
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				c.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(c.ca)
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots})
			return fmt.Sprint(err), err == nil
		}},
	}
}

// throughOthers has an administrator ask for what leads to the adversary: what
// comes back must not be what the administrator alone may read, and the server's
// certificate must open nothing.
func (c *target) throughOthers(evil *actor) []attempt {
	pair, err := adminPair(c)
	if err != nil {
		c.Fatal(err)
	}
	admin := c.actor(pair)
	_, apiPort, _ := net.SplitHostPort(c.addr)
	led := func(what, ip string, port int, path, has string) attempt {
		return attempt{what, refused, func() (string, bool) {
			evil.moves("evil", ip, port)
			code, text := admin.ask("GET", path, "")
			return text, code/100 == 2 || has != "" && strings.Contains(text, has)
		}}
	}
	const proxied, logs = "/api/v1/nodes/evil/proxy/api/v1/secrets", "/api/v1/namespaces/shop/pods/of-evil/log"
	out := []attempt{admin.does("an honest node is reached", allowed, "GET", "/api/v1/nodes/victim/proxy/pods", "", "called by ["+identity.KubeletClientsGroup+"]")}
	for what, ip := range map[string]string{"its address": c.host, "loopback": "127.0.0.1", "IPv6 loopback": "::1", "the pods' gateway": "10.244.0.1", "unspecified": "0.0.0.0", "loopback as IPv6": "::ffff:127.0.0.1"} {
		out = append(out, led("calls of nodes lead to the API server, by "+what, ip, c.port, proxied, secretText))
	}
	out = append(out,
		led("by the cluster IP", cluster.APIService.String(), 443, proxied, secretText),
		led("logs lead there", c.host, c.port, logs, secretText),
		led("by a port in the name", c.host, 10250, "/api/v1/nodes/https:evil:"+apiPort+"/proxy/version", "gitVersion"),
		led("metadata service", "169.254.169.254", 80, "/api/v1/nodes/http:evil:80/proxy/", ""),
	)
	victim, err := c.admin.CoreV1().Nodes().Get(c.Context(), "victim", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	out = append(out, led("calls lead to another node", c.host, int(victim.Status.DaemonEndpoints.KubeletEndpoint.Port), logs, "agent of"))
	for what, ip := range map[string]string{"its address": c.host, "loopback": "127.0.0.1", "the cluster IP": cluster.APIService.String()} {
		out = append(out, attempt{"the proxy of its pod leads to the API server, by " + what, refused, func() (string, bool) {
			if code, text := evil.ask("PATCH", "/api/v1/namespaces/shop/pods/of-evil/status", fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, ip, ip)); code != 200 {
				return text, false
			}
			at := apiPort
			if ip == cluster.APIService.String() {
				at = "443"
			}
			code, text := admin.ask("GET", "/api/v1/namespaces/shop/pods/https:of-evil:"+at+"/proxy/version", "")
			return text, code == 200
		}})
	}
	return append(out, attempt{"the certificate of calls to nodes opens the API server", refused, func() (string, bool) {
		a, err := pki.Open(pki.Config{Dir: filepath.Join(c.cfg.DataDir, "pki")})
		if err != nil {
			c.Fatal(err)
		}
		p, err := a.IssueClient(pki.Client{User: identity.KubeletClient, Groups: []string{identity.KubeletClientsGroup}})
		if err != nil {
			c.Fatal(err)
		}
		code, text := c.actor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: p.CertPEM, KeyData: p.KeyPEM}}).ask("GET", "/api", "")
		return text, code != http.StatusUnauthorized
	}})
}

// adminPair is the break-glass credential.
func adminPair(c *target) (*rest.Config, error) {
	a, err := pki.Open(pki.Config{Dir: filepath.Join(c.cfg.DataDir, "pki")})
	if err != nil {
		return nil, err
	}
	p, err := a.IssueClient(pki.Client{User: identity.Admin, Groups: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: p.CertPEM, KeyData: p.KeyPEM}}, nil
}
