package custom

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/writ-os/writ/schema"
)

// Version is what a definition says of one version. Its methods are safe for
// concurrent use.
type Version struct {
	d          *definition
	spec       *apiextensionsv1.CustomResourceDefinitionVersion
	apiVersion string

	mu   sync.Mutex
	used time.Time
	made made
}

// made is what has been made of the schema so far; nil is not yet.
type made struct {
	shape  *shape
	checks *checks
}

// shape is the schema as pruning and defaulting walk it.
type shape struct {
	s   *structural.Structural // nil: there is no schema
	err error
}

// checks are the validators of a schema.
type checks struct {
	whole, status validation.SchemaValidator
	rules         *cel.Validator // nil: no rules
	err           error
}

var _ schema.Custom = (*Version)(nil)

func newVersion(d *definition, v *apiextensionsv1.CustomResourceDefinitionVersion) *Version {
	return &Version{d: d, spec: v, apiVersion: d.def.Spec.Group + "/" + v.Name}
}

// UID implements schema.Custom.
func (v *Version) UID() string { return string(v.d.def.UID) }

// ScalePaths implements schema.Custom.
func (v *Version) ScalePaths() (spec, status, selector string) {
	if v.spec.Subresources == nil || v.spec.Subresources.Scale == nil {
		return "", "", ""
	}
	s := v.spec.Subresources.Scale
	if s.LabelSelectorPath != nil {
		selector = *s.LabelSelectorPath
	}
	return s.SpecReplicasPath, s.StatusReplicasPath, selector
}

// Terminating says that the definition is being deleted, so that no object may
// be created.
func (v *Version) Terminating() bool {
	for _, c := range v.d.def.Status.Conditions {
		if c.Type == apiextensionsv1.Terminating {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// Definition returns the definition; nobody may change it.
func (v *Version) Definition() *apiextensionsv1.CustomResourceDefinition { return v.d.def }

// release drops what was made and not used since, and says whether it did.
func (v *Version) release(since time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.used.Before(since) {
		return false
	}
	v.made = made{}
	return true
}

// schema is the schema in the form that upstream's packages take; nil without
// one. It is made anew each time: nothing keeps it.
func (v *Version) schema() (*apiextensions.JSONSchemaProps, error) {
	if v.spec.Schema == nil || v.spec.Schema.OpenAPIV3Schema == nil {
		return nil, nil
	}
	out := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.spec.Schema, out, nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s, %s: %w", v.d.def.Name, v.spec.Name, err)
	}
	return out.OpenAPIV3Schema, nil
}

// shape returns the schema as a tree.
func (v *Version) shape() *shape {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = time.Now()
	return v.shapeLocked()
}

func (v *Version) shapeLocked() *shape {
	if v.made.shape == nil {
		v.made.shape = v.makeShape()
	}
	return v.made.shape
}

func (v *Version) makeShape() *shape {
	props, err := v.schema()
	if err != nil || props == nil {
		return &shape{err: err}
	}
	s, err := structural.NewStructural(props)
	if err != nil {
		if v.d.def.Spec.PreserveUnknownFields { // a definition from before schemas had to be structural
			return &shape{}
		}
		return &shape{err: fmt.Errorf("schema of %s, %s is not structural: %w", v.d.def.Name, v.spec.Name, err)}
	}
	s = s.DeepCopy() // defaults are shared with the definition
	if !v.d.def.Spec.PreserveUnknownFields {
		if err := defaulting.PruneDefaults(s); err != nil {
			return &shape{err: fmt.Errorf("prune the defaults of %s, %s: %w", v.d.def.Name, v.spec.Name, err)}
		}
	}
	return &shape{s: s}
}

// checks returns the tree and the validators.
func (v *Version) checks() (*structural.Structural, *checks) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = time.Now()
	sh := v.shapeLocked()
	if v.made.checks == nil {
		v.made.checks = v.makeChecks(sh)
	}
	return sh.s, v.made.checks
}

func (v *Version) makeChecks(sh *shape) *checks {
	if sh.err != nil {
		return &checks{err: sh.err}
	}
	props, err := v.schema()
	if err != nil {
		return &checks{err: err}
	}
	c := &checks{}
	if c.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return &checks{err: fmt.Errorf("make a validator of %s, %s: %w", v.d.def.Name, v.spec.Name, err)}
	}
	if props != nil {
		if status, ok := props.Properties["status"]; ok {
			if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return &checks{err: fmt.Errorf("make a validator of the status of %s, %s: %w", v.d.def.Name, v.spec.Name, err)}
			}
		}
	}
	if sh.s != nil {
		c.rules = cel.NewValidator(sh.s, true, celconfig.PerCallLimit)
	}
	return c
}
