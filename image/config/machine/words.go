package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/image/config"
)

// waiting says why the machine does not go on, and what to do.
func waiting(c config.Choice) string {
	var b strings.Builder
	if c.Found {
		fmt.Fprintf(&b, "the configuration in %s has mistakes:\n", c.Where)
		for _, f := range c.Findings {
			f.File = config.Name
			fmt.Fprintf(&b, "  %s\n", config.Say(f))
		}
		b.WriteString("Nothing is started. Correct it and start the machine again, or attach a volume\n")
		b.WriteString("labelled \"config\" with a correct node.yaml of a higher generation.\n")
		locked(&b, c)
		return b.String()
	}
	b.WriteString(`this machine does not know who it is yet. Give it a node.yaml, in any of these ways:
  attach a stick, disk or CD labelled "config" or "cidata" that has node.yaml on it;
    the machine sees it at once
  write it into the image before the start: writ image configure DISK node.yaml
  copy it to /writ/node.yaml of this disk's EFI system partition, and start again
  virtual machines: the SMBIOS string io.systemd.credential:node.config=...
    (qemu: -smbios type=11,value=io.systemd.credential.binary:node.config=BASE64)
The shortest one of a first machine is "role: server". One that joins has
"role: agent" or "role: server", "server: https://FIRST:6443", and the token and
caHashes that 'writ token create' prints.
`)
	return b.String()
}

// locked says which files do not count on a machine that is encrypted.
func locked(b *strings.Builder, c config.Choice) {
	for _, s := range c.Locked {
		fmt.Fprintf(b, "%s does not count: /var of this machine is encrypted, and a new configuration needs the encryption.recoveryKey of the one that it has kept\n", s.Where)
	}
}

// started says what the machine is now.
func started(c config.Choice, p config.Plan, steps []config.Step) string {
	var b strings.Builder
	n := c.Node
	fmt.Fprintf(&b, "this machine is %s, ", p.Hostname)
	switch {
	case n.Role == config.Agent:
		fmt.Fprintf(&b, "a node of the cluster at %s\n", n.Server)
	case !n.First():
		fmt.Fprintf(&b, "a server of the cluster that has one at %s\n", n.Server)
	case n.Repository == nil:
		b.WriteString("a server that keeps the cluster's repository itself\n")
	default:
		fmt.Fprintf(&b, "a server that follows %s\n", n.Repository.URL)
	}
	if c.Kind == config.Kept {
		fmt.Fprintf(&b, "it was told so before (%s)\n", c.Where)
	} else {
		fmt.Fprintf(&b, "it is told so by %s, and keeps that in /var/%s\n", c.Where, config.VarPath)
	}
	if slices.ContainsFunc(steps, func(s config.Step) bool { return s.Op == config.Overwrite }) {
		b.WriteString("what is secret in it is erased from the EFI system partition\n")
	}
	for _, text := range p.Warnings {
		b.WriteString(text + "\n")
	}
	locked(&b, c)
	for _, s := range c.Ignored {
		fmt.Fprintf(&b, "%s says something else and does not count: give it a higher generation than %d if it should\n", s.Where, n.Generation)
	}
	return b.String()
}

// plain says that /var is not what the configuration asks for.
func plain(c config.Choice, err error) string {
	if err != nil {
		return fmt.Sprintf("the configuration in %s asks for a /var that is encrypted, and whether it is cannot be seen:\n  %v\nNothing is started; it is tried again.", c.Where, err)
	}
	return fmt.Sprintf(`the configuration in %s asks for a /var that is encrypted; that of this machine
is not. It is made so by the first start of a disk that 'writ image configure' has written
the configuration to, and by no other: write the image and the configuration to the disk again.
Nothing is started.`, c.Where)
}

// failed says that the machine could not keep what it was told.
func failed(c config.Choice, err error) string {
	return fmt.Sprintf("the configuration in %s is good, but this machine cannot keep it:\n  %v\nNothing is started; it is tried again.", c.Where, err)
}
