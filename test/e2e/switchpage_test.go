package e2e

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/journey"
)

// TestFollowSwitchPage: an administrator runs the commands of the page about switching to another catalog, and they print what it shows:
// a plan and one that is not safe, a plan for a package of another name, a switch that is rolled back, and one that is completed.
func TestFollowSwitchPage(t *testing.T) {
	if !*followPages {
		t.Skip("-follow-pages is not set; make prove SUITE=pages sets it")
	}
	w := newEnvironment(t, efs(t), cluster.Options{})
	from := communityBundles(t)[0]
	w.serve(communityCatalog, w.buildCatalog(from.folder))
	w.serve(certifiedCatalog, w.catalog)
	other := renumbered(t, from.folder, map[string]string{w.driver.Package.Name: "aws-efs-csi-driver-operator", from.version: "1.0.0"})
	w.serve("redhat-operators", w.buildCatalog(other))
	w.step(func(ctx context.Context, c client.Client) error {
		_, err := journey.Subscribe(ctx, c, w.subscription(communityCatalog, from.channel))
		return err
	})
	w.leaveCommunityOperator(2)

	const page = "switch.md"
	r := w.reader()
	r.Follow(t, page, "### Plan", 0, 1)
	r.Follow(t, page, "## If the package has another name there")
	w.kubectlBerth("", "switch", "apply", w.driver.Package.Name, "--to", certifiedCatalog, "--create-driver", "--wait=false")
	r.Follow(t, page, "### Status and rollback")
	r.Follow(t, page, "### Apply")
}
