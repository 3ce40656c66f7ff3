package trials

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kindsOfPlaces has the kinds of places in which shipped programs show texts besides their output, with the names in the source: the types of
// composite literals and the methods that write one. TestPairs in cmd/berth has the output of commands.
var kindsOfPlaces = map[string][]string{
	"conditions": {"metav1.Condition", "operatorv1.OperatorCondition", "configv1.ClusterOperatorStatusCondition", "WithMessage"},
	"events":     {"Event", "Eventf", "Warning", "Warningf"},
	"labels":     {"WithLabelValues", "GaugeVec"},
}

const (
	byReporter = "operator/clustercsidriver TestHostileMessages" // all conditions of a ClusterCSIDriver pass its Reporter
	byRecorder = "cmd/berth-operator TestHostileEvents"          // all operators have its recorder
	constant   = "its labels are texts of the source, and names that the API server validates"
)

// places are the packages that show texts there, with the tests that put hostile texts into them, or why there are none.
var places = map[string]string{
	"sharedvolume conditions":              "sharedvolume TestHostileFields",
	"operator/clusterstorage conditions":   "operator/clusterstorage TestHostileMessages",
	"operator/clustercsidriver conditions": byReporter,
	"operator conditions":                  byReporter,
	"operator/controllers conditions":      byReporter,
	"operator/drivernamespace conditions":  byReporter,
	"operator/leader conditions":           byReporter,
	"operator/uninstall conditions":        byReporter,
	"drivers/efs/controller conditions":    byReporter,
	"sharedvolume events":                  "sharedvolume TestHostileFields",
	"cmd/berth-operator events":            byRecorder,
	"operator events":                      byRecorder,
	"operator/controllers events":          byRecorder,
	"operator/drivernamespace events":      byRecorder,
	"operator/objects events":              byRecorder,
	"operator/uninstall events":            byRecorder,
	"drivers/efs/controller events":        byRecorder,
	"drivers/efs/controller labels":        "drivers/efs/controller TestHostileLabels",
	"operator/metrics labels":              "operator/metrics TestHostileLabels",
	"operator labels":                      constant,
	"operator/objects labels":              constant,
	"operator/leader labels":               constant,
	"operator/uninstall labels":            constant,
	"operator/clusterstorage labels":       constant,
	"sharedvolume labels":                  constant,
	"catalog/server labels":                constant,
}

// TestPlacesAreTried: each package that writes conditions, events or labels of metrics has a test that puts hostile texts there.
func TestPlacesAreTried(t *testing.T) {
	found := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(unshipped, file) || file != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			for kind, names := range kindsOfPlaces {
				if slices.Contains(names, placeOf(node)) {
					found[path.Dir(file)+" "+kind] = true
				}
			}
			return true
		})
		return nil
	}))
	for place := range found {
		assert.NotEmptyf(t, places[place], "%s: name the test that puts hostile texts into them", place)
	}
	for place, by := range places {
		assert.Truef(t, found[place], "%s: nothing writes them", place)
		if by == constant {
			continue
		}
		folder, test, _ := strings.Cut(by, " ")
		tests, err := TestsIn(filepath.Join("..", "..", folder))
		require.NoError(t, err)
		assert.Containsf(t, tests, test, "%s: there is no test %s", place, by)
	}
}

// placeOf returns the type of a composite literal, the type of a field or the method of a call, "" for other nodes.
func placeOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.CompositeLit:
		if of, is := n.Type.(*ast.SelectorExpr); is {
			if from, is := of.X.(*ast.Ident); is {
				return from.Name + "." + of.Sel.Name
			}
		}
	case *ast.CallExpr:
		if of, is := n.Fun.(*ast.SelectorExpr); is {
			return of.Sel.Name
		}
	case *ast.StarExpr:
		if of, is := n.X.(*ast.SelectorExpr); is && of.Sel.Name == "GaugeVec" {
			return of.Sel.Name
		}
	}
	return ""
}
