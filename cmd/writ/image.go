package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

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

  writ image keys secureboot                       make keys of Secure Boot
  writ image build --version 1.2.3                 make disk and bundle
  writ image configure disk.raw node.yaml          say who the machine is
      --kubeconfig admin.kubeconfig                and who its administrator
  writ image verify out/                           prove what was built
  writ image inspect disk.raw                      see what is in it

A bundle is what running nodes are updated with: name it in a NodeImage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imageBuild(), imageKeys(), imageUpdate(), imageConfigure(), imageVerify(), imageInspect())
	return cmd
}

func imageConfigure() *cobra.Command {
	var output string
	var access imagecmd.Access
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
  token: abcdef.0123456789abcdef           or as one more server:
  network:
    interfaces:                              role: server
      - match: {name: "en*"}                 server: https://192.0.2.7:6443
        addresses: [192.0.2.7/24]            token: fedcba.9876543210fedcba
        gateway: 192.0.2.1                   caHashes: [sha256:...]
        dns: [192.0.2.1]

Nobody logs in to a machine with this image. So make the credential of the
administrator with the disk of the first server: --kubeconfig makes the authority
of the cluster, writes it to the disk beside the node.yaml, and a kubeconfig of
it, good for a year, to a file of yours. It prints the hash for the caHashes of
the other machines: all disks can be written before any machine starts. To have
the authority yourself, write it into the node.yaml:

  authority:
    certificate: |
      -----BEGIN CERTIFICATE-----
      ...
    key: |
      -----BEGIN EC PRIVATE KEY-----
      ...

The token of the first server is one by which agents join it for a day after it
began; its form is abcdef.0123456789abcdef, and it should be drawn at random.
Other tokens, and those of servers, are made by 'writ token create' while it runs.

Without network every Ethernet interface asks by DHCP. Other fields: nodeName,
hostname, nodeIP, listen, externalURL, timeServers, imageKeys, unsignedImages, generation, and
encryption with a recoveryKey: /var is made a volume whose key the TPM keeps.
Exit code 0: written, 1: findings, 2: wrong usage.`,
		Example: "  zstd -d writ-1.2.3-amd64.raw.zst -o disk.raw\n  writ image configure disk.raw node.yaml\n  writ image configure disk.raw first.yaml --kubeconfig admin.kubeconfig",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			w := cmd.OutOrStdout()
			if access.Kubeconfig == "" {
				if access.Server != "" {
					return usageError{errors.New("--server is the URL in --kubeconfig: give that too")}
				}
				n, found, err := imagecmd.Configure(a[0], a[1])
				if err != nil {
					return err
				}
				return writeConfigured(w, output == "json", a, n, found)
			}
			first, found, err := imagecmd.ConfigureFirst(a[0], a[1], access)
			switch {
			case err != nil:
				return err
			case output == "json" && len(found) == 0:
				return json.NewEncoder(w).Encode(first)
			}
			err = writeConfigured(w, output == "json", a, first.Node, found)
			if err == nil {
				writeFirst(w, access.Kubeconfig, first)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&access.Kubeconfig, "kubeconfig", "", "`file` to write, of an administrator of the cluster that this first server begins")
	cmd.Flags().StringVar(&access.Server, "server", "", "`URL` of the server in --kubeconfig; default: externalURL, or the address and port in node.yaml")
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

func writeFirst(w io.Writer, kubeconfig string, first imagecmd.First) {
	if first.Made {
		fmt.Fprintln(w, "It has the authority of the cluster, which was made: keep the disk from others until it has started.")
	}
	fmt.Fprintf(w, "%s: administrator of %s until %s.\n", kubeconfig, first.Server, first.Until.UTC().Format(time.DateOnly))
	fmt.Fprintf(w, "The other machines:\n\n  server: %s\n  caHashes: [%s]\n", cmp.Or(first.Node.URL(), first.Server), first.CAHash)
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
