package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/imagecmd"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/reconciler/cli"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build, configure and look into images of the node's operating system",
		Long: `Image makes and handles what nodes start from: a disk with a read-only root file
system that the kernel verifies block by block, without a shell, a package manager
or a login. What a machine does is in Git; who it is, in one file:

  writ image build --version 1.2.3                 make disk and bundle
  writ image configure disk.raw node.yaml          say who the machine is
  writ image verify out/                           prove what was built
  writ image inspect disk.raw                      see what is in it

A bundle is what running nodes are updated with: name it in a NodeImage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imageBuild(), imageUpdate(), imageConfigure(), imageVerify(), imageInspect())
	return cmd
}

func imageConfigure() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "configure DISK node.yaml",
		Short: "Write into a disk who its machine is",
		Long: `Configure checks a node.yaml and writes it to the EFI system partition of a disk:
an unpacked image (.raw) or a device that one was written to. The machine takes
it at its next start, keeps it, and erases what is secret in it there.

The first machine of a cluster:            One that joins:

  role: server                               role: agent
  repository:                                server: https://192.0.2.7:6443
    url: https://git.example.com/c.git       token: abcdef.0123456789abcdef
    username: reader                         caHashes: [sha256:...]
    password: ...
  network:                                 (token and hash: 'writ token create')
    interfaces:
      - match: {name: "en*"}
        addresses: [192.0.2.7/24]
        gateway: 192.0.2.1
        dns: [192.0.2.1]

Without network every Ethernet interface asks by DHCP. Other fields: nodeName,
hostname, nodeIP, listen, externalURL, timeServers, imageKeys, generation.
Exit code 0: written, 1: findings, 2: wrong usage.`,
		Example: "  zstd -d writ-1.2.3-amd64.raw.zst -o disk.raw\n  writ image configure disk.raw node.yaml",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			n, found, err := imagecmd.Configure(a[0], a[1])
			if err != nil {
				return err
			}
			return writeConfigured(cmd.OutOrStdout(), output == "json", a, n, found)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func writeConfigured(w io.Writer, asJSON bool, a []string, n config.Node, found []v1alpha1.Finding) error {
	if asJSON || len(found) > 0 {
		if err := cli.WriteFindings(w, found, cli.Options{JSON: asJSON}); err != nil {
			return err
		}
		return findings(len(found) > 0)
	}
	fmt.Fprintf(w, "%s: its machine will be a node of role %s, as %s says.\n", a[0], n.Role, a[1])
	return nil
}

func imageVerify() *cobra.Command {
	var output, keys, digest string
	cmd := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Prove disks, bundles, and directories of a build",
		Long: `Verify proves of a disk that every block of its root file system belongs to the
root hash in its kernel; of a bundle that its manifest is signed by one of --keys,
or its digest the one given, and that its files are what the manifest says; of a
directory that its files are what SHA256SUMS says and, with --keys, that this is
signed. Keys are a file of allowed signers, as ssh-keygen(1) has them:

  release@example.com ssh-ed25519 AAAA...`,
		Example: "  writ image verify --keys signers bin/image\n  writ image verify disk.raw",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			t := imagecmd.Trust{Digest: digest}
			if keys != "" {
				b, err := os.ReadFile(keys)
				if err != nil {
					return fmt.Errorf("read --keys: %w", err)
				}
				if t.Keys, err = bundle.ParseKeys(keys, b); err != nil {
					return err
				}
			}
			var proofs []*imagecmd.Proof
			for _, path := range a {
				p, err := imagecmd.Verify(path, t)
				if err != nil {
					return err
				}
				proofs = append(proofs, p)
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(proofs)
			}
			for _, p := range proofs {
				for _, s := range p.Proven {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", p.Path, s)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&keys, "keys", "", "`file` of keys, one of which must have signed")
	cmd.Flags().StringVar(&digest, "digest", "", "`digest` that a bundle must have, sha256:...")
	outputFlag(cmd, &output)
	return cmd
}

func imageInspect() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what is in a disk or a bundle",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			r, err := imagecmd.Inspect(a[0])
			if err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return r.Write(cmd.OutOrStdout())
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
