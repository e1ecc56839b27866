// Package trust decides whether the commits of a repository may enter: who
// signed them, whether that key may change what they change, and whether the
// branch still goes forward.
//
// It watches nothing, owns nothing and does no I/O of its own: the commits, and
// what they changed, are answered by a History. It promises that
//
//   - every commit between the last applied one and the new head is judged,
//     those of merged branches too, and what a merge itself decides;
//   - each by the policy that was in force before it: a commit cannot give
//     itself rights, and the first policy comes from outside of the repository;
//   - the answer is a function of its input: no clock is read;
//   - hostile commits, signatures and policies cost a bounded amount of work
//     and end in findings.
//
// The policy is the file .writ/trust.yaml of the trusted base, the commit that
// was applied last:
//
//	keys:                      # whose signatures count
//	- name: alice
//	  type: ssh                # or openpgp
//	  key: ssh-ed25519 AAAA…   # or an armored public key
//	  mails: ["alice@example.org"]
//	  validBefore: 2027-01-01T00:00:00Z
//	groups:
//	- name: platform
//	  members: [alice]
//	rules:                     # who may change files; the last that matches counts
//	- path: "*"
//	- path: /apps/shop/
//	  signers: [bob, platform]
//	- path: /.writ/            # this file: a rule of its own is required
//	  signers: [platform]
//	  minimum: 2
//	scopes:                    # what files may declare; without scopes: anything
//	- paths: [/apps/shop/]
//	  allow:
//	  - kinds: [Deployment, Service, ConfigMap]
//	    namespaces: ["shop-*"]
//
// Patterns of paths are those of CODEOWNERS. Signatures are read as git does:
// OpenPGP, and SSH in the namespace "git".
package trust
