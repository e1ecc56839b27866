#!/bin/sh
# Makes the fixtures anew with the real tools: sops, age, age-keygen, gpg and
# ssh-keygen must be in the PATH. The keys are made here for nothing else.
# NAME.plain.EXT is what was encrypted, NAME.EXT the file, NAME.out.EXT what
# sops itself decrypts it to.
set -eu
cd "$(dirname "$0")"
rm -rf keys fixtures
mkdir keys fixtures
home=$(mktemp -d)
trap 'gpgconf --homedir "$home" --kill all; rm -rf "$home"' EXIT
export GNUPGHOME="$home" HOME="$home"

age-keygen -o keys/one.agekey 2>/dev/null
age-keygen -o keys/other.agekey 2>/dev/null
ssh-keygen -q -t ed25519 -N '' -C test -f keys/ssh.agekey
for n in one other; do
	gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-gen-key "$n@example.org" rsa2048 encrypt,sign never 2>/dev/null
	gpg --batch --quiet --pinentry-mode loopback --passphrase '' --armor --export-secret-keys "$n@example.org" >"keys/$n.asc"
done
gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-gen-key "curve@example.org" ed25519 sign never 2>/dev/null
fpr() { gpg --list-keys --with-colons "$1" | awk -F: '$1 == "fpr" { print $10; exit }'; }
gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-add-key "$(fpr curve@example.org)" cv25519 encr never 2>/dev/null
gpg --batch --quiet --pinentry-mode loopback --passphrase '' --armor --export-secret-keys curve@example.org >keys/curve.asc
gpg --batch --quiet --pinentry-mode loopback --passphrase secret --quick-gen-key "locked@example.org" rsa2048 encrypt,sign never 2>/dev/null
gpg --batch --quiet --pinentry-mode loopback --passphrase secret --armor --export-secret-keys locked@example.org >keys/locked.asc

recipient=$(age-keygen -y keys/one.agekey)
other=$(age-keygen -y keys/other.agekey)
export SOPS_AGE_KEY_FILE="$PWD/keys/one.agekey" SOPS_AGE_SSH_PRIVATE_KEY_FILE="$PWD/keys/ssh.agekey"

# name input.ext options of sops...
make() {
	name=$1 input=$2
	shift 2
	ext=${input##*.}
	cp "in/$input" "fixtures/$name.plain.$ext"
	sops encrypt "$@" "in/$input" >"fixtures/$name.$ext"
	sops decrypt --input-type "$ext" --output-type "$ext" "fixtures/$name.$ext" >"fixtures/$name.out.$ext"
}
make secret secret.yaml --age "$recipient" --encrypted-regex '^(data|stringData)$'
make pgp secret.yaml --pgp "$(fpr one@example.org)" --encrypted-regex '^(data|stringData)$'
make curve secret.yaml --pgp "$(fpr curve@example.org)" --encrypted-regex '^(data|stringData)$'
make ssh secret.yaml --age "$(cut -d' ' -f1,2 keys/ssh.agekey.pub)" --encrypted-regex '^(data|stringData)$'
make both secret.yaml --age "$other,$recipient" --pgp "$(fpr other@example.org)" --encrypted-regex '^(data|stringData)$'
make suffix types.yaml --age "$recipient" --encrypted-suffix _secret
make unsuffix types.yaml --age "$recipient"
make unregex types.yaml --age "$recipient" --unencrypted-regex '^(apiVersion|kind|metadata)$'
printf 'creation_rules:\n- age: %s\n  encrypted_regex: ^data$\n  mac_only_encrypted: true\n' "$recipient" >"$home/config.yaml"
SOPS_CONFIG="$home/config.yaml" make maconly types.yaml
make multi multi.yaml --age "$recipient" --encrypted-regex '^(data|stringData)$'
make json secret.json --age "$recipient" --encrypted-regex '^(data|stringData)$'
make jsonall types.json --age "$recipient" --unencrypted-suffix _plain
sops encrypt --age "$recipient" --input-type binary --output-type json in/secret.yaml >fixtures/binary.json
for way in encrypted unencrypted; do
	printf 'creation_rules:\n- age: %s\n  %s_comment_regex: sops:here\n' "$recipient" "$way" >"$home/config.yaml"
	SOPS_CONFIG="$home/config.yaml" make "${way}comment" comments.yaml
done
printf 'creation_rules:\n- shamir_threshold: 2\n  key_groups:\n  - age: [%s]\n  - age: [%s]\n' "$recipient" "$other" >"$home/config.yaml"
SOPS_CONFIG="$home/config.yaml" sops encrypt in/secret.yaml >fixtures/shamir.yaml
age -r "$recipient" -o fixtures/whole.yaml.age in/secret.yaml
age -r "$recipient" -a -o fixtures/armored.yaml.age in/secret.yaml
age -r "$other" -o fixtures/foreign.yaml.age in/secret.yaml
rm keys/ssh.agekey.pub
