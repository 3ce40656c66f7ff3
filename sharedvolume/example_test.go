package sharedvolume_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocumentedExample runs the example in docs/operate/sharedvolume.md.
func TestDocumentedExample(t *testing.T) {
	env := served(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	env.do("create", env.client.Create(t.Context(), namespace))
	t.Cleanup(func() { env.do("delete", env.client.Delete(context.Background(), namespace)) })
	text, err := os.ReadFile("../docs/operate/sharedvolume.md")
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
		object := &unstructured.Unstructured{}
		env.do("read", yaml.Unmarshal(block[1], object))
		env.do("create", env.client.Create(t.Context(), object, client.FieldValidation(metav1.FieldValidationStrict)))
		kinds[object.GetKind()]++
	}
	if kinds["SharedVolume"] != 1 || kinds["Deployment"] != 1 {
		t.Fatalf("the page shows %v, want a SharedVolume and a Deployment", kinds)
	}
	website := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "website"}}
	env.eventually("the pods to run", website, func() error {
		if website.Status.AvailableReplicas < *website.Spec.Replicas {
			return fmt.Errorf("%+v", website.Status)
		}
		return nil
	})
}
