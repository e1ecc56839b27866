// Package cuerule is what the rules that users write in CUE have in common,
// those of packages policy and health: how they are read from the packages of a
// repository, which objects they mean, and whose turn it is to evaluate them.
//
// It watches nothing and owns nothing. It promises that what is wrong with a
// rule is a finding at its place, that CUE is evaluated by one goroutine at a
// time, and that nobody waits without end behind a rule that has none.
package cuerule
