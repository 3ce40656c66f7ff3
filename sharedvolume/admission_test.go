package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

// policyFolder is what an administrator may apply to have SharedVolumes refused at once.
const policyFolder = "policy"

// TestAdmissionPolicies applies the policies beside the controller.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Start(t, cluster.Options{}))
	w.defineAll()
	w.run(w.controllerConfig())
	w.applyRoles()
	who := w.tenant(w.Namespace(t), "edit")
	w.grant(who.namespace, "fs-01", "fsap-01")
	specless := newVolume(w.Namespace(t), "specless") // was there before
	specless.Spec = v1alpha1.SharedVolumeSpec{}
	w.do("create", w.client.Create(t.Context(), specless))
	for _, kind := range []string{"sharedvolumes", "sharedvolumegrants"} { // Kubernetes checks the policies' types once, when they come.
		cluster.Eventually(t, patience, "the definition of "+kind+" to be published", func(ctx context.Context) error {
			return w.Kubectl(ctx, "explain", kind).Run()
		})
	}
	w.kubectl("apply", "--filename="+policyFolder)
	other := volumeOf(who.namespace, "other", "fs-01", "fsap-02")
	fill := patch(`{"spec":{"fileSystemID":"fs-01","accessPointID":"fsap-01"}}`)
	cluster.Eventually(t, patience, "the policies to be in force", func(ctx context.Context) error {
		for policy, err := range map[string]error{
			"sharedvolume-needs-grant": who.api.Create(ctx, other.DeepCopy(), client.DryRunAll),
			"sharedvolume-keeps-spec":  w.client.Patch(ctx, specless.DeepCopy(), fill, client.DryRunAll),
		} {
			if err == nil || !strings.Contains(err.Error(), policy) {
				return fmt.Errorf("%s: %v", policy, err)
			}
		}
		return nil
	})

	w.refused("not listed", who.api.Create(t.Context(), other),
		"namespace "+who.namespace+" may not use access point fsap-02 of file system fs-01: SharedVolumeGrant "+who.namespace+" does not list it")
	late := newVolume(who.namespace, "late")
	late.Spec = v1alpha1.SharedVolumeSpec{}
	w.refused("without spec", who.api.Create(t.Context(), late), "spec must name the file system and the access point from the beginning")
	w.refused("filled in later", w.client.Patch(t.Context(), specless.DeepCopy(), fill), "the spec of a SharedVolume cannot be added or changed later")

	own := volumeOf(who.namespace, "own", "fs-01", "fsap-01")
	w.do("create", who.api.Create(t.Context(), own))
	w.ready(own)
	// Where a namespace has no grant, it is the controller that refuses.
	none := volumeOf(w.Namespace(t), "none", "fs-01", "fsap-01")
	w.do("create", w.client.Create(t.Context(), none))
	w.ungranted(none, "there is no SharedVolumeGrant")
	// The controller's own updates pass, also when the grant is gone.
	w.do("take back", w.client.Delete(t.Context(), &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: who.namespace}}))
	for _, sv := range []*v1alpha1.SharedVolume{own, specless, none} {
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
	}
	w.checkTypes("sharedvolume-needs-grant", "sharedvolume-keeps-spec")
}

// checkTypes asks Kubernetes whether the policies' expressions go with the types they are about.
func (w world) checkTypes(policies ...string) {
	w.t.Helper()
	for _, name := range policies {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.eventually("the types to be checked", policy, func() error {
			if policy.Status.ObservedGeneration != policy.Generation {
				return errors.New("they are not")
			}
			return nil
		})
		if checked := policy.Status.TypeChecking; checked == nil || len(checked.ExpressionWarnings) > 0 {
			w.t.Errorf("%s: %+v", name, checked)
		}
	}
}
