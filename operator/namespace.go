package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// A namesake is a DaemonSet with the name of one of the driver's that this operator or an earlier one
// made.
type namesake struct {
	namespace string
	managed   bool // by this operator
}

// namesakes finds them in all namespaces. The nodes' part of a driver tells where the driver is: every
// version of a driver has it, and volumes hang on it.
func (o *operator) namesakes(ctx context.Context, c client.Client) ([]namesake, error) {
	names, err := o.daemonSetNames()
	if err != nil {
		return nil, err
	}
	var found []namesake
	for _, name := range names {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSetList"))
		if err := c.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
			return nil, fmt.Errorf("looking for DaemonSets named %s: %w", name, err)
		}
		for _, daemonSet := range list.Items {
			if o.ours(&daemonSet) {
				found = append(found, namesake{daemonSet.Namespace, o.managed(&daemonSet)})
			}
		}
	}
	return found, nil
}

func (o *operator) daemonSetNames() ([]string, error) {
	manifests, err := o.manifests("", anyImage)
	var names []string
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		names = append(names, m.Object.GetName())
	}
	return names, err
}

func namespacesOf(found []namesake) []string {
	set := map[string]bool{}
	for _, n := range found {
		set[n.namespace] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// locate returns the namespace that the driver is in, or shall be in: the one that its ClusterCSIDriver
// names, or else the one that the cluster shows.
func (o *operator) locate(ctx context.Context, c *clients) (string, error) {
	custom, err := c.customResource.GetObjectMeta()
	if err != nil {
		return "", err
	}
	if namespace := custom.Annotations[namespaceAnnotation]; namespace != "" {
		return namespace, nil
	}
	found, err := o.namesakes(ctx, c.objects)
	return chooseNamespace(cmp.Or(o.driver.Namespace, o.namespace), found), err
}

// chooseNamespace returns where the driver was found. Of several places that is the driver's own namespace,
// or the operator's if it has none, or else one where this operator was at work before; where there is none,
// the own one.
func chooseNamespace(own string, found []namesake) string {
	if len(found) == 0 {
		return own
	}
	rank := func(n namesake) int {
		switch {
		case n.namespace == own:
			return 0
		case n.managed:
			return 1
		}
		return 2
	}
	return slices.MinFunc(found, func(a, b namesake) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.namespace, b.namespace))
	}).namespace
}

// newNamespaceController tells in a condition where else the driver is. Of two drivers on a node only
// one can serve volumes, and only a person can say which one is not needed.
func (o *operator) newNamespaceController(c *clients) (factory.Controller, error) {
	names, err := o.daemonSetNames()
	if err != nil {
		return nil, err
	}
	watched := []factory.Informer{c.customResource.Informer()}
	var daemonSets []cache.SharedIndexInformer
	for _, name := range names {
		informer := c.daemonSetsNamed(name)
		daemonSets, watched = append(daemonSets, informer), append(watched, informer)
	}
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		var others []string
		for _, informer := range daemonSets {
			for _, object := range informer.GetStore().List() {
				if daemonSet := object.(metav1.Object); daemonSet.GetNamespace() != c.namespace && o.ours(daemonSet) {
					others = append(others, daemonSet.GetNamespace()+"/"+daemonSet.GetName())
				}
			}
		}
		if len(others) == 0 {
			return o.reportNamespace(ctx, c, operatorv1.ConditionFalse, "AsExpected", "")
		}
		slices.Sort(others)
		return o.reportNamespace(ctx, c, operatorv1.ConditionTrue, "SeveralDrivers", fmt.Sprintf(
			"the driver is in namespace %s, as the annotation %s says, but there are further DaemonSets of it, which are left as they are: %s. "+
				"Only one can serve volumes on a node: delete the others, and who made them",
			c.namespace, namespaceAnnotation, strings.Join(others, ", ")))
	}
	return factory.New().WithInformers(watched...).WithSync(sync).
		ToController(o.driver.ConditionPrefix+"DriverNamespaceController", o.recorder), nil
}

// reportNamespace writes the condition that tells what is wrong with where the driver is.
func (o *operator) reportNamespace(ctx context.Context, c *clients, degraded operatorv1.ConditionStatus, reason, message string) error {
	name := o.driver.ConditionPrefix + "DriverNamespace"
	err := c.customResource.ApplyOperatorStatus(ctx, name, applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(name+operatorv1.OperatorStatusTypeDegraded).
			WithStatus(degraded).WithReason(reason).WithMessage(message)))
	if apierrors.IsNotFound(err) {
		return nil // the ClusterCSIDriver is gone, and this controller about to end
	}
	return err
}
