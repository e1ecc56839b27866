// Package policy holds the manifests of a commit against the rules that its
// users have written in CUE, in the files policy/*.cue of the repository and of
// the folder that the cluster follows.
//
// It watches nothing and owns nothing. It promises that a rule which an object
// breaks is a finding at the field of the manifest that breaks it, with the
// rule's own words; that what is wrong with a policy file is a finding at its
// line; and that a rule costs a bounded time and memory: rules are read and
// evaluated in a child (package sandbox), and the server knows no more of them
// than which objects they mean, and what certainly keeps them.
//
// A rule says which objects it means, what they must be, and what to tell the
// author of one that is not:
//
//	package policy
//
//	rules: "images-from-our-registry": {
//		match: podSpec: true
//		message: "images come from registry.example.com"
//		hint:    "push the image there first"
//		require: containers: [...{image: =~"^registry\\.example\\.com/"}]
//	}
//
//	rules: "everything-has-an-owner": {
//		match: kind: ["Deployment", "StatefulSet"]
//		message:  "say who answers for it"
//		severity: "warn"
//		require: metadata: labels: owner!: string
//	}
//
// require is unified with the object, or, with podSpec, with the specification
// of its pods, wherever its kind keeps it. A field that must be there is
// written with "!", one that must not be as field?: _|_.
//
// A rule with finding sets how heavy a finding of the cluster's own weighs:
//
//	rules: "what-is-spoken-of-is-there": {
//		finding:  "MissingReference"
//		severity: "refuse"
//		except: [{namespace: "scratch-*"}]
//	}
package policy
