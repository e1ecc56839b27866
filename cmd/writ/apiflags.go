package main

import (
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// apiFlags are the flags of the API server. They have the names and meanings of
// kube-apiserver's, so that its documentation holds here.
func apiFlags(fl *pflag.FlagSet, a *cluster.API) {
	authenticationFlags(fl, a)
	authorizationFlags(fl, a)
	servingFlags(fl, &a.TLS)
	fl.StringSliceVar(&a.EnableAdmission, "enable-admission-plugins", nil, "admission plugins to run besides the default `names`")
	fl.StringSliceVar(&a.DisableAdmission, "disable-admission-plugins", nil, "`names` of default admission plugins to leave out")
	fl.StringVar(&a.EncryptionFile, "encryption-provider-config", "", "EncryptionConfiguration `file`: what is encrypted in the store, and by which keys; none: nothing. Default: Secrets, by <data-dir>/keys/encryption.yaml, which the first server makes")
	fl.DurationVar(&a.EventTTL, "event-ttl", cluster.EventTTL, "`time` for which an Event is kept after it was seen last; there are 10,000 at most, the oldest go first")
	fl.Int64Var(&a.QuotaBackendBytes, "quota-backend-bytes", 0, "`bytes` of live data that the store may hold; above that it takes deletes only. 0 is 8 GiB; the same on all servers")
	fl.IntVar(&a.MaxInFlight, "max-requests-inflight", 600, "how many requests run at once; FlowSchemas share them out")
	fl.Var(cliflag.NewMapStringBool(&a.FeatureGates), "feature-gates", "`name=true` of what is off by default; there is CBORServingAndStorage: clients may speak CBOR")
	fl.IntVar(&a.InsecurePort, "insecure-port", 0, "`port` on 127.0.0.1 where everybody is system:masters, without TLS; 0 is off. Prefer the unix socket <data-dir>/writ.sock")

	fl.StringVar(&a.Audit.PolicyFile, "audit-policy-file", "", "audit Policy `file`: which requests are recorded, and how much of them; default: writes, secrets, ways into pods, Git, the page")
	fl.StringVar(&a.Audit.LogPath, "audit-log-path", "", "`file` of the audit log; - is standard output, none records nothing; default <data-dir>/audit.log, of 500 MB at most")
	fl.StringVar(&a.Audit.Format, "audit-log-format", "json", "json or legacy")
	fl.StringVar(&a.Audit.Mode, "audit-log-mode", "blocking", "batch, blocking or blocking-strict")
	fl.IntVar(&a.Audit.MaxAge, "audit-log-maxage", 0, "how many `days` old files are kept; 0 keeps them")
	fl.IntVar(&a.Audit.MaxBackups, "audit-log-maxbackup", 0, "how many old files are kept; 0 keeps them")
	fl.IntVar(&a.Audit.MaxSize, "audit-log-maxsize", 100, "`megabytes` at which a file is closed")
	fl.BoolVar(&a.Audit.Compress, "audit-log-compress", false, "compress old files with gzip")
}

func authenticationFlags(fl *pflag.FlagSet, a *cluster.API) {
	fl.BoolVar(&a.NoProfiling, "no-profiling", false, "do not serve profiles of this process at /debug/pprof; administrators alone may read them")
	fl.BoolVar(&a.NoAnonymous, "no-anonymous-auth", false, "refuse requests without credentials, also of /healthz and /version")
	fl.BoolVar(&a.NoBootstrapTokens, "no-bootstrap-token-auth", false, "refuse bootstrap tokens, by which machines join")
	fl.StringVar(&a.TokenFile, "token-auth-file", "", "static token `file`: lines of token,user,uid,\"group1,group2\"")
	fl.StringVar(&a.BasicFile, "basic-auth-file", "", "password `file`: lines of password,user,uid,\"group1,group2\"; prefer anything else")
	fl.StringVar(&a.AuthenticationFile, "authentication-config", "", "AuthenticationConfiguration `file`: OpenID Connect issuers, anonymous requests")
	fl.StringVar(&a.OIDC.IssuerURL, "oidc-issuer-url", "", "`URL` of an OpenID Connect issuer")
	fl.StringVar(&a.OIDC.ClientID, "oidc-client-id", "", "client `ID` that its tokens must be for")
	fl.StringVar(&a.OIDC.CAFile, "oidc-ca-file", "", "CA `file` of the issuer; default: the system's")
	fl.StringVar(&a.OIDC.UsernameClaim, "oidc-username-claim", "sub", "`claim` that is the user's name")
	fl.StringVar(&a.OIDC.UsernamePrefix, "oidc-username-prefix", "", "`prefix` of user names; - is none")
	fl.StringVar(&a.OIDC.GroupsClaim, "oidc-groups-claim", "", "`claim` that holds the groups")
	fl.StringVar(&a.OIDC.GroupsPrefix, "oidc-groups-prefix", "", "`prefix` of groups")
	fl.StringSliceVar(&a.OIDC.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "accepted signature `algorithms`")
	fl.StringToStringVar(&a.OIDC.RequiredClaims, "oidc-required-claim", nil, "`claim=value` that a token must have")
	fl.StringVar(&a.TokenWebhook.File, "authentication-token-webhook-config-file", "", "kubeconfig `file` of a server that reviews tokens")
	fl.StringVar(&a.TokenWebhook.Version, "authentication-token-webhook-version", "v1", "`version` of the TokenReview to send")
	fl.DurationVar(&a.TokenWebhookTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "`time` for which its answers hold")
	fl.StringVar(&a.ClientCAFile, "client-ca-file", "", "CA `file`: clients with a certificate of these are known by it, as those of the cluster's own CA are. Taken over when it changes")
	f := &a.FrontProxy
	fl.StringVar(&f.CAFile, "requestheader-client-ca-file", "", "CA `file` of proxies that name the user in headers")
	fl.StringSliceVar(&f.AllowedNames, "requestheader-allowed-names", nil, "common `names` of such proxies; default: all of the CA")
	fl.StringSliceVar(&f.UserHeaders, "requestheader-username-headers", []string{"X-Remote-User"}, "`headers` with the user's name")
	fl.StringSliceVar(&f.UIDHeaders, "requestheader-uid-headers", []string{"X-Remote-Uid"}, "`headers` with the user's UID")
	fl.StringSliceVar(&f.GroupHeaders, "requestheader-group-headers", []string{"X-Remote-Group"}, "`headers` with groups")
	fl.StringSliceVar(&f.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"X-Remote-Extra-"}, "`prefixes` of headers with more")
}

