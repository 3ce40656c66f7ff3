package main

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// ingredient is a part of an image or a program, for its software bill of materials.
type ingredient struct {
	name, version, licence string
	purl                   string // package URL
}

// sbom returns the software bill of materials of an image or a file, as SPDX in JSON. digest is the digest of the image or the file. The
// same commit and the same arguments always give the same text.
func (s source) sbom(name, digest string, of []ingredient) ([]byte, error) {
	described := ingredient{name: name, version: s.version, licence: "Apache-2.0"}
	document := v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: "https://github.com/berth-csi/berth/sbom/" + digest,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "Berth"}, {CreatorType: "Tool", Creator: "berth-release-" + s.version}},
			Created:  s.time.Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{described.spdx("subject")},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", "subject")},
	}
	for i, part := range of {
		id := "part-" + strconv.Itoa(i)
		document.Packages = append(document.Packages, part.spdx(id))
		document.Relationships = append(document.Relationships, relation("subject", "CONTAINS", id))
	}
	var text bytes.Buffer
	if err := spdxjson.Write(&document, &text, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", name, err)
	}
	return text.Bytes(), nil
}

func (i ingredient) spdx(id string) *v2_3.Package {
	p := &v2_3.Package{
		PackageName: i.name, PackageVersion: i.version, PackageSPDXIdentifier: common.ElementID(id),
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: i.licence, PackageLicenseDeclared: i.licence, PackageCopyrightText: "NOASSERTION",
	}
	if i.purl != "" {
		p.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: i.purl}}
	}
	return p
}

func relation(from, what, to string) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", to), Relationship: what}
}

// ingredients returns the modules in a program.
func (c compiled) ingredients() ([]ingredient, error) {
	var all []ingredient
	for _, d := range c.dependencies {
		licence, err := d.expression()
		if err != nil {
			return nil, err
		}
		i := ingredient{name: d.Path, version: d.Version, licence: licence}
		if d.Version != "" { // the project itself has no version
			i.purl = "pkg:golang/" + d.Path + "@" + d.Version
		}
		if d.Path == goItself {
			i.purl = "pkg:golang/stdlib@" + d.Version
		}
		all = append(all, i)
	}
	return all, nil
}

// imageIngredient returns the ingredient for an image. The pull spec must have a digest.
func imageIngredient(pullSpec string) ingredient {
	repository, digest, _ := strings.Cut(pullSpec, "@")
	return ingredient{name: repository, version: digest, licence: "NOASSERTION",
		purl: "pkg:oci/" + path.Base(repository) + "@" + url.QueryEscape(digest) + "?repository_url=" + repository}
}
