// Package mark is how a machine knows, before it can read its configuration, that
// this asks for an encrypted /var. The initrd reads it: nothing is imported.
package mark

const (
	// CredentialPath is the mark on the EFI system partition, which the boot stub
	// hands to the initrd; see systemd-stub(7). It is no secret.
	CredentialPath = "loader/credentials/writ.encryption.cred"
	// Asked is what it says where encryption is asked for; NotAsked takes it back.
	Asked, NotAsked = "tpm2\n", "no\n"
	// Path is what the initrd makes of it for the system.
	Path = "/run/writ/encryption"
)
