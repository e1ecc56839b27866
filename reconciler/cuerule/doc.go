// Package cuerule is what the rules that users write in CUE have in common,
// those of packages policy and health: how they are read from the packages of a
// repository, which objects they mean, and how a child keeps those it has read.
//
// It watches nothing and owns nothing. It promises that what is wrong with a
// rule is a finding at its place, and that CUE is evaluated by one goroutine at
// a time. What bounds it is the sandbox that it is evaluated in.
package cuerule
