package main

import (
	"fmt"
	"strings"
)

// combination is a set of versions that operators run on, as docs/start/compatibility.md lists it.
type combination struct {
	// kubernetes is a version with its patch, openshift names the OpenShift with its minor version, and olm is the version of OLM.
	kubernetes, openshift, olm string
	// tested maps columns to the claims whose records say that the combination was tested. A column that is not in it is claimed, and a
	// column with an empty claim does not apply.
	tested map[string]string
}

// columns are an administrator's actions on a cluster.
var columns = []string{"installation and use", "switch", "removal", "a platform"}

// combinations are the rows of the table.
var combinations = append(olmVersions(),
	combination{"1.36.3", "4.23, 5.0", "0.38", nil},
	combination{"1.36.3", "4.23, 5.0", "0.42", nil},
	combination{"1.36.3", "4.23, 5.0", "v1, 1.11", map[string]string{"installation and use": "published", "switch": "", "removal": "published", "a platform": ""}},
)

// olmVersions returns the rows with the pinned OLM, each of which a suite tests.
func olmVersions() (all []combination) {
	for _, v := range [][2]string{{"1.29.5", "4.16"}, {"1.30.14", "4.17"}, {"1.31.4", "4.18"}, {"1.32.9", "4.19"}, {"1.33.1", "4.20"}, {"1.35.3", "4.22"}, {"1.36.3", "4.23, 5.0"}} {
		c := combination{kubernetes: v[0], openshift: v[1], olm: "0.46", tested: map[string]string{}}
		for _, column := range columns {
			c.tested[column] = c.suite()
		}
		all = append(all, c)
	}
	return all
}

// suite returns the name of the suite that tests the combination, such as versions-1.31.
func (c combination) suite() string {
	return "versions-" + c.kubernetes[:strings.LastIndex(c.kubernetes, ".")]
}

// ofVersions returns a suite for each version of Kubernetes. Each builds a control plane, so no workflow runs it.
func ofVersions() (all []suite) {
	for _, c := range olmVersions() {
		all = append(all, suite{
			name: c.suite(), about: "on Kubernetes " + c.kubernetes + ", which it builds: the EFS operator is installed by OLM, used, switched to from the community's and removed, and a platform has its storage",
			pkg: "./test/e2e ./operator ./test/clusterstorage", run: `^(TestTheMainJob|TestSwitchWithTool|TestUninstallOrder|TestOperators)$/^(OpenStack|efs|v?\d.*)$`,
			kubernetes: c.kubernetes,
		})
	}
	return all
}

// versionClaims returns the claims of the rows that suites test.
func versionClaims() (all []claim) {
	for _, c := range olmVersions() {
		all = append(all, claim{
			id: c.suite(), page: "docs/start/compatibility.md", suite: c.suite(), sentence: c.row(), real: controlPlane, played: "AWS, OpenStack, nodes, and drivers' programs",
		})
	}
	return all
}

// row returns the beginning of the combination's row in the table.
func (c combination) row() string {
	return fmt.Sprintf("| %s | %s | %s |", c.kubernetes, c.openshift, c.olm)
}

// versionsTable returns the table of docs/start/compatibility.md.
func versionsTable(records map[string]record) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n| Kubernetes | OpenShift | OLM | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", 3+len(columns)))
	for _, c := range combinations {
		text.WriteString(c.row())
		for _, column := range columns {
			fmt.Fprintf(&text, " %s |", c.verdict(column, records))
		}
		text.WriteString("\n")
	}
	return text.String() + "\n"
}

func (c combination) verdict(column string, records map[string]record) string {
	id, applies := c.tested[column]
	if applies && id == "" {
		return "–"
	}
	if _, is := records[id]; is {
		return "tested"
	}
	return "claimed"
}
