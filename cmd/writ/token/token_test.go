package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/join"
)

// told is cluster-info, and the hash of the authority in it.
func told(t *testing.T) (*corev1.ConfigMap, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[""] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	text, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(text)}}, join.Hash(ca)
}

func TestLife(t *testing.T) {
	info, hash := told(t)
	f := client.NewFake(info)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	ever, err := Create(t.Context(), f, Agent, "for ever", 0, now)
	if err != nil {
		t.Fatal(err)
	}
	day, err := Create(t.Context(), f, Agent, "", 24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	if want := "writ agent --server https://192.0.2.1:6443 --token " + day.Token + " --ca-hash " + hash; day.Command() != want {
		t.Errorf("%s\nwant %s", day.Command(), want)
	}
	// The server takes it for one that machines may join by, and signs with it.
	secret := client.CachedList[*corev1.Secret](f.Cache(), "kube-system")
	for _, s := range secret {
		groups, err := bootstrap.Groups(s)
		if err != nil || !strings.Contains(strings.Join(groups, " "), identity.JoinersGroup) {
			t.Errorf("%v %v", groups, err)
		}
	}
	signed, changed, err := bootstrap.Signed(info, secret, now)
	if err != nil || !changed {
		t.Fatal(err)
	}
	if _, err := client.Update(t.Context(), f, signed, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Await(t.Context(), f, ever.Token); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Await(over, f, "abcdef.0123456789abcdef"); err == nil || !strings.Contains(err.Error(), "no signature of token abcdef") {
		t.Errorf("a token that nobody signs with: %v", err)
	}
	all, err := List(t.Context(), f)
	if err != nil || len(all) != 2 || all[0].ID != day.Token[:6] || !all[0].Expires.Equal(now.Add(24*time.Hour).Truncate(time.Second)) || all[1].Description != "for ever" || !all[1].Joins {
		t.Errorf("%+v %v", all, err)
	}
	if err := Delete(t.Context(), f, day.Token); err != nil {
		t.Error(err)
	}
	for token, want := range map[string]string{day.Token: "not found", "abc": "is not the id of a token"} {
		if err := Delete(t.Context(), f, token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", token, err)
		}
	}
}
