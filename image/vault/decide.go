package vault

import "errors"

// What the volume is known by.
const (
	// Partition is the name of its partition in the partition table.
	Partition = "var-crypt"
	// Mapping is its name once it is open, in /dev/mapper.
	Mapping = "var"
)

// Facts are what Decide decides by.
type Facts struct {
	// Device is the partition of the volume; "" while there is none.
	Device string
	// Plain is a partition for /var that is not encrypted; "" for none.
	Plain string
	// Open says that the volume is open.
	Open bool
	// RecoveryKey says that the machine has been told it.
	RecoveryKey bool
	// TPM says that the machine has one, of version 2, and that what started it was
	// measured into that.
	TPM bool
}

// Step is one program to run.
type Step string

// The steps, in the order in which they come.
const (
	Make        Step = "make"          // the partition, the volume, its file system
	OpenWithTPM Step = "open with TPM" // by the key that the TPM keeps
	OpenWithKey Step = "open with key" // by the recovery key
	Enrol       Step = "enrol"         // the TPM, in place of any before
)

// Decide says what opens /var. A machine that is told the recovery key binds the
// volume to its TPM anew: on the first start, after one that was cut short, and
// when the TPM does not give the key any more.
func Decide(f Facts) ([]Step, error) {
	switch {
	case f.Open:
		return nil, nil
	case f.Device == "" && f.Plain != "":
		return nil, errors.New("/var is to be encrypted, and " + f.Plain + " has one that is not, made before: write the image and its configuration to the disk again")
	case !f.TPM && !f.RecoveryKey:
		return nil, errors.New("/var is encrypted by a TPM, and this machine has none of version 2 that its firmware uses: switch it on in the firmware, or " + tell)
	case !f.TPM && f.Device == "":
		return nil, errors.New("/var is to be encrypted by a TPM, and this machine has none of version 2 that its firmware uses: switch it on in the firmware, or leave out encryption and write the image and its configuration to the disk again")
	case f.Device == "" && !f.RecoveryKey:
		return nil, errors.New("/var is to be encrypted, and no recovery key is on the EFI system partition: " + tell)
	case f.Device == "":
		return []Step{Make, OpenWithKey, Enrol}, nil
	case f.RecoveryKey && f.TPM:
		return []Step{OpenWithKey, Enrol}, nil
	case f.RecoveryKey:
		return []Step{OpenWithKey}, nil
	}
	return []Step{OpenWithTPM}, nil
}

// tell is what people do whose machine needs the recovery key.
const tell = "write the node.yaml of this machine, with encryption.recoveryKey and a higher generation, to the disk by 'writ image configure', and start again"
