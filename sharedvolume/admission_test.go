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

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// policyFolder has the policies that an administrator may apply to reject SharedVolumes at admission.
const policyFolder = "policy"

// TestAdmissionPolicies applies the policies in addition to the controller.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	env.defineAll()
	env.run(env.controllerConfig())
	env.applyRoles()
	who := env.tenant(env.Namespace(t), "edit")
	env.grant(who.namespace, "fs-01", "fsap-01")
	specless := newVolume(env.Namespace(t), "specless") // was there before
	specless.Spec = v1alpha1.SharedVolumeSpec{}
	env.do("create", env.client.Create(t.Context(), specless))
	for _, kind := range []string{"sharedvolumes", "sharedvolumegrants"} { // Kubernetes checks the policies' types once, when they come.
		cluster.Eventually(t, waitLimit, "the definition of "+kind+" to be published", func(ctx context.Context) error {
			return env.Kubectl(ctx, "explain", kind).Run()
		})
	}
	env.kubectl("apply", "--filename="+policyFolder)
	other := volumeOf(who.namespace, "other", "fs-01", "fsap-02")
	fill := patch(`{"spec":{"fileSystemID":"fs-01","accessPointID":"fsap-01"}}`)
	cluster.Eventually(t, waitLimit, "the policies to be in force", func(ctx context.Context) error {
		for policy, err := range map[string]error{
			"sharedvolume-needs-grant": who.api.Create(ctx, other.DeepCopy(), client.DryRunAll),
			"sharedvolume-keeps-spec":  env.client.Patch(ctx, specless.DeepCopy(), fill, client.DryRunAll),
		} {
			if err == nil || !strings.Contains(err.Error(), policy) {
				return fmt.Errorf("%s: %v", policy, err)
			}
		}
		return nil
	})

	env.refused("not listed", who.api.Create(t.Context(), other),
		"namespace "+who.namespace+" may not use access point fsap-02 of file system fs-01: SharedVolumeGrant "+who.namespace+" does not list it")
	late := newVolume(who.namespace, "late")
	late.Spec = v1alpha1.SharedVolumeSpec{}
	env.refused("without spec", who.api.Create(t.Context(), late), "spec must name the file system and the access point from the beginning")
	env.refused("filled in later", env.client.Patch(t.Context(), specless.DeepCopy(), fill), "the spec of a SharedVolume cannot be added or changed later")

	own := volumeOf(who.namespace, "own", "fs-01", "fsap-01")
	env.do("create", who.api.Create(t.Context(), own))
	env.ready(own)
	// Without a grant in the namespace, it is the controller that refuses.
	none := volumeOf(env.Namespace(t), "none", "fs-01", "fsap-01")
	env.do("create", env.client.Create(t.Context(), none))
	env.ungranted(none, "there is no SharedVolumeGrant")
	// The controller's own updates pass, also when the grant is gone.
	env.do("take back", env.client.Delete(t.Context(), &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: who.namespace}}))
	for _, sv := range []*v1alpha1.SharedVolume{own, specless, none} {
		env.do("delete", env.client.Delete(t.Context(), sv))
		env.gone(sv)
	}
	env.checkTypes("sharedvolume-needs-grant", "sharedvolume-keeps-spec")
}

// checkTypes lets Kubernetes type-check the policies' expressions.
func (env testEnv) checkTypes(policies ...string) {
	env.t.Helper()
	for _, name := range policies {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		env.eventually("the types to be checked", policy, func() error {
			if policy.Status.ObservedGeneration != policy.Generation {
				return errors.New("they are not")
			}
			return nil
		})
		if checked := policy.Status.TypeChecking; checked == nil || len(checked.ExpressionWarnings) > 0 {
			env.t.Errorf("%s: %+v", name, checked)
		}
	}
}
