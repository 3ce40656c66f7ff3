package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/community"
)

// A scenario is something that the operator has to complete despite faults.
type scenario struct {
	name string
	// installed says that it begins with an installed driver; otherwise it begins with nothing.
	installed bool
	// prepare creates what else exists at the beginning.
	prepare func(*run)
	// play performs the users' actions while the operator runs.
	play func(*run)
	// end returns an error until the operator has finished.
	end func(*variantEnv) error
	// violations returns the violated invariants.
	violations func(*run) []error
}

var scenarios = []scenario{install, adopt, uninstall}

func nothing(*run)            {}
func unviolated(*run) []error { return nil }

var install = scenario{
	name:       "install",
	prepare:    func(r *run) { r.create(r.customResource()) },
	play:       nothing,
	end:        isInstalled,
	violations: unviolated,
}

func isInstalled(env *variantEnv) error {
	custom := env.customResourceNow()
	if custom == nil {
		return errors.New("there is no ClusterCSIDriver")
	}
	for conditionType, status := range allWell {
		if got := condition(custom, conditionType); got.Status != status {
			return fmt.Errorf("condition %s is %q (%s: %s), want %q", conditionType, got.Status, got.Reason, got.Message, status)
		}
	}
	return nil
}

// adopt begins with the driver of the community operator, and with the finalizers of another one.
var adopt = scenario{
	name: "adopt",
	prepare: func(r *run) {
		r.unadopted = map[string]string{}
		objects, err := community.Driver(r.home, r.formerAPI)
		require.NoError(r.t, err)
		for _, object := range objects {
			object := r.renamed(object)
			r.create(object)
			r.unadopted[r.view.key(object.GetKind(), object.GetNamespace(), object.GetName())] = string(object.GetUID())
		}
		custom := r.customResource()
		custom.Finalizers = r.driver.History.Finalizers
		r.create(custom)
	},
	play: nothing,
	end:  isInstalled,
	violations: func(r *run) []error {
		var found []error
		for key, uid := range r.unadopted {
			switch now := r.view.object(key); {
			case now == nil:
				found = append(found, fmt.Errorf("%s is gone", key))
			case string(now.GetUID()) != uid:
				found = append(found, fmt.Errorf("%s was recreated: its UID was %s and is %s", key, uid, now.GetUID()))
			}
		}
		return found
	},
}

// nodeDriver serves the volumes.
const nodeDriver = "DaemonSet efs-csi-node"

// uninstall removes the driver while a pod uses a volume. Another pod starts to use one while the operator waits for the
// first.
var uninstall = scenario{
	name:      "uninstall",
	installed: true,
	prepare: func(r *run) {
		r.use("early")
		r.forgetConditions()
	},
	play: func(r *run) {
		r.deleteCustomResource()
		r.awaitBlockedBy("early")
		r.use("late")
		r.endUse("early")
		r.awaitBlockedBy("late")
		r.endUse("late")
	},
	end: func(env *variantEnv) error {
		if env.customResourceNow() != nil {
			return errors.New("the ClusterCSIDriver is still there")
		}
		return nil
	},
	violations: func(r *run) []error {
		gone := r.view.removal(nodeDriver)
		for _, user := range []string{"Pod early", "Pod late"} {
			if used := r.view.removal(user); gone < used {
				return []error{fmt.Errorf("the driver was removed while a volume was in use: %s went at resource version %d, %s at %d", nodeDriver, gone, user, used)}
			}
		}
		return nil
	},
}

// forgetConditions removes the conditions of the ClusterCSIDriver, so that new ones come from the running operator.
func (r *run) forgetConditions() {
	r.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":null}}`))
	require.NoError(r.t, r.Client().Status().Patch(context.Background(), r.customResource(), patch))
	r.await("the conditions to be gone", func() error {
		if len(r.customResourceNow().Status.Conditions) > 0 {
			return errors.New("they are not")
		}
		return nil
	})
}

// use creates a pod that uses a volume of the driver, and returns when it runs.
func (r *run) use(name string) {
	r.t.Helper()
	r.createUser(name, r.claimedVolume(r.variant.mark+name, name))
	r.await("the pod "+name+" to run", func() error {
		live := r.view.object("Pod " + name)
		if live == nil {
			return errors.New("it is not there")
		}
		if phase, _, _ := unstructured.NestedString(live.Object, "status", "phase"); phase != string(corev1.PodRunning) {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
}

func (r *run) endUse(name string) {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	require.NoError(r.t, r.Client().Delete(context.Background(), pod))
	r.await("the pod "+name+" to end", func() error {
		if r.view.object("Pod "+name) != nil {
			return errors.New("it has not")
		}
		return nil
	})
}

// awaitBlockedBy waits until the operator reports that exactly one pod blocks the removal.
func (r *run) awaitBlockedBy(name string) {
	r.t.Helper()
	r.awaitOperator("to wait for the pod "+name, func() error {
		custom := r.customResourceNow()
		if custom == nil || r.view.object(nodeDriver) == nil {
			r.t.Fatalf("the driver was removed while the pod %s uses one of its volumes", name)
		}
		got := condition(custom, r.driver.ConditionPrefix+"UninstallProgressing")
		if got.Reason != "VolumesInUse" || !strings.Contains(got.Message, "by 1 pod") || !strings.Contains(got.Message, "/"+name) {
			return fmt.Errorf("it says: %s: %s", got.Reason, got.Message)
		}
		return nil
	})
}
