package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

type csr = certificatesv1.CertificateSigningRequest

// CertificateSigningRequest is the judge of its kind.
var CertificateSigningRequest = &kind.Kind{
	Resource:      schema.ResourceFor[*csr](),
	Name:          func(string, bool) []string { return nil }, // upstream: any name
	PrepareUpdate: func(o, old schema.Object) { o.(*csr).Spec = old.(*csr).Spec },
	PrepareStatus: func(o, old schema.Object) {
		keepDecisions(o.(*csr), old.(*csr))
		stampConditions(o.(*csr), old.(*csr))
	},
	PrepareDoor: func(_ string, o, old schema.Object) {
		r, was := o.(*csr), old.(*csr)
		stampConditions(r, was)
		conditions := r.Status.Conditions
		r.Spec, r.Status = was.Spec, was.Status
		r.Status.Conditions = conditions
	},
	Validate: func(o schema.Object) field.ErrorList { return csrErrors(o.(*csr), nil) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return csrUpdateErrors(o.(*csr), old.(*csr), "")
	},
	ValidateDoor: func(sub string, o, old schema.Object) field.ErrorList {
		return append(csrErrors(o.(*csr), old.(*csr)), csrUpdateErrors(o.(*csr), old.(*csr), sub)...)
	},
}

// keepDecisions restores approvals and denials when a change of the status has
// as many of them as before. One that has not is refused later.
func keepDecisions(r, old *csr) {
	r.Status.Conditions = slices.Clone(r.Status.Conditions)
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		is, was := conditionIndexes(r, t), conditionIndexes(old, t)
		if len(is) != len(was) {
			continue
		}
		for i := range is {
			r.Status.Conditions[is[i]] = old.Status.Conditions[was[i]]
		}
	}
}

func conditionIndexes(r *csr, t certificatesv1.RequestConditionType) []int {
	var out []int
	for i, c := range r.Status.Conditions {
		if c.Type == t {
			out = append(out, i)
		}
	}
	return out
}

// stampConditions gives conditions the times that they lack.
func stampConditions(r, old *csr) {
	at := metav1.Now()
	r.Status.Conditions = slices.Clone(r.Status.Conditions)
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = at
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = at
		for _, was := range old.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}

var keyUsages = []string{
	"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only",
	"digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
	"key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
}

// legacySigner was what requests of v1beta1 got that named none.
const legacySigner = "kubernetes.io/legacy-unknown"

// minCertificate is the shortest life that can be asked for, in seconds.
const minCertificate = 600

// csrErrors checks a request. What is stored already (old) may have faults that
// a new one may not have.
func csrErrors(r, old *csr) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if err := checkRequest(r.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(at.Child("request"), r.Spec.Request, fmt.Sprintf("%v", err)))
	}
	if len(r.Spec.Usages) == 0 {
		errs = append(errs, field.Required(at.Child("usages"), ""))
	}
	if old == nil {
		for i, u := range r.Spec.Usages {
			if !slices.Contains(keyUsages, string(u)) {
				errs = append(errs, field.NotSupported(at.Child("usages").Index(i), u, keyUsages))
			}
		}
		for i, u := range r.Spec.Usages {
			if slices.Contains(r.Spec.Usages[:i], u) {
				errs = append(errs, field.Duplicate(at.Child("usages").Index(i), u))
			}
		}
	}
	if r.Spec.SignerName == legacySigner && (old == nil || old.Spec.SignerName != legacySigner) {
		errs = append(errs, field.Invalid(at.Child("signerName"), r.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signerNameErrors(r.Spec.SignerName, at.Child("signerName"))...)
	}
	if s := r.Spec.ExpirationSeconds; s != nil && *s < minCertificate {
		errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, csrConditionErrors(r, field.NewPath("status", "conditions"))...)
	if old == nil || !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		if err := checkCertificates(r.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	return errs
}

// checkRequest reads a PKCS#10 request in PEM and checks that who made it has
// the key.
func checkRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

// checkCertificates reads a chain in PEM; none is none.
func checkCertificates(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	blocks := 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		blocks++
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certs) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		data = rest
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// csrConditionErrors: a decision is True or absent, and there is one.
func csrConditionErrors(r *csr, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range r.Status.Conditions {
		if c.Type == "" {
			errs = append(errs, field.Required(at.Index(i).Child("type"), ""))
		}
		allowed := []string{"False", "True", "Unknown"}
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			allowed = []string{string(corev1.ConditionTrue)}
		}
		switch {
		case c.Status == "":
			errs = append(errs, field.Required(at.Index(i).Child("status"), ""))
		case !slices.Contains(allowed, string(c.Status)):
			errs = append(errs, field.NotSupported(at.Index(i).Child("status"), c.Status, allowed))
		}
		if c.Type == certificatesv1.CertificateApproved && seen[certificatesv1.CertificateDenied] ||
			c.Type == certificatesv1.CertificateDenied && seen[certificatesv1.CertificateApproved] {
			errs = append(errs, field.Invalid(at, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

// csrUpdateErrors: decisions are final, and taken at the approval door only; a
// certificate is set once, at the status door only.
func csrUpdateErrors(r, old *csr, sub string) field.ErrorList {
	at := field.NewPath("status", "conditions")
	var errs field.ErrorList
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		if len(conditionIndexes(r, t)) < len(conditionIndexes(old, t)) {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	if sub != "approval" {
		for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
			is, was := conditionsOf(r, t), conditionsOf(old, t)
			switch {
			case len(is) < len(was):
			case len(is) > len(was):
				errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not add a condition of type %q", t)))
			case !apiequality.Semantic.DeepEqual(was, is):
				errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, diff.Diff(was, is))))
			}
		}
	}
	if bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		return errs
	}
	switch at := field.NewPath("status", "certificate"); {
	case sub != "status":
		errs = append(errs, field.Forbidden(at, "updates may not set certificate content"))
	case len(old.Status.Certificate) > 0:
		errs = append(errs, field.Forbidden(at, "updates may not modify existing certificate content"))
	}
	return errs
}

func conditionsOf(r *csr, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var out []certificatesv1.CertificateSigningRequestCondition
	for _, i := range conditionIndexes(r, t) {
		out = append(out, r.Status.Conditions[i])
	}
	return out
}

// signerNameErrors wants a domain of two labels or more, and a path (upstream:
// pkg/apis/core/validation, ValidateSignerName).
func signerNameErrors(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, path, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if limit := validation.DNS1123SubdomainMaxLength; len(domain) > limit {
		errs = append(errs, field.TooLong(at, "", limit))
	}
	errs = append(errs, labelErrors(domain, at, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, labelErrors(path, at, validation.IsDNS1123Subdomain)...)
	if limit := 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2; len(name) > limit {
		errs = append(errs, field.TooLong(at, "", limit))
	}
	return errs
}

// labelErrors checks what stands between dots, up to the first fault.
func labelErrors(text string, at *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, label := range strings.Split(text, ".") {
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}
