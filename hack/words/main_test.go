package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckFile(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"plain words":         {"operator/a.go", "package operator\n\n// desired is the desired state.\nvar desired int\n", nil},
		"in an identifier":    {"operator/a.go", "package operator\n\nfunc wishOf() {}\n", []string{`operator/a.go:3: "wish": write desired state`}},
		"in a comment":        {"operator/a.go", "package operator\n\n// Wishes are wishes.\n", []string{`operator/a.go:3: "wishes": write desired state`}},
		"in a message":        {"olm/a.go", "package olm\n\nconst a = \"not foretold\"\n", []string{`olm/a.go:3: "foretold": write predicted`}},
		"in a page":           {"docs/a.md", "What `plan` foretells\n", []string{`docs/a.md:1: "foretells": write predicts`}},
		"in a file's name":    {"test/narrator/a.go", "", []string{`test/narrator/a.go: "narrator": write progress printer`}},
		"of several words":    {"operator/a.go", "package operator\n\nfunc letGo() {}\n", []string{`operator/a.go:3: "let go": write remove the finalizer`}},
		"an API's":            {"operator/a.go", "package operator\n\nvar a FeatureGate\n", nil},
		"an API's, and ours":  {"operator/a.go", "package operator\n\nvar gate FeatureGate\n", []string{`operator/a.go:3: "gate": write event filter`}},
		"plain in prose":      {"operator/a.go", "package operator\n\n// It is followed by b.\nvar a int\n", nil},
		"not plain in a name": {"operator/a.go", "package operator\n\ntype followed struct{}\n", []string{`operator/a.go:3: "followed": write watched object`}},
		"of another folder":   {"image/a.go", "package image\n\nvar hold int\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, checkFile(tc.file, tc.content)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
