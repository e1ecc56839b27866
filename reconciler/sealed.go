package reconciler

import (
	"fmt"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// keys are those that open what is encrypted in the repository; none where the
// Repository names none.
func (w World) keys() (*secret.Keyring, []v1alpha1.Finding) {
	if w.Spec == nil || w.Spec.Decryption == nil || w.Live == nil {
		return nil, nil
	}
	name := w.Spec.Decryption.Secret
	missing := func(message string) []v1alpha1.Finding {
		return []v1alpha1.Finding{{Rule: secret.RuleMissingKey, Object: "Secret/" + name, Field: "spec.decryption.secret", Message: message,
			Hint: "create the Secret on the server, with age identities under names that end in .agekey and OpenPGP keys under names that end in .asc"}}
	}
	data := SecretData(w.Live, name)
	if data == nil {
		return nil, missing(fmt.Sprintf("the keys that open encrypted files are in the Secret %s, which is not there", name))
	}
	keys, err := secret.New(data)
	if err != nil {
		return nil, missing(err.Error())
	}
	return keys, nil
}

// Open reads encrypted files with keys, in memory: for who plans with keys of
// their own. What a plan says of the values is no more than without them.
func Open(keys *secret.Keyring) func(string, []byte) render.Opened { return opener(keys) }

// opener decrypts files in memory.
func opener(keys *secret.Keyring) func(string, []byte) render.Opened {
	return func(path string, data []byte) render.Opened {
		return opened(keys.Open(path, data), data, false)
	}
}

// locked refuses what is encrypted, for what is said of the keys.
func locked(missing []v1alpha1.Finding) func(string, []byte) render.Opened {
	return func(path string, data []byte) render.Opened {
		o := opened(secret.Mask(path, data), data, true)
		if o.Sealed {
			for _, f := range missing {
				f.File, f.Line = path, 1
				o.Findings = append(o.Findings, f)
			}
		}
		return o
	}
}

// Mask reads encrypted files without a key: values that mean nothing stand in
// the place of those that are encrypted. A file of which not even the shape can
// be seen is a finding: who read on would take what it declares for removed.
func Mask(path string, data []byte) render.Opened { return masker("")(path, data) }

// masker is Mask for a repository whose keys are in a Secret of the cluster; "":
// that is not known.
func masker(keys string) func(string, []byte) render.Opened {
	where := "the cluster opens it with the keys of spec.decryption.secret of the Repository"
	if keys != "" {
		where = "the cluster opens it with the keys of the Secret " + keys
	}
	return func(path string, data []byte) render.Opened {
		o := opened(secret.Mask(path, data), data, true)
		if o.Opaque {
			o.Findings = append(o.Findings, v1alpha1.Finding{File: path, Line: 1, Column: 1, Rule: secret.RuleMissingKey,
				Message: "the file is encrypted as a whole, and without its key nobody can say what it declares",
				Hint:    "name a file with its age identity by --age-key, SOPS_AGE_KEY_FILE or SOPS_AGE_KEY; " + where})
		}
		return o
	}
}

func opened(o *secret.Opened, data []byte, masked bool) render.Opened {
	if !o.Encrypted {
		return render.Opened{Data: data, Findings: o.Findings}
	}
	return render.Opened{Data: o.Plain, Sealed: true, Masked: masked, Opaque: o.Opaque, Findings: o.Findings, Redact: o.Redact}
}
