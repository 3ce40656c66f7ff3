package prediction

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/berth-csi/berth/olm/refusal"
)

// apiReader reads CRDs and custom resources of the cluster. It reads on demand, because there may be many.
type apiReader struct {
	crds    apiextensionsclient.CustomResourceDefinitionInterface
	objects dynamic.Interface
}

func newAPIReader(config *rest.Config) (*apiReader, error) {
	definitions, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &apiReader{definitions.CustomResourceDefinitions(), objects}, nil
}

// crd returns a CRD by name, or nil if it does not exist.
func (s *apiReader) crd(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd, err := s.crds.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}

// each calls a function for every object of a resource, until the function fails.
func (s *apiReader) each(ctx context.Context, resource schema.GroupVersionResource, do func(*unstructured.Unstructured) error) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := s.objects.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		return list, nil
	})
	// Anybody who may use an API can store any number of objects, each as large as the API server takes.
	pages.PageSize, pages.PageBufferSize = 50, 1
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error { return do(o.(*unstructured.Unstructured)) })
}

// liveCluster is a refusal.Cluster that reads a real cluster on demand.
type liveCluster struct {
	kinds   meta.RESTMapper
	objects dynamic.Interface
}

// ClusterOf returns the cluster that OLM v1 compares bundles with.
func ClusterOf(config *rest.Config) (refusal.Cluster, error) {
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	kinds, err := apiutil.NewDynamicRESTMapper(config, over)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(config, over)
	if err != nil {
		return nil, err
	}
	return &liveCluster{kinds, objects}, nil
}

func (c *liveCluster) Serves(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	_, err := c.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server whether it serves %s: %w", kind, err)
	}
	return true, nil
}

func (c *liveCluster) Find(ctx context.Context, o refusal.Object) (*unstructured.Unstructured, error) {
	mapping, err := c.kinds.RESTMapping(o.GroupKind(), o.Version)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o, err)
	}
	var objects dynamic.ResourceInterface = c.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		objects = c.objects.Resource(mapping.Resource).Namespace(o.Namespace)
	}
	found, err := objects.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o, err)
	}
	return found, nil
}
