package operator_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/operator/controllers"
)

// The annotations with which Kubernetes knows the default class.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// TestDefaultClass: the class of a driver that its platform needs becomes the default of a fresh cluster, and of no other one.
// From then on, administrators decide.
func TestDefaultClass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		olm   bool // OLM runs the operator
		given []*storagev1.StorageClass
		then  func(c *defaultClasses)
		want  []string // the default classes in the end
	}{
		{name: "a fresh cluster", want: []string{"gp3-csi"}, then: func(c *defaultClasses) { c.restart() }},
		{name: "a fresh cluster, with OLM", olm: true},
		{name: "the in-tree class is the default", want: []string{"gp2"},
			given: []*storagev1.StorageClass{otherClass("gp2", "kubernetes.io/aws-ebs", defaultClass, "true")}},
		{name: "the in-tree class is no longer the default", given: []*storagev1.StorageClass{otherClass("gp2", "kubernetes.io/aws-ebs", defaultClass, "false")}},
		{name: "an administrator's class is the default", want: []string{"mine"},
			given: []*storagev1.StorageClass{otherClass("mine", "mine.example.com", betaDefaultClass, "true")}},
		{name: "the default moves when an administrator moves it", want: []string{"gp3-csi"},
			given: []*storagev1.StorageClass{otherClass("gp2", "kubernetes.io/aws-ebs", defaultClass, "true")},
			then: func(c *defaultClasses) {
				c.annotate("gp2", `"false"`)
				c.annotate("gp3-csi", `"true"`)
				c.restart()
				c.recreate()
			}},
		{name: "the annotation is removed", then: func(c *defaultClasses) {
			c.annotate("gp3-csi", "null")
			c.restart()
			c.recreate()
		}},
		{name: "the annotation is set to false, and the class deleted at once", then: func(c *defaultClasses) {
			c.annotate("gp3-csi", `"false"`)
			c.recreate()
			c.restart()
			c.recreate()
		}},
		{name: "the annotation is set to false, and the class deleted while the operator is away", then: func(c *defaultClasses) {
			c.annotate("gp3-csi", `"false"`)
			c.awaitRecord("false")
			c.stop()
			c.delete()
			c.start()
			c.awaitApplied(1)
		}},
		{name: "the default class is deleted", want: []string{"gp3-csi"}, then: func(c *defaultClasses) { c.recreate() }},
		{name: "the default class is deleted, and there is another", want: []string{"mine"}, then: func(c *defaultClasses) {
			c.env.create(otherClass("mine", "mine.example.com", defaultClass, "true"))
			c.recreate()
		}},
		{name: "an administrator has made another class the default", want: []string{"mine"}, then: func(c *defaultClasses) {
			c.annotate("gp3-csi", `"false"`)
			c.env.create(otherClass("mine", "mine.example.com", defaultClass, "true"))
			c.restart()
			c.recreate()
		}},
		{name: "another default comes at the same time", want: []string{"mine"}, then: func(c *defaultClasses) {
			c.stop()
			c.delete()
			c.beforeApply(func() { c.env.create(otherClass("mine", "mine.example.com", defaultClass, "true")) })
			c.start()
			c.awaitNoDefault()
		}},
		{name: "the annotation changes at the same time", then: func(c *defaultClasses) {
			c.stop()
			c.beforeApply(func() { c.annotate("gp3-csi", `"false"`) })
			c.start()
			c.awaitApplied(2)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newTestEnvWith(t, ebsDriver(t))
			if !tc.olm {
				env.makePermanent()
			}
			env.create(env.customResource())
			for _, class := range tc.given {
				env.create(class)
			}
			t.Cleanup(func() { // the test's classes are not the operator's
				for _, name := range []string{"gp2", "mine"} {
					class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
					assert.NoError(t, client.IgnoreNotFound(env.Client().Delete(context.Background(), class)))
				}
			})
			c := &defaultClasses{env: env}
			c.start()
			c.awaitApplied(1)
			if tc.then != nil {
				tc.then(c)
			}
			var got []string
			list := &storagev1.StorageClassList{}
			require.NoError(t, env.Client().List(t.Context(), list))
			for _, class := range list.Items {
				if class.Annotations[defaultClass] == "true" || class.Annotations[betaDefaultClass] == "true" {
					got = append(got, class.Name)
				}
			}
			assert.Empty(t, cmp.Diff(tc.want, got), "default classes (-want +got)")
			env.waitForConditions(allWell)
		})
	}
}

