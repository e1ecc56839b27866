package cluster

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// loadKubeconfig reads a kubeconfig, and says what to do when there is none.
func loadKubeconfig(path, server string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags(server, path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("read credentials: %s does not exist: the server writes it; start 'writ server' first, or name another with --kubeconfig", path)
	case err != nil:
		return nil, fmt.Errorf("read credentials %s: %w", path, err)
	}
	return cfg, nil
}
