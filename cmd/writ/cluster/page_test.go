package cluster

import (
	"crypto/tls"
	"net/http"
	"os"
	"testing"

	"github.com/writ-os/writ/reconciler/page"
)

// TestCredentialsAreTheOwners: what the server writes for people is for the user
// who runs it, and a token is the password that the page says it is.
func TestCredentialsAreTheOwners(t *testing.T) {
	s := startGit(t)
	for _, f := range s.cfg.credentials() {
		secret := f.Path
		if f.Git {
			secret += ".key"
		}
		if st, err := os.Stat(secret); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", secret, st, err)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.authority.Pool(), ServerName: "kubernetes"}}}
	t.Cleanup(client.CloseIdleConnections)
	for token, want := range map[string]int{"t2": http.StatusOK, "wrong": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.cfg.Listen+page.Prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("whoever", token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s with the password %s: %s, want %d", page.Prefix, token, resp.Status, want)
		}
	}
}
