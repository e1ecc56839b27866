package token

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Where the documents of this file are served.
const (
	OpenIDConfigurationPath = "/.well-known/openid-configuration"
	JWKSPath                = "/openid/v1/jwks"
)

// JWKS returns the public key as a JSON Web Key Set, for relying parties that
// check tokens of the cluster by themselves.
func (a *Authority) JWKS() ([]byte, error) {
	point, err := a.cfg.Key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fmt.Errorf("encode public key of tokens: %w", err)
	}
	half := (len(point) - 1) / 2
	b64 := base64.RawURLEncoding.EncodeToString
	type jwk struct {
		Use string `json:"use"`
		Kty string `json:"kty"`
		Kid string `json:"kid"`
		Crv string `json:"crv"`
		Alg string `json:"alg"`
		X   string `json:"x"`
		Y   string `json:"y"`
	}
	return json.Marshal(map[string][]jwk{"keys": {{
		Use: "sig", Kty: "EC", Kid: a.keyID, Crv: "P-256", Alg: "ES256",
		X: b64(point[1 : 1+half]), Y: b64(point[1+half:]),
	}}})
}

// OpenIDConfiguration returns the discovery document. jwksURI is where JWKS is
// served, "https://10.244.0.1:6443/openid/v1/jwks".
func (a *Authority) OpenIDConfiguration(jwksURI string) ([]byte, error) {
	return json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		SigningAlgs   []string `json:"id_token_signing_alg_values_supported"`
	}{a.cfg.Issuer, jwksURI, []string{"id_token"}, []string{"public"}, []string{"ES256"}})
}