func servingFlags(fl *pflag.FlagSet, t *cluster.ServingFiles) {
	fl.StringVar(&t.CertFile, "tls-cert-file", "", "serving certificate `file`, with those between it and its CA, for all names but those that the cluster's own parts use; who calls by address gets the cluster's own. Taken over when it changes")
	fl.StringVar(&t.KeyFile, "tls-private-key-file", "", "`file` of its private key")
	fl.Var(cliflag.NewNamedCertKeyArray(&t.SNI), "tls-sni-cert-key", "`cert,key[:name,...]`: another certificate, for these names (*.example.com is good for one label) or those that it is for; may be repeated")
}

func authorizationFlags(fl *pflag.FlagSet, a *cluster.API) {
	z := &a.Authorization
	fl.StringVar(&z.File, "authorization-config", "", "AuthorizationConfiguration `file`, instead of the flags")
	fl.StringSliceVar(&z.Modes, "authorization-mode", nil, "`modes` in order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny; default Node,RBAC")
	fl.StringVar(&z.PolicyFile, "authorization-policy-file", "", "ABAC policy `file`, a JSON object on each line")
	fl.StringVar(&z.Webhook.File, "authorization-webhook-config-file", "", "kubeconfig `file` of a server that decides")
	fl.StringVar(&z.Webhook.Version, "authorization-webhook-version", "v1", "`version` of the SubjectAccessReview to send")
	fl.DurationVar(&z.Webhook.AllowTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "`time` for which a yes holds")
	fl.DurationVar(&z.Webhook.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "`time` for which a no holds")
}
