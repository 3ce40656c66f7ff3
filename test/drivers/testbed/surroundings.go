package testbed

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/crypto"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/nfs"
	"github.com/berth-csi/berth/test/journey"
)

// Surroundings are the parts of OpenShift and of the cloud around a cluster that serve drivers and their pods, besides
// the servers that its nodes reach.
type Surroundings struct {
	cluster  *cluster.Cluster
	services *certificates // of Services
	closers  []func()
}

// Surround lets a cluster find OpenShift and a cloud around it. The cloud's fields Objects and Prepare are left to the caller. failed is
// told of errors that occur later.
func Surround(ctx context.Context, c *cluster.Cluster, cloud Cloud, failed func(error)) (_ *Surroundings, err error) {
	s := &Surroundings{cluster: c}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := admitUsers(ctx, c.Client()); err != nil {
		return nil, err
	}
	if err := s.serveCertificates(failed); err != nil {
		return nil, err
	}
	if err := s.injectCA(cloud.CA, failed); err != nil {
		return nil, err
	}
	if err := s.resolveNames(cloud.lookUp); err != nil {
		return nil, err
	}
	if cloud.NFS != nil {
		if err := s.serveFiles(cloud.NFS); err != nil {
			return nil, err
		}
	}
	if cloud.Platform != nil {
		return s, setPlatform(ctx, c.Client(), cloud.Platform)
	}
	return s, nil
}

// Close ends the servers of the cluster.
func (s *Surroundings) Close() {
	for _, stop := range slices.Backward(s.closers) {
		stop()
	}
}

// serveFiles gives the nodes' programs the mounts that an NFS server has promised them.
func (s *Surroundings) serveFiles(server *nfs.Server) error {
	for _, node := range Nodes {
		listener, err := s.cluster.ListenOn(node, "unix", nfs.Socket)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { listener.Close() })
		server.ServeNode(listener)
	}
	return nil
}

func setPlatform(ctx context.Context, c client.Client, platform *configv1.PlatformStatus) error {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(infrastructure), infrastructure); err != nil {
		return err
	}
	infrastructure.Spec.PlatformSpec = configv1.PlatformSpec{Type: platform.Type}
	if err := c.Update(ctx, infrastructure); err != nil {
		return err
	}
	infrastructure.Status.PlatformStatus = platform
	infrastructure.Status.Platform = platform.Type //lint:ignore SA1019 old operators still read it
	return c.Status().Update(ctx, infrastructure)
}

// userID is a user ID such as OpenShift chooses from a namespace's range.
const userID = 1000650000

// admitUsers acts like the admission of OpenShift's SecurityContextConstraints for pods that must not run as root and
// name no user: it chooses one, and a group for their volumes. Images of sidecars name no user.
func admitUsers(ctx context.Context, c client.Client) error {
	const name = "users.testbed.berth.test"
	meta := metav1.ObjectMeta{Name: name}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			},
		}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "not-root-but-no-user",
			Expression: "!object.spec.?securityContext.?runAsUser.hasValue() && (object.spec.?securityContext.?runAsNonRoot.orValue(false) || " +
				"object.spec.containers.exists(c, c.?securityContext.?runAsNonRoot.orValue(false) && !c.?securityContext.?runAsUser.hasValue()))",
		}},
		FailurePolicy:      new(admissionregistrationv1.Fail),
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: fmt.Sprintf(
				"Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: %[1]d, fsGroup: %[1]d}}}", userID)},
		}},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(ctx, object); err != nil {
			return err
		}
	}
	return cluster.Until(ctx, "the API server to choose users", func(ctx context.Context) error {
		yes := true
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "user-"},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
				Containers:      []corev1.Container{{Name: "main", Image: journey.UserImage}},
			},
		}
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if chosen := pod.Spec.SecurityContext.RunAsUser; chosen == nil || *chosen != userID {
			return fmt.Errorf("a pod got the user %v, want %d", chosen, userID)
		}
		return nil
	})
}

const servingCertAnnotation = "service.beta.openshift.io/serving-cert-secret-name"

// certificateLife is for how long certificates of Services are valid.
const certificateLife = 24 * time.Hour

