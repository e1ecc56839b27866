package oidc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
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

// check finds what cannot be before a file is read.
func (cfg *Config) check() error {
	switch {
	case cfg.File != "" && cfg.Flags != nil:
		return errors.New("OIDC is configured by flags and by an authentication configuration file: use one of them")
	case cfg.File == "" && cfg.Flags == nil:
		return errors.New("OIDC needs an issuer or an authentication configuration file")
	}
	return nil
}

// files are those that the configuration is in.
func (cfg *Config) files() []string {
	switch {
	case cfg.File != "":
		return []string{cfg.File}
	case cfg.Flags.CAFile != "":
		return []string{cfg.Flags.CAFile}
	}
	return nil
}

// name is that of the files in metrics.
func (cfg *Config) name() string {
	if cfg.File != "" {
		return "authentication_config"
	}
	return "oidc_ca"
}

// parse reads the content of the files, and says which signatures are good.
func (cfg *Config) parse(data [][]byte) (*apiserver.AuthenticationConfiguration, []string, error) {
	if cfg.File != "" {
		c, err := Decode(data[0])
		if err != nil {
			return nil, nil, fmt.Errorf("read authentication configuration %s: %w", cfg.File, err)
		}
		return c, oidc.AllValidSigningAlgorithms(), nil
	}
	var ca []byte
	if len(data) > 0 {
		ca = data[0]
		if len(ca) == 0 {
			return nil, nil, fmt.Errorf("read CA of the OIDC issuer: %s is empty", cfg.Flags.CAFile)
		}
	}
	c, err := cfg.Flags.configuration(ca)
	if err != nil {
		return nil, nil, err
	}
	algs := cfg.Flags.SigningAlgs
	if len(algs) == 0 {
		algs = []string{"RS256"}
	}
	return c, algs, nil
}

// configuration says in the words of the file what flags say.
func (f *Flags) configuration(ca []byte) (*apiserver.AuthenticationConfiguration, error) {
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
	j.Issuer.CertificateAuthority = string(ca)
	for _, k := range slices.Sorted(maps.Keys(f.RequiredClaims)) {
		j.ClaimValidationRules = append(j.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: k, RequiredValue: f.RequiredClaims[k]})
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{j}}, nil
}
