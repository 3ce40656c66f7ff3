package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// TestGates: each rule of a gate finds its fault in the changed or unchanged bundle tide, and nothing without its gate.
func TestGates(t *testing.T) {
	const versions = "  operators.operatorframework.io.bundle.channel.default.v1: stable\n"
	const says = versions + "  com.redhat.openshift.versions: "
	const budget = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: calm}\nspec: {minAvailable: 1, selector: {matchLabels: {name: tide}}}\n"
	const extra = "manifests/zz.yaml"
	for name, tc := range map[string]struct {
		file, old, new string
		profiles       string
		rule           string
		severity       findings.Verdict
		want           string // part of the message; without one, there is no finding of the rule
	}{
		"a short description":                {tideCSV, "It comes and goes.", "It comes.", "community", "required-fields", findings.Error, "spec.description is not as expected: 20 characters or more"},
		"no annotation about support":        {tideCSV, "", "", "community", "required-fields", findings.Warning, "metadata.annotations.support is missing"},
		"an icon that is none":               {tideCSV, "mediatype: image/svg+xml", "mediatype: image/webp", "community", "required-fields", findings.Error, "spec.icon is not as expected"},
		"no minKubeVersion":                  {tideCSV, "  minKubeVersion: 1.25.0\n", "", "community", "openshift-kubernetes", "", ""},
		"a minKubeVersion that nobody reads": {tideCSV, "minKubeVersion", "MinKubeVersion", "community", "openshift-kubernetes", "", ""},
		"no versions":                        {tideCSV, "", "", "community", "openshift-kubernetes", findings.Error, "no annotation com.redhat.openshift.versions"},
		"versions that are old":              {annotations, versions, says + "v4.11\n", "community", "openshift-kubernetes", findings.Error, "also for OpenShift 4.11 (Kubernetes 1.24); let"},
		"versions that are new enough":       {annotations, versions, says + "v4.12\n", "community", "openshift-kubernetes", "", ""},
		"an old version alone":               {annotations, versions, says + "=v4.11\n", "openshift-4.11", "openshift-kubernetes", findings.Error, "also for OpenShift 4.11"},
		"another version":                    {annotations, versions, says + "=v4.11\n", "openshift-4.12", "openshift-kubernetes", "", ""},
		"5.0 and later":                      {tideCSV, "minKubeVersion: 1.25.0", "minKubeVersion: 1.37.0", "openshift-5.0", "openshift-kubernetes", findings.Error, "OpenShift 5.0 (Kubernetes 1.36)"},
		"versions in words":                  {annotations, versions, says + "all\n", "certified", "openshift-versions", findings.Error, `com.redhat.openshift.versions is "all", so no version of OpenShift offers it`},
		"versions in words, without a gate":  {annotations, versions, says + "all\n", "", "openshift-versions", findings.Warning, `is "all"`},
		"a list of versions":                 {annotations, versions, says + "\"v4.7,v4.8\"\n", "community", "openshift-versions", findings.Error, `is "v4.7,v4.8"`},
		"the one list that is allowed":       {annotations, versions, says + "\"v4.5,v4.6\"\n", "community", "openshift-versions", "", ""},
		"an API that is gone":                {extra, "", budget, "openshift-4.12", "removed-api", findings.Error, "PodDisruptionBudget of policy/v1beta1 is gone since Kubernetes 1.25, and the bundle is for OpenShift 4.12; use policy/v1"},
		"an API that is there yet":           {extra, "", budget, "openshift-4.11", "removed-api", "", ""},
		"an API that is gone, certified":     {extra, "", budget, "certified", "removed-api", "", ""}, // without a version
		"an API that is gone, community":     {extra, "", budget, "community", "removed-api", findings.Error, "the bundle is for OpenShift 4.12, 4.13"},
		"a NetworkPolicy":                    {extra, "", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: calm}\nspec: {podSelector: {}}\n", "certified", "network-policy", findings.Error, "NetworkPolicy calm: let the operator create it"},
		"no features":                        {tideCSV, "", "", "certified", "feature-annotations", findings.Error, `annotations are missing, each "true" or "false": features.operators.openshift.io/disconnected, `},
		"a feature that is unclear":          {tideCSV, "    categories: Storage\n", "    categories: Storage\n    features.operators.openshift.io/csi: \"yes\"\n", "certified", "feature-annotations", findings.Error, `features.operators.openshift.io/csi is "yes", want "true" or "false"`},
		"two SCCs":                           {tideCSV, `{apiGroups: [""], resources: [pods], verbs: [get]}`, `{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], resourceNames: [anyuid, privileged], verbs: [use]}`, "certified", "one-scc", findings.Warning, "asks for 2 SecurityContextConstraints, anyuid, privileged"},
		"one SCC":                            {tideCSV, `{apiGroups: [""], resources: [pods], verbs: [get]}`, `{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], resourceNames: [anyuid], verbs: [use]}`, "certified", "one-scc", "", ""},
		"a tag":                              {tideCSV, "", "", "certified", "image-digest", findings.Error, "image quay.io/example/tide:v1 has no digest"},
		"a tag in a variable":                {tideCSV, `{name: LEVEL, value: "5"}`, `{name: RELATED_IMAGE_EBB, value: "quay.io/example/ebb:v1"}`, "konflux", "image-digest", findings.Error, "image quay.io/example/ebb:v1 has no digest"},
		"fewer related images":               {tideCSV, `{name: LEVEL, value: "5"}`, `{name: RELATED_IMAGE_EBB, value: "quay.io/example/ebb:v1"}`, "certified", "related-images-count", findings.Error, "spec.relatedImages has 1 of the 2 images"},
		"as many related images":             {tideCSV, "", "", "certified", "related-images-count", "", ""},
		"disconnected without variables":     {tideCSV, "    categories: Storage\n", "    categories: Storage\n    features.operators.openshift.io/disconnected: \"true\"\n", "certified", "disconnected", findings.Warning, "none of its containers has a variable RELATED_IMAGE_"},
		"disconnected, the older way":        {tideCSV, "    categories: Storage\n", "    categories: Storage\n    operators.openshift.io/infrastructure-features: '[\"Disconnected\"]'\n", "certified", "disconnected", findings.Warning, "none of its containers has a variable RELATED_IMAGE_"},
		"FIPS with foreign images":           {tideCSV, "    categories: Storage\n", "    categories: Storage\n    features.operators.openshift.io/fips-compliant: \"true\"\n", "konflux", "fips", findings.Warning, "image quay.io/example/tide:v1 comes from elsewhere than registry.redhat.io"},
		"no claim of FIPS":                   {tideCSV, "", "", "konflux", "fips", "", ""},
		"a category that is none":            {tideCSV, "categories: Storage", "categories: Sea", "operatorhub", "standardcategories", findings.Error, `"Sea" is not in the set`},
		"a category, without a gate":         {tideCSV, "categories: Storage", "categories: Sea", "konflux", "standardcategories", findings.Warning, `"Sea" is not in the set`},
		"another media type":                 {annotations, "registry+v1", "plain+v0", "community", "olm-annotations", findings.Error, `is "plain+v0", want "registry+v1"`},
		"another media type, without a gate": {annotations, "registry+v1", "plain+v0", "", "olm-annotations", findings.Warning, `is "plain+v0", want "registry+v1"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := changed(t, tc.file, tc.old, tc.new)
			profile, err := gates.Parse(strings.Fields(tc.profiles))
			require.NoError(t, err)
			found, err := rules.Check(dir, rules.Options{Profile: profile})
			require.NoError(t, err)
			of := func(found []*findings.Finding) (of []*findings.Finding) {
				for _, f := range found {
					if f.Rule == tc.rule {
						of = append(of, f)
					}
				}
				return of
			}
			if got := of(found); tc.want == "" && len(got) > 0 {
				t.Errorf("found %v", got)
			} else if tc.want != "" {
				matches := 0
				for _, f := range got {
					if strings.Contains(f.Message, tc.want) && f.Severity == tc.severity {
						matches++
					}
					if f.Line == 0 {
						t.Errorf("%v has no line", f)
					}
				}
				if matches != 1 {
					t.Errorf("got %v, want one %s with %s", got, tc.severity, tc.want)
				}
			}
			for _, r := range rules.Rules() {
				if r.ID == tc.rule && r.ByGates && len(of(check(t, dir))) > 0 {
					t.Errorf("found without a gate: %v", of(check(t, dir)))
				}
			}
		})
	}
}

// TestInCatalogs: a pipeline ignores the OpenShift versions of a bundle that catalogs in the repository offer.
func TestInCatalogs(t *testing.T) {
	profile, err := gates.Parse([]string{"community"})
	require.NoError(t, err)
	found, err := rules.Check(tide, rules.Options{Profile: profile, InCatalogs: true})
	require.NoError(t, err)
	for _, f := range found {
		if f.Rule == "openshift-kubernetes" {
			t.Errorf("found %v", f)
		}
	}
}