// certificates acts like OpenShift's service CA operator: a Service that asks for a certificate gets it in a Secret.
type certificates struct {
	api kubernetes.Interface

	mu      sync.Mutex
	ca      *crypto.CA
	trusted *x509.CertPool // the CA's certificate
}

// renewCA makes a new CA for all certificates that follow.
func (c *certificates) renewCA() error {
	authority, err := crypto.MakeSelfSignedCAConfig("service-ca", certificateLife)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ca = &crypto.CA{Config: authority, SerialGenerator: &crypto.RandomSerialGenerator{}}
	c.trusted = x509.NewCertPool()
	for _, certificate := range authority.Certs {
		c.trusted.AddCert(certificate)
	}
	return nil
}

// secret returns a new certificate for a Service, and nil if the Service asks for none.
func (c *certificates) secret(service *corev1.Service) (*corev1.Secret, error) {
	name := service.Annotations[servingCertAnnotation]
	if name == "" {
		return nil, nil
	}
	c.mu.Lock()
	served, err := c.ca.MakeServerCert(sets.New(service.Name+"."+service.Namespace+".svc"), certificateLife)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	certificate, key, err := served.GetPEMBytes()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, err
}

// provide creates the Secret of a Service unless there is one.
func (c *certificates) provide(ctx context.Context, service *corev1.Service) error {
	secret, err := c.secret(service)
	if secret == nil || err != nil {
		return err
	}
	if _, err := c.api.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the certificate of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return nil
}

// renew gives all Services certificates of a new CA.
func (c *certificates) renew(ctx context.Context) error {
	if err := c.renewCA(); err != nil {
		return err
	}
	services, err := c.api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, service := range services.Items {
		secret, err := c.secret(&service)
		if err != nil {
			return err
		}
		if secret == nil {
			continue
		}
		if _, err := c.api.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("renew the certificate of Service %s/%s: %w", service.Namespace, service.Name, err)
		}
	}
	return nil
}

// serveCertificates provides all Services with certificates.
func (s *Surroundings) serveCertificates(failed func(error)) error {
	api, err := kubernetes.NewForConfig(s.cluster.Config())
	if err != nil {
		return err
	}
	s.services = &certificates{api: api}
	if err := s.services.renewCA(); err != nil {
		return err
	}
	serve := func(object any) {
		if err := s.services.provide(context.Background(), object.(*corev1.Service)); err != nil {
			failed(err)
		}
	}
	factory := informers.NewSharedInformerFactory(api, 0)
	if _, err := factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: serve, UpdateFunc: func(_, object any) { serve(object) },
	}); err != nil {
		return err
	}
	s.closers = append(s.closers, start(factory))
	return nil
}

// injectCA acts like OpenShift's cluster network operator: ConfigMaps that ask for it get the cluster's trusted
// certificates.
func (s *Surroundings) injectCA(bundle []byte, failed func(error)) error {
	const label, key = "config.openshift.io/inject-trusted-cabundle", "ca-bundle.crt"
	if len(bundle) == 0 {
		return nil
	}
	api, err := kubernetes.NewForConfig(s.cluster.Config())
	if err != nil {
		return err
	}
	inject := func(object any) {
		asks := object.(*corev1.ConfigMap)
		if asks.Data[key] == string(bundle) {
			return
		}
		apply := applycorev1.ConfigMap(asks.Name, asks.Namespace).WithData(map[string]string{key: string(bundle)})
		if _, err := api.CoreV1().ConfigMaps(asks.Namespace).Apply(context.Background(), apply, metav1.ApplyOptions{FieldManager: "cluster-network-operator", Force: true}); err != nil {
			failed(fmt.Errorf("inject the trusted CA bundle into ConfigMap %s/%s: %w", asks.Namespace, asks.Name, err))
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = label + "=true" }))
	if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: inject, UpdateFunc: func(_, object any) { inject(object) },
	}); err != nil {
		return err
	}
	s.closers = append(s.closers, start(factory))
	return nil
}

// start starts informers, and returns a function that stops them.
func start(factory informers.SharedInformerFactory) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	return func() {
		cancel()
		factory.Shutdown()
	}
}
