package update

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
)

// Config is everything that an Updater needs from outside.
type Config struct {
	NodeName string
	// MachineID of this machine; default /etc/machine-id. Orders to a Node that is
	// another machine of the same name are not followed.
	MachineID string
	Client    client.Writer
	// Cache holds at least the Node of this machine.
	Cache  client.Cache
	Images Images
	Slots  *slot.Slots
	// Dir keeps the download and the record: it must outlive a reboot.
	Dir string
	// Keys, of which one must have signed a bundle. Without any no image is taken:
	// whoever may write NodeImages and NodePools would be root of the machine.
	Keys bundle.Keys
	// Unsigned has images without a signature taken while there are no Keys.
	Unsigned bool
	// Arch of this machine; default that of the program.
	Arch string
	// HTTP fetches bundles. Default: a client without a limit of its own.
	HTTP *http.Client
	// Healthy says why the node is not well; nil when it is.
	Healthy func(context.Context) error
	// Settle is how long a system must be well to be good; default 30 s.
	Settle time.Duration
	// HealthTimeout is how long after its boot a system may take until it is
	// well; default 10 min.
	HealthTimeout time.Duration
	// Boot is when the machine was started. Default: what the kernel says.
	Boot time.Time
	// Reboot reboots the machine, in order. It may return before that happens.
	Reboot func(ctx context.Context, reason string) error
	Log    *slog.Logger

	// asked is told when a turn wants the next one, and says when it shall want
	// it. For tests.
	asked func(wait time.Duration) time.Duration
}
