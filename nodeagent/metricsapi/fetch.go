package metricsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// maxSummary bounds an answer: a pod of one container is about 1 KiB.
const maxSummary = 16 << 20

// Fetcher asks nodes over HTTPS, as Config.Fetch: the host of a URL is the name
// of its node. The client knows where that is and that it is the one who answers,
// and shows a certificate that nodes let in.
func Fetcher(client *http.Client) func(ctx context.Context, node *corev1.Node) (*statsapi.Summary, error) {
	return func(ctx context.Context, node *corev1.Node) (*statsapi.Summary, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address(node)+"/stats/summary?only_cpu_and_memory=true", nil)
		if err != nil {
			return nil, fmt.Errorf("measure node %s: %w", node.Name, err)
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("measure node %s: %w", node.Name, err)
		}
		defer res.Body.Close()
		body := io.LimitReader(res.Body, maxSummary)
		if res.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(body, 1<<10)) // the status says enough
			return nil, fmt.Errorf("measure node %s: it answered %s: %s", node.Name, res.Status, text)
		}
		s := &statsapi.Summary{}
		if err := json.NewDecoder(body).Decode(s); err != nil {
			return nil, fmt.Errorf("measure node %s: %w", node.Name, err)
		}
		if s.Node.CPU == nil {
			return nil, fmt.Errorf("measure node %s: its answer has no figures", node.Name)
		}
		return s, nil
	}
}

// address is where a node's agent listens: the client knows the nodes by name.
func address(node *corev1.Node) string {
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = 10250
	}
	return net.JoinHostPort(node.Name, strconv.Itoa(port))
}
