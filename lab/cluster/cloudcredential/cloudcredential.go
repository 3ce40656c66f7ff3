// Package cloudcredential is a substitute for OpenShift's cloud credential operator, without a cloud. It behaves like
// that operator towards the rest of the cluster. It creates the Secret of each CredentialsRequest: for AWS with a key
// pair that opens nothing, or with the configuration for assuming a role with a service account token; for OpenStack,
// GCP, Azure and vSphere with a copy of the cluster's own credentials.
package cloudcredential

import (
	"context"
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// fieldManager is the field manager of all writes.
const fieldManager = "cloud-credential-operator"

var (
	requestResource = requestGroupVersion.WithResource("credentialsrequests")
	configResource  = operatorv1.GroupVersion.WithResource("cloudcredentials")
)

// operator reconciles the CredentialsRequests of a cluster.
type operator struct {
	requests   dynamic.ResourceInterface
	configs    dynamic.ResourceInterface
	secrets    typedcorev1.SecretsGetter
	requested  cache.GenericLister
	namespaces corelisters.NamespaceLister
	existing   corelisters.SecretLister
}

// Run reconciles the CredentialsRequests in the operator's namespace until ctx is done. The definitions of
// CredentialsRequest and CloudCredential must exist.
func Run(ctx context.Context, cfg *rest.Config) error {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), fieldManager)
	cfg.QPS = -1 // Tests wait for it, and it writes little.
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	custom, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	core := informers.NewSharedInformerFactory(kube, 0)
	requests := dynamicinformer.NewFilteredDynamicSharedInformerFactory(custom, 0, Namespace, nil)
	configs := dynamicinformer.NewDynamicSharedInformerFactory(custom, 0)

	o := &operator{
		requests:   custom.Resource(requestResource).Namespace(Namespace),
		configs:    custom.Resource(configResource),
		secrets:    kube.CoreV1(),
		requested:  requests.ForResource(requestResource).Lister(),
		namespaces: core.Core().V1().Namespaces().Lister(),
		existing:   core.Core().V1().Secrets().Lister(),
	}
	controller := factory.New().
		WithInformersQueueKeysFunc(keyOfRequest, requests.ForResource(requestResource).Informer()).
		WithInformersQueueKeysFunc(o.keysOfSecret, core.Core().V1().Secrets().Informer()).
		WithInformersQueueKeysFunc(o.keysOfAll, core.Core().V1().Namespaces().Informer(), configs.ForResource(configResource).Informer()).
		WithSync(o.sync).
		ToController("CloudCredential", events.NewLoggingEventRecorder(fieldManager, clock.RealClock{}))

	core.Start(ctx.Done())
	requests.Start(ctx.Done())
	configs.Start(ctx.Done())
	controller.Run(ctx, 1)
	return nil
}

func keyOfRequest(object runtime.Object) []string {
	return []string{object.(metav1.Object).GetName()}
}

// keysOfSecret returns the key of the request of a Secret, so that the Secret is recreated when somebody deletes or
// changes it. A change of the cluster's own credentials affects all requests.
func (o *operator) keysOfSecret(object runtime.Object) []string {
	if secret := object.(metav1.Object); secret.GetNamespace() == RootNamespace && slices.Contains(slices.Collect(maps.Values(roots)), secret.GetName()) {
		return o.keysOfAll(object)
	}
	if name, found := ownerOf(object.(metav1.Object)); found {
		return []string{name}
	}
	return nil
}

// keysOfAll returns the keys of all requests: any may be waiting for a new namespace or for the mode.
func (o *operator) keysOfAll(runtime.Object) []string {
	objects, err := o.requested.List(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []string
	for _, object := range objects {
		keys = append(keys, keyOfRequest(object)...)
	}
	return keys
}

// sync reconciles one request. A conflict means that the request has a newer version, whose event triggers the next
// call.
func (o *operator) sync(ctx context.Context, syncContext factory.SyncContext) error {
	name := syncContext.QueueKey()
	if err := o.serve(ctx, name); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("CredentialsRequest %s: %w", name, err)
	}
	return nil
}

// serve reconciles the Secret and the status of a request.
func (o *operator) serve(ctx context.Context, name string) error {
	object, err := o.requested.ByNamespace(Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := parse(object.(*unstructured.Unstructured))
	if err != nil {
		return err
	}
	if r.object.GetDeletionTimestamp() != nil {
		return o.release(ctx, r)
	}
	mode, err := o.mode(ctx)
	if err != nil || !r.isServed(mode) {
		return err
	}
	if added := r.withFinalizer(); added != nil {
		_, err := o.requests.Update(ctx, added, metav1.UpdateOptions{FieldManager: fieldManager})
		return err // The change triggers another event.
	}
	if _, err := o.namespaces.Get(r.spec.SecretRef.Namespace); apierrors.IsNotFound(err) {
		return o.report(ctx, r.waiting(metav1.Now()))
	} else if err != nil {
		return err
	}
	var root *corev1.Secret
	if name := r.root(); name != "" {
		if root, err = o.existing.Secrets(RootNamespace).Get(name); apierrors.IsNotFound(err) {
			return nil // Its creation triggers an event.
		} else if err != nil {
			return err
		}
	}
	if err := o.provide(ctx, r, root); err != nil {
		return err
	}
	return o.report(ctx, r.provisioned(metav1.Now()))
}

// mode reads the cluster's credentials mode from the API server, not from a cache: the mode must apply to each request that is created
// after the mode was set.
func (o *operator) mode(ctx context.Context) (operatorv1.CloudCredentialsMode, error) {
	object, err := o.configs.Get(ctx, "cluster", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return operatorv1.CloudCredentialsModeDefault, nil
	}
	if err != nil {
		return "", err
	}
	mode, _, err := unstructured.NestedString(object.Object, "spec", "credentialsMode")
	return operatorv1.CloudCredentialsMode(mode), err
}

// provide writes the request's Secret unless it is up to date.
func (o *operator) provide(ctx context.Context, r request, root *corev1.Secret) error {
	existing, err := o.existing.Secrets(r.spec.SecretRef.Namespace).Get(r.spec.SecretRef.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	wanted := r.secret(existing, root)
	if existing != nil && isAsWanted(existing, wanted) {
		return nil
	}
	_, err = o.secrets.Secrets(*wanted.Namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// release deletes the Secret of a request that is being deleted, and removes the finalizer.
func (o *operator) release(ctx context.Context, r request) error {
	released := r.withoutFinalizer()
	if released == nil {
		return nil
	}
	ref := r.spec.SecretRef
	if err := o.secrets.Secrets(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := o.requests.Update(ctx, released, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// report writes a changed status; nil means unchanged.
func (o *operator) report(ctx context.Context, changed *unstructured.Unstructured) error {
	if changed == nil {
		return nil
	}
	_, err := o.requests.UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}
