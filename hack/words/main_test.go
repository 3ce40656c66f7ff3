package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func TestCheckFile(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"plain words":         {"operator/a.go", "package operator\n\n// desired is the desired state.\nvar desired int\n", nil},
		"in an identifier":    {"operator/a.go", "package operator\n\nfunc wishOf() {}\n", []string{`operator/a.go:3: "wish": write desired state`}},
		"in a comment":        {"operator/a.go", "package operator\n\n// A wish is a wish.\n", []string{`operator/a.go:3: "wish": write desired state`}},
		"in a message":        {"olm/a.go", "package olm\n\nconst a = \"cannot foretell\"\n", []string{`olm/a.go:3: "foretell": write predict`}},
		"in a page":           {"docs/a.md", "`plan` can foretell\n", []string{`docs/a.md:1: "foretell": write predict`}},
		"in a file's name":    {"test/wish/a.go", "", []string{`test/wish/a.go: "wish": write desired state`}},
		"of several words":    {"operator/a.go", "package operator\n\nfunc letGo() {}\n", []string{`operator/a.go:3: "let go": write remove the finalizer`}},
		"an API's":            {"operator/a.go", "package operator\n\nvar a FeatureGate\n", nil},
		"an API's, and ours":  {"operator/a.go", "package operator\n\nvar gate FeatureGate\n", []string{`operator/a.go:3: "gate": write event filter`}},
		"plain in prose":      {"operator/a.go", "package operator\n\n// It is followed by b.\nvar a int\n", nil},
		"not plain in a name": {"operator/a.go", "package operator\n\ntype followed struct{}\n", []string{`operator/a.go:3: "followed": write watched object`}},
		"only in a comment":   {"lab/a.go", "package lab\n\n/* A name\nis that of b.\n*/\n", []string{`lab/a.go:4: "is that of": write the noun again, or a possessive`}},
		"not in a message":    {"lab/a.go", "package lab\n\nconst a = \"b // is that of c\"\n", nil},
		"nor in a page":       {"lab/a.md", "A name is that of b.\n", nil},
		"of another folder":   {"image/a.go", "package image\n\nvar hold int\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, checkFile(tc.file, tc.content)), "-want +got")
		})
	}
}

// TestEveryRuleFindsItsPhrase: a phrase in an identifier or, by its rule, in a comment is found, in each folder of its rule.
func TestEveryRuleFindsItsPhrase(t *testing.T) {
	for _, r := range rules {
		name := ""
		for i, word := range strings.Fields(r.phrase) {
			if i > 0 {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
			name += word
		}
		code := "func " + name + "() {}"
		if r.comments {
			code = "// a " + r.phrase + " b"
		}
		folders := r.in
		if len(folders) == 0 {
			folders = []string{"image"}
		}
		for _, folder := range folders {
			want := fmt.Sprintf("%s/a.go:3: %q: write %s", folder, r.phrase, r.instead)
			assert.Containsf(t, checkFile(folder+"/a.go", "package a\n\n"+code+"\n"), want, "in %s, %s is not found", folder, code)
		}
	}
}

// TestReplacedWords: each word that was replaced when the project took the terms of the field is found where it was.
func TestReplacedWords(t *testing.T) {
	for folder, words := range map[string]string{
		"operator":                  "wish wishOf grant turns pace followed acts words gate situation look",
		"operator/clustercsidriver": "claim letGo",
		"sharedvolume":              "memory doubt gate renew turns",
		"olm/prediction":            "foretell",
		"migrate":                   "hold turn release renew look",
		"fbc":                       "rendering",
	} {
		for word := range strings.FieldsSeq(words) {
			assert.NotEmptyf(t, checkFile(folder+"/a.go", "package a\n\nfunc "+word+"() {}\n"), "in %s, %s is not found", folder, word)
		}
	}
}
