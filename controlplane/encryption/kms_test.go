package encryption

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// fakeKMS is a KMS v2 plugin with keys in memory, on a real socket.
type fakeKMS struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	Endpoint string

	mu       sync.Mutex
	keys     map[string]cipher.AEAD
	current  string
	healthz  string
	down     bool
	encrypts int
	decrypts int
}

func startKMS(t *testing.T, keyID string) *fakeKMS {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeKMS{Endpoint: "unix://" + path, keys: map[string]cipher.AEAD{}, healthz: "ok"}
	f.rotate(t, keyID)
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return f
}

func (f *fakeKMS) rotate(t *testing.T, keyID string) {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[keyID], f.current = aead, keyID
}

func (f *fakeKMS) set(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func (f *fakeKMS) counts() (encrypts, decrypts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.encrypts, f.decrypts
}

func (f *fakeKMS) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: f.healthz, KeyId: f.current}, nil
}

func (f *fakeKMS) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	f.encrypts++
	return &kmsapi.EncryptResponse{KeyId: f.current, Ciphertext: f.keys[f.current].Seal(nil, nil, r.Plaintext, nil)}, nil
}

func (f *fakeKMS) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	f.decrypts++
	aead, ok := f.keys[r.KeyId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no key %q", r.KeyId)
	}
	plain, err := aead.Open(nil, nil, r.Ciphertext, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}
