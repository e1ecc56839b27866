package oidc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
)

// maxFile bounds an AuthenticationConfiguration.
const maxFile = 4 << 20

// Decode reads an AuthenticationConfiguration (apiserver.config.k8s.io/v1,
// v1beta1, v1alpha1) in YAML or JSON. Unknown and duplicate fields are errors.
func Decode(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many: the limit is %d", len(data), maxFile)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	o, err := runtime.Decode(codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	c, ok := o.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", o)
	}
	return c, nil
}

// configuration says in the words of the file what flags say.
func (f *Flags) configuration() (*apiserver.AuthenticationConfiguration, error) {
	if f.IssuerURL == "" || f.ClientID == "" {
		return nil, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	claim := f.UsernameClaim
	if claim == "" {
		claim = "sub"
	}
	prefix := f.UsernamePrefix
	switch {
	case prefix == "" && claim != "email":
		prefix = f.IssuerURL + "#"
	case prefix == "-":
		prefix = ""
	}
	j := apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: f.IssuerURL, Audiences: []string{f.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}},
	}
	if f.GroupsClaim != "" {
		groupsPrefix := f.GroupsPrefix
		j.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: &groupsPrefix}
	}
	if f.CAFile != "" {
		ca, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA of the OIDC issuer: %w", err)
		}
		j.Issuer.CertificateAuthority = string(ca)
	}
	for _, k := range slices.Sorted(maps.Keys(f.RequiredClaims)) {
		j.ClaimValidationRules = append(j.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: k, RequiredValue: f.RequiredClaims[k]})
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{j}}, nil
}
