// Package deb reads Debian binary packages: what they say of themselves and
// what files they hold. It runs nothing of a package: maintainer scripts are
// never looked at.
//
// It watches nothing and owns nothing. It promises that what it hands out is
// bounded and that every path is relative, clean and inside the package.
//
// Formats: deb(5), deb-control(5), ar(5).
package deb