func otherClass(name, provisioner, annotation, value string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: value}}, Provisioner: provisioner}
}

// defaultClasses is a case with an operator whose class may be the default, and an administrator's actions.
type defaultClasses struct {
	env  *testEnv
	stop func()

	mu      sync.Mutex
	before  func() // called once, before the operator's next write to the class
	applied int    // how often the operator that runs has written the class
}

func (c *defaultClasses) start() {
	c.mu.Lock()
	c.applied = 0
	c.mu.Unlock()
	cfg := c.env.ServiceAccountConfig(c.env.t, c.env.namespace, "operator")
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodPatch || path.Base(request.URL.Path) != "gp3-csi" {
				return next.RoundTrip(request)
			}
			c.mu.Lock()
			before := c.before
			c.before = nil
			c.mu.Unlock()
			if before != nil {
				before()
			}
			response, err := next.RoundTrip(request)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.applied++
			return response, err
		})
	})
	c.stop = c.env.startOperatorWith(cfg)
}

// restart restarts the operator, and waits until it has applied its class.
func (c *defaultClasses) restart() {
	c.stop()
	c.start()
	c.awaitApplied(1)
}

// beforeApply has something happen just before the operator's next write to its class.
func (c *defaultClasses) beforeApply(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = do
}

func (c *defaultClasses) awaitApplied(times int) {
	c.env.t.Helper()
	cluster.Eventually(c.env.t, limit, "the operator to apply its class", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.applied < times {
			return fmt.Errorf("it has %d times", c.applied)
		}
		return nil
	})
}

func (c *defaultClasses) awaitNoDefault() {
	c.env.t.Helper()
	cluster.Eventually(c.env.t, limit, "the operator's class not to be the default", func(ctx context.Context) error {
		class := &storagev1.StorageClass{}
		if err := c.env.Client().Get(ctx, client.ObjectKey{Name: "gp3-csi"}, class); err != nil {
			return err
		}
		if value, ok := class.Annotations[defaultClass]; ok {
			return fmt.Errorf("it has the annotation, with the value %q", value)
		}
		return nil
	})
}

// awaitRecord waits until the ClusterCSIDriver says whether the class is the default.
func (c *defaultClasses) awaitRecord(want string) {
	c.env.t.Helper()
	cluster.Eventually(c.env.t, limit, "the record "+want, func(ctx context.Context) error {
		custom := c.env.customResource()
		if err := c.env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if got := custom.Annotations[controllers.DefaultStorageClassAnnotation]; got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// annotate sets the annotation of a class to a JSON value.
func (c *defaultClasses) annotate(name, value string) {
	c.env.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, defaultClass, value)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.env.Client().Patch(context.Background(), class, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.env.t.Errorf("annotating StorageClass %s: %v", name, err)
	}
}

func (c *defaultClasses) delete() types.UID {
	c.env.t.Helper()
	class := &storagev1.StorageClass{}
	require.NoError(c.env.t, c.env.Client().Get(c.env.t.Context(), client.ObjectKey{Name: "gp3-csi"}, class))
	require.NoError(c.env.t, c.env.Client().Delete(c.env.t.Context(), class))
	return class.UID
}

// recreate deletes the class, and waits until the operator has created it again.
func (c *defaultClasses) recreate() {
	c.env.t.Helper()
	before := c.delete()
	cluster.Eventually(c.env.t, limit, "the class to come back", func(ctx context.Context) error {
		class := &storagev1.StorageClass{}
		if err := c.env.Client().Get(ctx, client.ObjectKey{Name: "gp3-csi"}, class); err != nil {
			return err
		}
		if class.UID == before {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}
