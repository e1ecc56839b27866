package core

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// maxSecretSize bounds the content of a Secret or a ConfigMap.
const maxSecretSize = corev1.MaxSecretSize

const immutableWhenSet = "field is immutable when `immutable` is set"

// Secret is the judge of its kind.
var Secret = &kind.Kind{
	Resource:     schema.ResourceFor[*corev1.Secret](),
	OwnImmutable: true, OwnSchema: true,
	Normalize:      func(o schema.Object) { mergeStringData(o.(*corev1.Secret)) },
	PrepareCreate:  func(o schema.Object) { mergeStringData(o.(*corev1.Secret)) },
	PrepareUpdate:  func(o, _ schema.Object) { mergeStringData(o.(*corev1.Secret)) },
	ValidateCreate: func(o schema.Object) field.ErrorList { return secretErrors(o.(*corev1.Secret)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return append(secretUpdateErrors(o.(*corev1.Secret), old.(*corev1.Secret)), secretErrors(o.(*corev1.Secret))...)
	},
}

// ConfigMap is the judge of its kind.
var ConfigMap = &kind.Kind{
	Resource:     schema.ResourceFor[*corev1.ConfigMap](),
	OwnImmutable: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return configMapErrors(o.(*corev1.ConfigMap)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return append(configMapUpdateErrors(o.(*corev1.ConfigMap), old.(*corev1.ConfigMap)), configMapErrors(o.(*corev1.ConfigMap))...)
	},
}

// mergeStringData moves what was written as text to where it is kept.
func mergeStringData(s *corev1.Secret) {
	if len(s.StringData) == 0 {
		return
	}
	data := maps.Clone(s.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	for k, v := range s.StringData {
		data[k] = []byte(v)
	}
	s.Data, s.StringData = data, nil
}

func secretErrors(s *corev1.Secret) field.ErrorList {
	at := field.NewPath("data")
	errs, total := keyErrors(at, s.Data)
	if total > maxSecretSize {
		errs = append(errs, field.TooLong(at, "", maxSecretSize))
	}
	require := func(key string) {
		if _, ok := s.Data[key]; !ok {
			errs = append(errs, field.Required(at.Key(key), ""))
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey)
		require(corev1.TLSPrivateKeyKey)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, jsonErrors(at, s.Data, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeDockercfg:
		errs = append(errs, jsonErrors(at, s.Data, corev1.DockerConfigKey)...)
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(at.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			require(corev1.BasicAuthUsernameKey)
			require(corev1.BasicAuthPasswordKey)
		}
	}
	return errs
}

// keyErrors checks keys and counts the bytes of their values.
func keyErrors[V ~string | ~[]byte](at *field.Path, data map[string]V) (errs field.ErrorList, size int) {
	for _, k := range slices.Sorted(maps.Keys(data)) {
		for _, msg := range validation.IsConfigMapKey(k) {
			errs = append(errs, field.Invalid(at.Key(k), k, msg))
		}
		size += len(data[k])
	}
	return errs, size
}

// jsonErrors wants a key that holds an object in JSON, and does not show it.
func jsonErrors(at *field.Path, data map[string][]byte, key string) field.ErrorList {
	value, ok := data[key]
	if !ok {
		return field.ErrorList{field.Required(at.Key(key), "")}
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(at.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func secretUpdateErrors(s, old *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	if s.Type != old.Type {
		errs = append(errs, field.Invalid(field.NewPath("type"), s.Type, valid.Immutable))
	}
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	errs = append(errs, keepsImmutable(s.Immutable)...)
	return append(errs, keeps("data", s.Data, old.Data)...)
}

func configMapErrors(c *corev1.ConfigMap) field.ErrorList {
	at := field.NewPath("data")
	errs, total := keyErrors(at, c.Data)
	for _, k := range slices.Sorted(maps.Keys(c.Data)) {
		if _, twice := c.BinaryData[k]; twice {
			errs = append(errs, field.Invalid(at.Key(k), k, "duplicate of key present in binaryData"))
		}
	}
	more, binary := keyErrors(field.NewPath("binaryData"), c.BinaryData)
	errs = append(errs, more...)
	if total+binary > maxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxSecretSize))
	}
	return errs
}

func configMapUpdateErrors(c, old *corev1.ConfigMap) field.ErrorList {
	if old.Immutable == nil || !*old.Immutable {
		return nil
	}
	errs := keepsImmutable(c.Immutable)
	errs = append(errs, keeps("data", c.Data, old.Data)...)
	return append(errs, keeps("binaryData", c.BinaryData, old.BinaryData)...)
}

func keepsImmutable(is *bool) field.ErrorList {
	if is != nil && *is {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), immutableWhenSet)}
}

func keeps(name string, is, was any) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(name), immutableWhenSet)}
}
