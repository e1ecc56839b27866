package build

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/writ-os/writ/image/deb"
)

// bill is a bill of materials as SPDX 2.3 has it, in JSON. Only what is needed
// of that is here: the library for it brings more than it saves.
type bill struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      billCreation   `json:"creationInfo"`
	Packages      []billPackage  `json:"packages"`
	Relationships []billRelation `json:"relationships"`
	Licenses      []billLicense  `json:"hasExtractedLicensingInfos,omitempty"`
}

type billCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type billPackage struct {
	ID          string         `json:"SPDXID"`
	Name        string         `json:"name"`
	Version     string         `json:"versionInfo,omitempty"`
	Supplier    string         `json:"supplier,omitempty"`
	Homepage    string         `json:"homepage,omitempty"`
	Download    string         `json:"downloadLocation"`
	Analyzed    bool           `json:"filesAnalyzed"`
	Checksums   []billChecksum `json:"checksums,omitempty"`
	SourceInfo  string         `json:"sourceInfo,omitempty"`
	Concluded   string         `json:"licenseConcluded"`
	Declared    string         `json:"licenseDeclared"`
	Copyright   string         `json:"copyrightText"`
	References  []billRef      `json:"externalRefs,omitempty"`
	Purpose     string         `json:"primaryPackagePurpose,omitempty"`
	LicenseNote string         `json:"licenseComments,omitempty"`
}

type billChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type billRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type billRelation struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

type billLicense struct {
	ID   string `json:"licenseId"`
	Name string `json:"name"`
	Text string `json:"extractedText"`
}

const unknown = "NOASSERTION"

// bill says what is in the image: the packages that files were taken from, and
// the modules that our own programs were built of.
func (j *job) bill() (*bill, error) {
	const image = "SPDXRef-image"
	b := &bill{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: j.name(""),
		// The root hash tells this image from all others.
		Namespace: "https://writ.dev/spdx/" + j.name("") + "-" + j.result.RootHash,
		Creation:  billCreation{Created: j.cfg.Epoch.UTC().Format(time.RFC3339), Creators: []string{"Tool: writ-image-build"}},
		Packages: []billPackage{{ID: image, Name: "writ", Version: j.cfg.Version, Download: unknown, Concluded: unknown,
			Declared: "Apache-2.0", Copyright: unknown, Purpose: "OPERATING-SYSTEM"}},
		Relationships: []billRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", image}},
	}
	l := licenses{}
	used := j.usedPackages()
	for _, c := range j.src.Packages {
		if used[c.Name] {
			b.add(image, j.debianPackage(c, l))
		}
	}
	if err := b.addModules(image, j.cfg.Programs); err != nil {
		return nil, err
	}
	b.Licenses = l.list()
	return b, nil
}

func (b *bill) add(to string, p billPackage) {
	b.Packages = append(b.Packages, p)
	b.Relationships = append(b.Relationships, billRelation{to, "CONTAINS", p.ID})
}

// usedPackages are those that have a file in the root file system, and those
// that the kernel image and the ESP are of.
func (j *job) usedPackages() map[string]bool {
	used := map[string]bool{}
	for _, s := range j.result.Sizes {
		used[s.Origin] = true
	}
	for _, at := range []string{loaderFile, stubFile, "boot/vmlinuz-" + j.root.Modules.Kernel} {
		if e, ok := j.src.Tree.Get(at); ok {
			used[e.Origin] = true
		}
	}
	for at, e := range j.src.Tree.All() { // the bundle of authorities is made of its files
		if strings.HasPrefix(at, "usr/share/ca-certificates/") {
			used[e.Origin] = true
		}
	}
	return used
}

func (j *job) debianPackage(c deb.Control, l licenses) billPackage {
	p := billPackage{ID: "SPDXRef-deb-" + spdxID(c.Name), Name: c.Name, Version: c.Version, Homepage: c.Homepage, Download: unknown,
		Concluded: unknown, Copyright: unknown, Declared: unknown,
		References: []billRef{{"PACKAGE-MANAGER", "purl", fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=trixie", c.Name, purlEscape(c.Version), c.Arch)}}}
	if c.Maintainer != "" {
		p.Supplier = "Organization: " + c.Maintainer
	}
	if c.Source != "" {
		p.SourceInfo = "built from the source package " + c.Source + " " + c.SourceVersion
	}
	if locked, ok := j.cfg.Lock.Find(c.Name); ok {
		p.Checksums = []billChecksum{{"SHA256", locked.SHA256}}
		if archive, rest, ok := strings.Cut(locked.Path, "/"); ok {
			p.Download = "https://deb.debian.org/" + archive + "/" + rest
		}
	}
	if text, err := j.src.Tree.ReadFile(c.Licence()); err == nil {
		if names := licenseNames(string(text)); len(names) > 0 {
			p.Declared = l.expression(names)
			p.LicenseNote = "all licences that " + c.Licence() + " of the package names, for any of its files"
		}
	}
	return p
}

// addModules adds our own programs, with the Go modules that the linker put into
// each: what the compiler says, not what a file of requirements does.
func (b *bill) addModules(image string, programs Programs) error {
	for _, f := range []struct{ name, path string }{
		{"writ", programs.Writ}, {"containerd", programs.Containerd}, {"containerd-shim-runc-v2", programs.Shim}, {"init", programs.Init},
	} {
		info, err := buildinfo.ReadFile(f.path)
		if err != nil {
			return fmt.Errorf("read modules of %s: %w", f.name, err)
		}
		sum, err := fileSum(f.path)
		if err != nil {
			return err
		}
		program := billPackage{ID: "SPDXRef-program-" + spdxID(f.name), Name: f.name, Download: unknown, Concluded: unknown, Declared: "Apache-2.0",
			Copyright: unknown, Purpose: "APPLICATION", Checksums: []billChecksum{{"SHA256", sum}},
			SourceInfo: info.Path + " built by " + info.GoVersion}
		b.add(image, program)
		b.module(program.ID, "std", strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			b.module(program.ID, m.Path, m.Version)
		}
	}
	return nil
}

// module adds a module that a program is built of, once for all programs.
func (b *bill) module(program, path, version string) {
	p := billPackage{ID: "SPDXRef-go-" + spdxID(path+"-"+version), Name: path, Version: version, Download: unknown, Concluded: unknown,
		Declared: unknown, Copyright: unknown, Purpose: "LIBRARY",
		References: []billRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + purlEscape(version)}}}
	if path != "std" {
		p.Download = "https://proxy.golang.org/" + path + "/@v/" + version + ".zip"
	}
	if !slices.ContainsFunc(b.Packages, func(o billPackage) bool { return o.ID == p.ID }) {
		b.Packages = append(b.Packages, p)
	}
	b.Relationships = append(b.Relationships, billRelation{program, "STATIC_LINK", p.ID})
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// spdxID has only the characters that an identifier may have.
func spdxID(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

func purlEscape(s string) string {
	return strings.NewReplacer("+", "%2B", ":", "%3A", "~", "~").Replace(s)
}
